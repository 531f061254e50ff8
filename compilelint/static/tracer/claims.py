"""Whether what an annotation claims speaks against what was inferred."""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING

from compilelint.static.values import NONE, UNKNOWN, Array, Instance, Scalar, Tensor, Unknown, Value, options

if TYPE_CHECKING:
    from compilelint.static.tracer.tracer import Tracer


def contradicts(value: Value, declared: Value, tracer: Tracer) -> bool:
    """Whether a tensor was inferred where the annotation says flag or text, or guessed where it says something else."""
    if not isinstance(value, Tensor) or declared == UNKNOWN:
        return False
    if not value.sure:
        return not any(_may_be_tensor(option, tracer) for option in options(declared))
    types = {option.type if isinstance(option, Scalar) else "" for option in options(declared) if option != NONE}
    return types <= {"bool", "str"}


def _may_be_tensor(declared: Value, tracer: Tracer) -> bool:
    """Whether what an annotation names may stand for a tensor: arrays do where code is compiled, subclasses do."""
    if isinstance(declared, Instance):
        foreign = [base for base in tracer.program.mro(declared.ref) if isinstance(base, str) and not _of_python(base)]
        return bool(foreign) and not declared.is_module
    return isinstance(declared, (Tensor, Array, Unknown))


def _of_python(base: str) -> bool:
    """Whether a class is a built-in one or of the standard library: `str`, `enum.Enum`."""
    return hasattr(builtins, base) or base.partition(".")[0] in sys.stdlib_module_names
