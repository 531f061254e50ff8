"""How bad a finding is: one order and one three-step level for every format that has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from compilelint.model import CONFIDENCES, Finding, Hazard, Verdict

Level = Literal["error", "warning", "note"]

LEVELS: tuple[Level, ...] = ("error", "warning", "note")

# What each costs, worst first: a wrong result, then no graph at all, then a graph in parts, then what is paid again
# and again.
COST: tuple[Hazard, ...] = (
    "stale-result",
    "frame-skip",
    "graph-break",
    "recompile",
    "cudagraph-skip",
    "host-sync",
    "placement",
    "suppression",
)
TRUST: tuple[Verdict, ...] = ("confirmed", "runtime-only", "static", "not-reached", "handled")

LOSES_THE_GRAPH = frozenset({"stale-result", "frame-skip", "graph-break"})


def level(finding: Finding) -> Level:
    """`error`: a graph is lost or a result wrong, and that is seen or certain. `note`: refuted, or only possible."""
    if finding.verdict == "handled" or finding.hazard == "suppression":
        return "note"
    if finding.verdict in ("confirmed", "runtime-only"):
        return "error" if finding.hazard in LOSES_THE_GRAPH else "warning"
    if finding.confidence == "possible":
        return "note"
    return "error" if finding.confidence == "certain" and finding.hazard in LOSES_THE_GRAPH else "warning"


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first; equal ones by place, so that equal input gives equal output."""
    return sorted(findings, key=_rank)


def by_place(findings: Iterable[Finding]) -> list[Finding]:
    """In the order in which a reader meets them."""
    return sorted(findings, key=lambda f: (f.path, f.span.line, f.span.column, f.rule))


def _rank(finding: Finding) -> tuple[int, int, int, int, str, int, int, str]:
    return (
        LEVELS.index(level(finding)),
        TRUST.index(finding.verdict),
        COST.index(finding.hazard),
        CONFIDENCES.index(finding.confidence),
        finding.path,
        finding.span.line,
        finding.span.column,
        finding.rule,
    )
