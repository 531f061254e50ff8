"""Places as a reader expects them: paths relative to the working directory, lines of a notebook by cell."""

from __future__ import annotations

from dataclasses import replace

from compilelint.model import Evidence, Failure, Finding, Report, Span, Step, TargetRun
from compilelint.source import Sources


def placed(report: Report, sources: Sources) -> Report:
    """The report with what the workers saw placed as the static pass places it; workers report absolute paths.

    A line that a message speaks of is, in a notebook, named by its cell.
    """
    prefix = f"{sources.cwd.as_posix().rstrip('/')}/"

    def path(text: str) -> str:
        return text.removeprefix(prefix)

    def steps(trail: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(replace(step, path=path(step.path)) for step in trail)

    def evidence(items: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
        return tuple(replace(item, path=path(item.path), stack=steps(item.stack)) for item in items)

    def finding(item: Finding) -> Finding:
        return replace(
            item,
            path=path(item.path),
            region=steps(item.region),
            definition=item.definition and replace(item.definition, path=path(item.definition.path)),
            evidence=evidence(item.evidence),
            message=sources.by_cell(item.message, item.path),
            instead=sources.by_cell(item.instead, item.path),
        )

    def run(item: TargetRun) -> TargetRun:
        raised = item.fullgraph and replace(item.fullgraph, path=item.fullgraph.path and path(item.fullgraph.path))
        return replace(item, evidence=evidence(item.evidence), fullgraph=raised)

    findings = tuple(finding(item) for item in report.findings)
    return replace(report, findings=findings, targets=tuple(run(item) for item in report.targets))


def line_in_file(failure: Failure, sources: Sources) -> int | None:
    """The line of the file that a failure is about, None where it has none."""
    if failure.line is None:
        return None
    return sources.in_file(failure.path, Span(failure.line, 1, failure.line, 1)).line
