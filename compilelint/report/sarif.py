"""SARIF 2.1.0, in the shape that GitHub code scanning reads.

One log, one run. What GitHub shows: the rules' help, `level`, `precision` and `problem.severity`; the first location
of a result; related locations that the message links to; code flows. What it ignores is written for other readers:
stacks, fixes, properties. Not written: suppressed results (they would be opened as alerts), absolute paths, times,
GUIDs; `automationDetails` only when a category is asked for, because it overrides the one of the upload step. Limits:
github docs, "SARIF support for code scanning".
"""

from __future__ import annotations

import gzip
import re
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

import sarif_om as om

from compilelint import __version__
from compilelint.model import Evidence, Finding, Fix, Report, RuleCard, Span, Step
from compilelint.notebook import is_notebook
from compilelint.report import Look
from compilelint.report.artifacts import PACKAGES, SOURCE_ROOT, Artifacts
from compilelint.report.rank import LOSES_THE_GRAPH, level, ranked
from compilelint.report.sarif_text import sarif_text
from compilelint.report.tally import one_line

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
COMPILER_MANUAL = "https://docs.pytorch.org/docs/stable/torch.compiler.html"
MOST_RESULTS = 25_000
MOST_BYTES = 10_000_000
"""Of a compressed log; the limit is given as 10 MB."""
SPARE = 0.95
"""Results are not all of one size: a cut to measure leaves a little room, so that the next try mostly fits."""
MOST_STEPS = 1_000
MOST_RELATED = 100
MOST_TEXT = 1_024


def sarif(report: Report, look: Look) -> str:
    """The report as a SARIF log. Beyond GitHub's limits the least important is left out, and `look` is told."""
    findings = ranked(report.findings)
    kept = findings[:MOST_RESULTS]
    text = _log(report, kept, look)
    while kept and (size := _uploaded_bytes(text)) > MOST_BYTES:
        kept = kept[: int(len(kept) * MOST_BYTES / size * SPARE)]
        text = _log(report, kept, look)
    if len(kept) < len(findings):
        look.warn(f"SARIF holds the worst {len(kept):,} of {len(findings):,} findings, as GitHub takes no more")
    return text


def _uploaded_bytes(text: str) -> int:
    """How large a log is as the upload step sends it; what is small enough as it is need not be compressed to tell."""
    data = text.encode("utf-8", errors="replace")
    return len(data) if len(data) <= MOST_BYTES else len(gzip.compress(data, compresslevel=6))


def _log(report: Report, findings: list[Finding], look: Look) -> str:
    """The text of a log with these findings of the report."""
    cards = _cards(report, findings)
    index = {card.code: number for number, card in enumerate(cards)}
    artifacts = Artifacts(look.sources)
    run = om.Run(
        tool=om.Tool(driver=_driver(cards)),
        results=[_result(finding, index[finding.rule], artifacts) for finding in findings],
        column_kind="utf16CodeUnits",
        original_uri_base_ids={
            SOURCE_ROOT: om.ArtifactLocation(description=om.Message(text="The root of the checked repository.")),
            PACKAGES: om.ArtifactLocation(description=om.Message(text="Where an installed package lies.")),
        },
        automation_details=om.RunAutomationDetails(id=f"{look.category}/") if look.category else None,
    )
    return sarif_text(om.SarifLog(version="2.1.0", schema_uri=SCHEMA, runs=[run]))


def _cards(report: Report, findings: list[Finding]) -> list[RuleCard]:
    """The catalogue, with a card made up for a rule that has none, in the order of their codes."""
    cards = {card.code: card for card in report.cards}
    for finding in findings:
        if finding.rule not in cards:
            cards[finding.rule] = RuleCard(finding.rule, finding.name, finding.hazard, finding.name, finding.instead)
    return [cards[code] for code in sorted(cards)]


def _driver(cards: list[RuleCard]) -> Any:
    return om.ToolComponent(
        name="compilelint",
        semantic_version=__version__,
        information_uri=_home_page(),
        rules=[_rule(card) for card in cards],
    )


def _home_page() -> str:
    """The project's address from its metadata, else the manual of what it is about: SARIF viewers expect some page."""
    try:
        urls = metadata("compilelint").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    return next((url.partition(", ")[2] for url in urls), COMPILER_MANUAL)


def _rule(card: RuleCard) -> Any:
    severity = "recommendation" if card.hazard == "suppression" else "warning"
    if card.hazard in LOSES_THE_GRAPH:
        severity = "error"
    help_text = f"{card.summary}\n\n{card.help}" if card.help else card.summary
    return om.ReportingDescriptor(
        id=card.code,
        name="".join(part.capitalize() for part in card.name.split("-")),
        short_description=_multiformat(_sentence(card.summary)),
        full_description=_multiformat(_full_description(card)),
        help=om.MultiformatMessageString(text=_unmarked(help_text), markdown=help_text),
        default_configuration=om.ReportingConfiguration(level="note" if card.hazard == "suppression" else "warning"),
        properties={"tags": ["torch.compile", card.hazard], "precision": "high", "problem.severity": severity},
    )


def _full_description(card: RuleCard) -> str:
    """The first section's first paragraph, which says what the rule does."""
    paragraphs = [part.strip() for part in card.help.split("\n\n")]
    prose = next((part for part in paragraphs if part and not part.startswith(("#", "`", "|", "-"))), card.summary)
    return _sentence(_unmarked(" ".join(prose.split())))


def _multiformat(text: str) -> Any:
    return om.MultiformatMessageString(text=text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 2]} …")


def _unmarked(markdown: str) -> str:
    """Markdown as plain text: fences and heading marks dropped."""
    return re.sub(r"(?m)^(```\w*\n?|#+ )", "", markdown)


def _sentence(text: str) -> str:
    text = text.rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _result(finding: Finding, rule_index: int, artifacts: Artifacts) -> Any:
    clean = artifacts.without_machine_paths
    finding = replace(finding, message=clean(finding.message), instead=clean(finding.instead))
    related, links = _related(finding, artifacts)
    message = _sentence(_unlinked(finding.message))
    line_hash = artifacts.line_hash(finding.path, finding.span.line)
    fingerprints = {"primaryLocationLineHash": line_hash, "compilelint/v1": finding.fingerprint}
    location = om.Location(
        physical_location=_physical(finding.path, finding.span, artifacts),
        logical_locations=[om.LogicalLocation(fully_qualified_name=finding.function)] if finding.function else None,
    )
    return om.Result(
        rule_id=finding.rule,
        rule_index=rule_index,
        level=level(finding),
        message=om.Message(text=" ".join([message, *links])),
        locations=[location],
        related_locations=related or None,
        code_flows=[_flow(finding, artifacts)] if finding.region else None,
        stacks=[_stack(item, artifacts) for item in finding.evidence if item.stack] or None,
        fixes=_fixes(finding, artifacts) or None,
        partial_fingerprints={key: value for key, value in fingerprints.items() if value},
        properties=_properties(finding, artifacts),
    )


def _physical(path: str, span: Span | int, artifacts: Artifacts) -> Any:
    uri, base = artifacts.uri(path)
    if isinstance(span, int):
        units = artifacts.region(path, Span(max(span, 1), 1, max(span, 1), 1))
        region = om.Region(start_line=units.line)
    else:
        units = artifacts.region(path, span)
        region = om.Region(
            start_line=units.line, start_column=units.column, end_line=units.end_line, end_column=units.end_column
        )
    return om.PhysicalLocation(artifact_location=om.ArtifactLocation(uri=uri, uri_base_id=base), region=region)


def _related(finding: Finding, artifacts: Artifacts) -> tuple[list[Any], list[str]]:
    """Related locations, and one sentence each that links to it: GitHub shows only those that the message links to."""
    places: list[tuple[str, str, str, int]] = []
    if finding.region:
        root = finding.region[0]
        places.append(("Compiled from", root.note or root.function, root.path, root.line))
    if finding.definition:
        made = finding.definition
        places.append(
            (f"`{_unlinked(made.note)}` is set in", artifacts.line_name(made.path, made.line), made.path, made.line)
        )
    for item in finding.evidence:
        guard = f" of the guard `{artifacts.without_machine_paths(one_line(item.guard))}`" if item.guard else ""
        said = f"Target {item.target} saw {item.gb or item.channel}{_unlinked(guard)} at"
        places.append((said, f"{item.function} line {item.line}", item.path, item.line))
    related, sentences = [], []
    for number, (lead, text, path, line) in enumerate(places[:MOST_RELATED], start=1):
        location = om.Location(
            id=number, physical_location=_physical(path, line, artifacts), message=om.Message(text=f"{lead} {text}.")
        )
        related.append(location)
        sentences.append(f"{lead} [{text.translate(LINK_TEXT)}]({number}).")
    return related, sentences


LINK_TEXT = str.maketrans({"[": "\\[", "]": "\\]", "\\": "\\\\"})


def _unlinked(text: str) -> str:
    """Message text in which nothing reads as a link: `x[i](1)` is one in SARIF unless its brackets are escaped."""
    return re.sub(r"\[([^\[\]]*)\]\(", r"\\[\1\\](", text)


def _flow(finding: Finding, artifacts: Artifacts) -> Any:
    """The call path as one thread flow, from what is compiled to the hazard."""
    steps = [
        om.ThreadFlowLocation(location=_step_location(step, artifacts), nesting_level=depth)
        for depth, step in enumerate(finding.region[: MOST_STEPS - 1])
    ]
    hazard = om.Location(
        physical_location=_physical(finding.path, finding.span, artifacts), message=om.Message(text=finding.hazard)
    )
    steps.append(om.ThreadFlowLocation(location=hazard, nesting_level=len(steps), importance="essential"))
    return om.CodeFlow(thread_flows=[om.ThreadFlow(locations=steps)])


def _step_location(step: Step, artifacts: Artifacts) -> Any:
    text = f"{step.function}: {step.note}" if step.note else step.function
    return om.Location(physical_location=_physical(step.path, step.line, artifacts), message=om.Message(text=text))


def _stack(item: Evidence, artifacts: Artifacts) -> Any:
    """SARIF lists the innermost frame first."""
    frames = [om.StackFrame(location=_step_location(step, artifacts)) for step in reversed(item.stack)]
    reason = artifacts.without_machine_paths(" ".join(item.reason.split()))
    return om.Stack(message=om.Message(text=f"{item.target}: {item.channel}: {reason}"), frames=frames)


def _fixes(finding: Finding, artifacts: Artifacts) -> list[Any]:
    """The fixes that a viewer may make. What would be text in a notebook's JSON is left to `--fix`."""
    if is_notebook(finding.path):
        return []
    return [_fix(fix, finding, artifacts) for fix in finding.fixes if fix.safety == "safe" or fix.verified]


def _fix(fix: Fix, finding: Finding, artifacts: Artifacts) -> Any:
    uri, base = artifacts.uri(finding.path)
    replacements = []
    for edit in fix.edits:
        region = _physical(finding.path, edit.span, artifacts).region
        content = om.ArtifactContent(text=edit.replacement)
        replacements.append(om.Replacement(deleted_region=region, inserted_content=content))
    change = om.ArtifactChange(om.ArtifactLocation(uri=uri, uri_base_id=base), replacements)
    return om.Fix(description=om.Message(text=_sentence(fix.title)), artifact_changes=[change])


def _properties(finding: Finding, artifacts: Artifacts) -> dict[str, Any]:
    """What SARIF has no place for. Stacks are in `stacks` already."""
    evidence = []
    for item in finding.evidence:
        fields = {key: value for key, value in asdict(item).items() if value is not None and key != "stack"}
        fields["path"] = artifacts.uri(item.path)[0]
        evidence.append(
            {key: artifacts.without_machine_paths(v) if isinstance(v, str) else v for key, v in fields.items()}
        )
    return {
        "hazard": finding.hazard,
        "confidence": finding.confidence,
        "verdict": finding.verdict,
        "instead": finding.instead,
        "evidence": evidence,
    }
