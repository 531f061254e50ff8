"""Enumerations of the project: what their members are."""

from __future__ import annotations

from compilelint.static.project.definitions import ClassRef
from compilelint.static.project.program import Program


def is_enum(ref: ClassRef, program: Program) -> bool:
    """Whether a class is an enumeration."""
    return any(
        isinstance(base, str) and base.rpartition(".")[2].endswith(("Enum", "Flag")) for base in program.mro(ref)
    )


def is_text_enum(ref: ClassRef, program: Program) -> bool:
    """Whether the members of a class are texts too: `class Mode(str, Enum)`, `class Mode(StrEnum)`."""
    bases = {base.rpartition(".")[2] for base in program.mro(ref) if isinstance(base, str)}
    return "StrEnum" in bases or ("str" in bases and is_enum(ref, program))
