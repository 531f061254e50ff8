"""The format for people: source excerpts with the span marked, call paths, the compiler's words, what to write."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from rich.console import Console
from rich.text import Text

from compilelint.model import Evidence, Finding, Report, Step
from compilelint.report import Look
from compilelint.report.excerpt import Excerpt
from compilelint.report.rank import by_place, level
from compilelint.report.tally import closing_lines, one_line, statistics_lines
from compilelint.report.target_table import target_table
from compilelint.source import Sources

LEVEL_STYLE = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
BADGE = {
    "confirmed": ("confirmed", "bold white on red"),
    "runtime-only": ("runtime only", "bold white on magenta"),
    "handled": ("handled", "black on green"),
    "not-reached": ("not reached", "black on white"),
    "static": ("", ""),
}
GUTTER = 6
ALIGNED_LABEL = 12
LABEL = 6


@dataclass(frozen=True, slots=True)
class Labelled:
    """A line of a note that begins with a word of its own, under which further lines do not begin."""

    label: str
    text: str


def full(report: Report, look: Look) -> str:
    """Every finding in the order of the source, then targets, counts and what sums up."""
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=look.colour,
        color_system="auto" if look.colour else None,
        no_color=not look.colour,
        width=look.width or max(shutil.get_terminal_size((100, 24)).columns, 40),
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    excerpt = Excerpt(look.sources, console.width - GUTTER - 2, look.colour)
    own, foreign = _apart(by_place(report.findings))
    for finding in own:
        _print_finding(console, finding, excerpt, look.sources)
    if foreign:
        console.rule(Text("in code outside this folder"), style="dim", align="left")
        console.print()
    for finding in foreign:
        _print_finding(console, finding, excerpt, look.sources)
    if report.targets:
        console.print(target_table(report.targets))
        _print_detail(console, report)
    if look.statistics:
        for line in statistics_lines(report.findings):
            console.print(line)
        console.print()
    if not look.quiet:
        for line in closing_lines(report):
            console.print(line, style="bold" if report.findings else "bold green", soft_wrap=True)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().split("\n")[:-1])


def _apart(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Findings here, and those elsewhere; all are 'here' if the user looks at another folder altogether."""
    foreign = [finding for finding in findings if PurePath(finding.path).is_absolute()]
    if len(foreign) == len(findings):
        return foreign, []
    return [finding for finding in findings if not PurePath(finding.path).is_absolute()], foreign


def _print_finding(console: Console, finding: Finding, excerpt: Excerpt, sources: Sources) -> None:
    style = LEVEL_STYLE[level(finding)]
    head = Text.assemble(
        (sources.place(finding.path, finding.span.line, finding.span.column), "bold"),
        " ",
        (finding.rule, style),
        " ",
        _with_code(finding.message),
    )
    console.print(head, soft_wrap=True)
    for line in excerpt.lines(finding.span, finding.path, style):
        console.print(line, no_wrap=True, overflow="crop", crop=False, soft_wrap=True)
    _note(console, "hazard", Text.assemble(*_hazard(finding)))
    if finding.region:
        _note(console, "region", *_path(finding.region, sources))
    told: frozenset[str] = frozenset()
    for evidence in finding.evidence:
        _note(console, f"seen by {one_line(evidence.target)}", *_evidence(evidence, finding, told))
        told |= frozenset(evidence.tried)
    if finding.instead:
        _note(console, "instead", _with_code(finding.instead))
    for fix in finding.fixes:
        tried = {None: "", True: ", verified", False: ", failed verification"}[fix.verified]
        _note(console, "fix", _with_code(fix.title).append(f"  [{fix.safety}{tried}]", "dim"))
    console.print()


def _hazard(finding: Finding) -> Iterable[str | tuple[str, str]]:
    yield finding.hazard
    if finding.function:
        yield f" in {one_line(finding.function)}"
    text, style = BADGE[finding.verdict]
    if text:
        yield "  "
        yield f"[{text}]", style
    else:
        yield f", {finding.confidence}", "dim"


def _path(steps: Sequence[Step], sources: Sources) -> list[Text]:
    """One line per step, outermost first, each a little further in."""
    lines = []
    for depth, step in enumerate(steps):
        arrow = "" if depth == 0 else "  " * (depth - 1) + "└ "
        place = Text.assemble(
            (arrow, "dim"), one_line(step.function), (f"  {sources.place(step.path, step.line)}", "dim")
        )
        if step.note:
            place.append("  ").append_text(_with_code(step.note))
        lines.append(place)
    return lines


def _evidence(evidence: Evidence, finding: Finding, told: frozenset[str]) -> list[Text | Labelled]:
    """What was seen, in lines; `told` are the trials that stand above already."""
    said: list[str] = [evidence.channel]
    if evidence.gb:
        said.append(evidence.gb)
    if evidence.hits > 1:
        said.append(f"{evidence.hits} times")
    if evidence.cost:
        said.append(evidence.cost)
    lines: list[Text | Labelled] = [Text(" · ".join(said), "bold")]
    if one_line(evidence.reason) not in one_line(finding.message):  # a finding of the runtime alone is its reason
        lines.append(Text(one_line(evidence.reason)))
    if (evidence.path, evidence.line) != (finding.path, finding.span.line):
        lines.append(Labelled("at", f"{evidence.path}:{evidence.line} {evidence.function}"))
    if evidence.guard and one_line(evidence.guard) not in one_line(evidence.reason):  # else a later one of its kind
        lines.append(Labelled("guard", evidence.guard))
    if evidence.hint and one_line(evidence.hint) != one_line(finding.instead):
        lines.append(Labelled("hint", evidence.hint))
    lines += [Labelled("tried", text) for text in evidence.tried if text not in told]
    if len(evidence.stack) > 1:
        trail = " → ".join(f"{step.function} {PurePath(step.path).name}:{step.line}" for step in evidence.stack)
        lines.append(Labelled("stack", trail))
    return lines


def _note(console: Console, label: str, *lines: Text | Labelled) -> None:
    """`= label: text`; further lines are aligned under the text, or a little further in where the label is long."""
    head = f"{'':{GUTTER - 2}}= {label}: "
    indent = " " * (len(head) if len(head) <= GUTTER + ALIGNED_LABEL else GUTTER + 2)
    prefix = Text.assemble((head, "bold blue"))
    for line in lines:
        hanging = ""
        if isinstance(line, Labelled):
            prefix.append(f"{line.label:{LABEL}}", "dim")
            hanging, line = " " * LABEL, Text(one_line(line.text))
        for row in line.wrap(console, max(console.width - len(prefix.plain), 24)):
            row.rstrip()
            console.print(prefix + row, no_wrap=True, overflow="ignore", crop=False)
            prefix = Text(indent + hanging)
        prefix = Text(indent)


def _print_detail(console: Console, report: Report) -> None:
    """What the table has no room for: why a target did not finish, where fullgraph raised."""
    for run in report.targets:
        name = one_line(run.name)
        if run.status != "ok":
            _note(console, f"{name} {run.status}", Text(one_line(run.detail) or "no detail"))
        if run.fullgraph and not run.fullgraph.passes:
            place = f"{run.fullgraph.path}:{run.fullgraph.line}" if run.fullgraph.path else ""
            said = Text(" ".join(filter(None, (run.fullgraph.gb, place))), "bold")
            _note(console, f"{name} with fullgraph=True", said, Text(one_line(run.fullgraph.reason)))
    console.print()


def _with_code(text: str) -> Text:
    """Text with what stands in backticks set apart."""
    styled = Text(one_line(text))
    styled.highlight_regex(r"`[^`]+`", "cyan")
    return styled
