"""Paths as a reader expects them: relative to the working directory where they lie below it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from compilelint.model import Evidence, Finding, Report, Step, TargetRun


def relative_to(report: Report, cwd: Path) -> Report:
    """The report with what the workers saw placed as the static pass places it; workers report absolute paths."""
    prefix = f"{cwd.as_posix().rstrip('/')}/"

    def path(text: str) -> str:
        return text.removeprefix(prefix)

    def steps(trail: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(replace(step, path=path(step.path)) for step in trail)

    def evidence(items: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
        return tuple(replace(item, path=path(item.path), stack=steps(item.stack)) for item in items)

    def finding(item: Finding) -> Finding:
        return replace(item, path=path(item.path), region=steps(item.region), evidence=evidence(item.evidence))

    def run(item: TargetRun) -> TargetRun:
        raised = item.fullgraph and replace(item.fullgraph, path=item.fullgraph.path and path(item.fullgraph.path))
        return replace(item, evidence=evidence(item.evidence), fullgraph=raised)

    findings = tuple(finding(item) for item in report.findings)
    return replace(report, findings=findings, targets=tuple(run(item) for item in report.targets))
