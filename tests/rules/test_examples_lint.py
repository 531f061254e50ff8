"""Every example of every rule is linted: BAD is reported at its marked lines and nowhere else, GOOD not at all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from examples import MARK, covers, findings_in

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
    accepted = HAZARDS_OF.get(example.default)
    assert accepted is None or any(f.hazard in accepted for f in [*own, *strangers]), told(findings)


def marked_for_others(code: str) -> dict[int, str]:
    """Lines that show another rule's finding, `n = int(t.max())  # ~ CL202`, beside an own one in `# ~ CL202  # ~`."""
    lines = enumerate(code.splitlines(), 1)
    return {number: match[1] for number, line in lines if (match := re.search(r"# ~ (CL\d{3})(?:  # ~)?$", line))}


def mended() -> list[object]:
    """BAD examples that another version of torch was seen to compile: rule, example, version."""
    found: list[object] = []
    for file in sorted(OBSERVED.glob("torch-*.json")):
        version = file.stem.removeprefix("torch-")
        seen = json.loads(file.read_text(encoding="utf-8"))["examples"]
        for rule in load_rules():
            for position, example in enumerate(rule.bad):
                key = f"{rule.code}/bad/{position}"
                if seen.get(key, {}).get("default") == "clean" and example.default != "clean":
                    found.append(pytest.param(rule, example, version, id=f"{key}/{version}"))
    return found


@pytest.mark.parametrize(("rule", "example", "version"), mended())
def test_what_a_version_compiles_is_not_reported_for_it(
    rule: Rule, example: Example, version: str, tmp_path: Path
) -> None:
    claimed = HAZARDS_OF[example.default]
    found = [f for f in findings_in(example, tmp_path, version) if f.rule == rule.code and f.hazard in claimed]
    assert not found, told(found)


@pytest.mark.parametrize(("rule", "example"), examples("good"))
def test_good_is_not_reported(rule: Rule, example: Example, tmp_path: Path) -> None:
    assert MARK not in example.code
    assert not findings_in(example, tmp_path), told(findings_in(example, tmp_path))


def told(findings: list[Finding]) -> str:
    return "".join(f"\n{f.rule} {f.span.line}: {f.message} ({f.confidence}, {f.hazard})" for f in findings)
