"""Counting: the summary line and the statistics table, the same in every format for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from compilelint.model import VERDICTS, Finding, Report


def one_line(text: str) -> str:
    """Text of somebody else's for a terminal or table: on one line, and without control characters."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(filter(str.isprintable, line))


def plural(count: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def verdict_counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many findings have each verdict, in the model's order, without zeroes."""
    counts = Counter(finding.verdict for finding in findings)
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def summary_line(report: Report) -> str:
    """What was found in how much, what the baseline knows of, and what failed, in one sentence."""
    counts = verdict_counts(report.findings)
    found = f"Found {plural(len(report.findings), 'finding')}" if report.findings else "No findings"
    parts = [f"{count} {verdict}" for verdict, count in counts.items() if verdict != "static"]
    split = f" ({', '.join(parts)})" if parts else ""
    where = f" in {plural(report.files, 'file')}" if report.files else ""
    known = f"; {report.accepted:,} more in the baseline" if report.accepted else ""
    failed = f"; {plural(len(report.failures), 'input')} could not be checked" if report.failures else ""
    died = [run.name for run in report.targets if run.status != "ok"]
    dead = f"; {plural(len(died), 'target')} did not finish" if died else ""
    return f"{found}{split}{where}{known}{failed}{dead}."


def closing_lines(report: Report) -> list[str]:
    """What ends a report for people: the sentence that sums up, and what can be fixed if that is known."""
    fixes = [[fix.safety for fix in finding.fixes if fix.verified is not False] for finding in report.findings]
    safe = sum("safe" in offered for offered in fixes)
    unsafe = sum(offered != [] and "safe" not in offered for offered in fixes)
    if safe:
        more = f", {unsafe:,} more with --unsafe-fixes" if unsafe else ""
        return [summary_line(report), f"{safe:,} can be fixed with --fix{more}."]
    if unsafe:
        return [summary_line(report), f"{unsafe:,} can be fixed with --fix --unsafe-fixes."]
    return [summary_line(report)]


def statistics_lines(findings: Sequence[Finding]) -> list[str]:
    """One line per rule, most frequent first: count, code, name."""
    counts = Counter((finding.rule, finding.name) for finding in findings)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    width = len(str(ordered[0][1])) if ordered else 0
    return [f"{count:>{width}}  {rule}  {name}" for (rule, name), count in ordered]
