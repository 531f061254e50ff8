"""Every example of every rule is linted: BAD is reported at its marked lines and nowhere else, GOOD not at all."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Literal

import pytest
from examples import MARK, REFERENCE, covers, findings_in

from compilelint.model import Finding, Hazard
from compilelint.rule import Example, Outcome, Rule
from compilelint.rulebook import load_rules

OBSERVED = Path(__file__).parents[2] / "docs" / "observed"
HAZARDS_OF: dict[Outcome, frozenset[Hazard]] = {
    "break": frozenset({"graph-break", "frame-skip"}),
    "skip": frozenset({"graph-break", "frame-skip"}),
    "recompile": frozenset({"recompile"}),
    "stale": frozenset({"stale-result", "placement"}),
}


def examples(side: str) -> list[object]:
    return [
        pytest.param(rule, example, id=f"{rule.code}/{side}/{position}")
        for rule in load_rules()
        for position, example in enumerate(rule.bad if side == "bad" else rule.good)
    ]


@pytest.mark.parametrize(("rule", "example"), examples("bad"))
def test_bad_is_reported_where_it_is_marked(rule: Rule, example: Example, tmp_path: Path) -> None:
    findings = findings_in(example, tmp_path)
    marked = {number for number, line in enumerate(example.code.splitlines(), 1) if line.rstrip().endswith(MARK)}
    own = [finding for finding in findings if finding.rule == rule.code]
    assert marked, "a BAD example marks the lines to report"
    assert {line for line in marked if any(covers(finding, line) for finding in own)} == marked, told(findings)
    others = marked_for_others(example.code)
    strangers = [f for f in findings if f not in own or not any(covers(f, line) for line in marked)]
    assert not [f for f in strangers if others.get(f.span.line) != f.rule], told(findings)
    assert others.keys() <= {f.span.line for f in strangers}, told(findings)
    accepted = HAZARDS_OF.get(outcome_here(example, f"{rule.code}/bad/{rule.bad.index(example)}"))
    assert accepted is None or any(f.hazard in accepted for f in [*own, *strangers]), told(findings)


def outcome_here(example: Example, key: str) -> Outcome:
    """What default mode does with an example under the Python that runs: a rule may ask which one that is."""
    kept = json.loads((OBSERVED / f"torch-{REFERENCE}.json").read_text())
    differing = kept.get(f"python {sys.version_info.major}.{sys.version_info.minor}", {})
    outcome: Outcome = differing[key]["default"] if key in differing else example.default
    return outcome


def marked_for_others(code: str) -> dict[int, str]:
    """Lines that show another rule's finding, `n = int(t.max())  # ~ CL202`, beside an own one in `# ~ CL202  # ~`."""
    lines = enumerate(code.splitlines(), 1)
    return {number: match[1] for number, line in lines if (match := re.search(r"# ~ (CL\d{3})(?:  # ~)?$", line))}


def by_version(side: Literal["bad", "good"], seen_to: Literal["compile", "break"]) -> list[object]:
    """Examples, and a version other than the reference that was seen to compile them or to break on them."""
    outcomes = ("clean",) if seen_to == "compile" else ("break", "skip")
    found: list[object] = []
    for file in sorted(OBSERVED.glob("torch-*.json")):
        version = file.stem.removeprefix("torch-")
        seen = json.loads(file.read_text(encoding="utf-8"))["examples"]
        for rule in load_rules() if version != REFERENCE else ():
            for position, example in enumerate(rule.bad if side == "bad" else rule.good):
                key = f"{rule.code}/{side}/{position}"
                if seen.get(key, {}).get("default") in outcomes and (side == "good" or example.default != "clean"):
                    found.append(pytest.param(rule, example, version, id=f"{key}/{version}"))
    return found


@pytest.mark.parametrize(("rule", "example", "version"), by_version("bad", "compile"))
def test_bad_is_not_reported_for_a_version_that_compiles_it(
    rule: Rule, example: Example, version: str, tmp_path: Path
) -> None:
    claimed = HAZARDS_OF[example.default]
    found = [f for f in findings_in(example, tmp_path, version) if f.rule == rule.code and f.hazard in claimed]
    assert not found, told(found)


@pytest.mark.parametrize(("rule", "example", "version"), by_version("good", "break"))
def test_good_is_reported_for_a_version_that_breaks_on_it(
    rule: Rule, example: Example, version: str, tmp_path: Path
) -> None:
    assert findings_in(example, tmp_path, version), f"{rule.code}: nothing is said about torch {version}"


@pytest.mark.parametrize(("rule", "example", "version"), by_version("good", "compile"))
def test_good_is_not_reported_for_a_version_that_compiles_it(
    rule: Rule, example: Example, version: str, tmp_path: Path
) -> None:
    assert not findings_in(example, tmp_path, version), told(findings_in(example, tmp_path, version))


@pytest.mark.parametrize(("rule", "example"), examples("good"))
def test_good_is_not_reported(rule: Rule, example: Example, tmp_path: Path) -> None:
    assert MARK not in example.code
    assert not findings_in(example, tmp_path), told(findings_in(example, tmp_path))


def told(findings: list[Finding]) -> str:
    return "".join(f"\n{f.rule} {f.span.line}: {f.message} ({f.confidence}, {f.hazard})" for f in findings)
