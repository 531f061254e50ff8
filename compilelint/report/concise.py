"""One line per finding, in the form that editors and grep know: `path:line:column: CODE message`.

In a notebook the place is `path:cell 3:line:column`, as ruff writes it.
"""

from __future__ import annotations

from compilelint.model import Finding, Report
from compilelint.report import Look
from compilelint.report.rank import by_place
from compilelint.report.tally import closing_lines, one_line, statistics_lines
from compilelint.source import Sources


def concise(report: Report, look: Look) -> str:
    """The findings by place, the targets that died, and what sums up."""
    lines = [_line(finding, look.sources) for finding in by_place(report.findings)]
    lines += [
        f"target {one_line(run.name)}: {run.status}: {one_line(run.detail)}"
        for run in report.targets
        if run.status != "ok"
    ]
    if look.statistics:
        lines = statistics_lines(report.findings)
    if not look.quiet:
        lines += closing_lines(report)
    return "".join(f"{line}\n" for line in lines)


def _line(finding: Finding, sources: Sources) -> str:
    seen = "" if finding.verdict == "static" else f" [{finding.verdict}]"
    place = one_line(sources.place(finding.path, finding.span.line, finding.span.column))
    return f"{place}: {finding.rule} {one_line(finding.message)}{seen}"
