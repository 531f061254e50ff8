"""GitHub Actions workflow commands: annotations on the lines of a pull request.

GitHub shows ten errors, ten warnings and ten notices per step and drops the rest without a word (workflow commands
documentation, "Limits"), so the worst come first and a last line counts what will not be seen.
"""

from __future__ import annotations

from collections import Counter

from compilelint.model import Finding, Report
from compilelint.report import Look
from compilelint.report.places import line_in_file
from compilelint.report.rank import Level, level, ranked
from compilelint.source import Sources

COMMAND: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
SHOWN_PER_COMMAND = 10


def workflow_commands(report: Report, look: Look) -> str:
    """One workflow command per finding, failure and dead target, worst first."""
    lines = [
        _command(
            "error",
            failure.message,
            "compilelint",
            {"file": failure.path, "line": line_in_file(failure, look.sources)},
        )
        for failure in report.failures
    ]
    lines += [
        _command("error", f"target {run.name}: {run.detail or run.status}", f"compilelint: {run.status}", {})
        for run in report.targets
        if run.status != "ok"
    ]
    lines += [_annotation(finding, look.sources) for finding in ranked(report.findings)]
    counts = Counter(line.split(" ", 1)[0] for line in lines)
    hidden = sum(max(count - SHOWN_PER_COMMAND, 0) for count in counts.values())
    if hidden:
        lines.append(f"{hidden} more; GitHub shows {SHOWN_PER_COMMAND} of each level per step, worst first")
    return "".join(f"{line}\n" for line in lines)


def _annotation(finding: Finding, sources: Sources) -> str:
    span = sources.in_file(finding.path, finding.span)
    place: dict[str, str | int | None] = {"file": finding.path, "line": span.line, "endLine": span.end_line}
    if span.line == span.end_line:  # the Checks API takes columns only where a finding is on one line
        place |= {"col": span.column, "endColumn": span.end_column}
    seen = "" if finding.verdict == "static" else f" ({finding.verdict})"
    text = [finding.message]
    text += [f"{item.target}: {item.gb or item.channel}: {item.reason}" for item in finding.evidence]
    if finding.instead:
        text.append(f"Instead: {finding.instead}")
    return _command(COMMAND[level(finding)], "\n".join(text), f"{finding.rule} {finding.name}{seen}", place)


def _command(name: str, message: str, title: str, place: dict[str, str | int | None]) -> str:
    properties = {**place, "title": title}
    written = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value is not None)
    return f"::{name} {written}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str | int) -> str:
    return _data(str(value)).replace(":", "%3A").replace(",", "%2C")
