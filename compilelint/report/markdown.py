"""Markdown for a CI job's summary page: counts, targets, and the worst findings as a table."""

from __future__ import annotations

from collections.abc import Iterable

from compilelint.model import Finding, Report, TargetRun
from compilelint.report import Look
from compilelint.report.rank import ranked
from compilelint.report.tally import one_line, summary_line
from compilelint.source import Sources

SHOWN = 50


def summary(report: Report, look: Look) -> str:
    """A heading, one line that sums up, and up to two tables; findings worst first."""
    parts = [f"## compilelint\n\n{summary_line(report)}\n"]
    if report.findings:
        findings = ranked(report.findings)
        parts.append(
            _table(("Where", "Rule", "What", "Verdict"), [_row(finding, look.sources) for finding in findings[:SHOWN]])
        )
        if len(findings) > SHOWN:
            parts.append(f"{len(findings) - SHOWN} more are in the full report.\n")
    if report.targets:
        parts.append(_table(("Target", "Status", "Device", "torch", "fullgraph"), map(_target, report.targets)))
    if report.failures:
        parts.append("".join(f"- `{failure.path}`: {_cell(failure.message)}\n" for failure in report.failures))
    return "\n".join(parts)


def _row(finding: Finding, sources: Sources) -> tuple[str, ...]:
    ids = sorted({evidence.gb for evidence in finding.evidence if evidence.gb})
    verdict = " ".join([finding.verdict, *ids])
    place = f"`{sources.place(finding.path, finding.span.line)}`"
    return place, f"{finding.rule} {finding.name}", _cell(finding.message), verdict


def _target(run: TargetRun) -> tuple[str, ...]:
    fullgraph = "-" if run.fullgraph is None else "passes" if run.fullgraph.passes else "raises"
    status = run.status if run.status == "ok" else f"**{run.status}** {_cell(run.detail)}"
    return _cell(run.name), status, run.device, run.torch, fullgraph


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")
