"""Reporters: one module per output format, each a function from a Report to text.

They know compilelint.model only, and are imported only when their format was asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Literal, get_args

from compilelint.model import Report
from compilelint.record import record
from compilelint.source import Sources

Format = Literal["full", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit", "markdown"]

FORMATS: tuple[Format, ...] = get_args(Format)

SHOWS_FIXES: frozenset[Format] = frozenset({"full", "json", "jsonl", "sarif"})

_MODULES: dict[Format, tuple[str, str]] = {
    "full": ("console", "full"),
    "concise": ("concise", "concise"),
    "json": ("json", "whole"),
    "jsonl": ("json", "lines"),
    "sarif": ("sarif", "sarif"),
    "github": ("github", "workflow_commands"),
    "gitlab": ("gitlab", "code_quality"),
    "junit": ("junit", "junit"),
    "markdown": ("markdown", "summary"),
}


def _silent(message: str) -> None:
    """Where nobody listens to a reporter's warnings."""


@record(frozen=True, slots=True)
class Look:
    """What a reporter may know besides the report.

    `width` None: the terminal's, or 100 columns where there is none. `quiet`: without the line that sums up.
    `category`: SARIF's automationDetails.id. `warn` takes one line about what a format had to leave out.
    """

    sources: Sources
    colour: bool = False
    width: int | None = None
    statistics: bool = False
    quiet: bool = False
    category: str = ""
    warn: Callable[[str], None] = _silent


def render(report: Report, format: Format, look: Look) -> str:
    """The report as text in `format`, ending in a newline unless empty."""
    if format == "full" and not (report.findings or report.targets or look.colour):
        from compilelint.report.tally import summary_line

        return "" if look.quiet else f"{summary_line(report)}\n"  # nothing to lay out: rich takes long to import
    module, function = _MODULES[format]
    text: str = getattr(importlib.import_module(f"compilelint.report.{module}"), function)(report, look)
    return text
