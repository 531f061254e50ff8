"""What the fixes are for: a fixed BAD example is clean for the linter and for the compiler, and computes the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from examples import MARK, covers, findings_in

from compilelint.fix import fixed
from compilelint.fix.apply import fixed_text
from compilelint.model import Finding
from compilelint.rule import Example, Rule
from compilelint.rulebook import load_rules
from compilelint.source import Sources

measure_example = pytest.importorskip("tools.measure_example", reason="needs torch", exc_type=ImportError)
torch = pytest.importorskip("torch")

WITH_FIXES = ("CL104", "CL401", "CL402", "CL403", "CL501")
RULES = {rule.code: rule for rule in load_rules()}
EXAMPLES = {
    f"{code}/bad/{position}": (RULES[code], example)
    for code in WITH_FIXES
    for position, example in enumerate(RULES[code].bad)
}


def with_fixes(rule: Rule, example: Example, folder: Path) -> list[Finding]:
    return [finding for finding in fixed(findings_in(example, folder), Sources(folder)) if finding.rule == rule.code]


def mended(rule: Rule, example: Example, folder: Path) -> Example | None:
    """The example with all its findings fixed; None where the rule knows no fix for one of them."""
    findings = with_fixes(rule, example, folder)
    if not all(finding.fixes for finding in findings):
        return None
    text, count = fixed_text(example.code, [finding.fixes[0] for finding in findings])
    assert count == len(findings)
    return replace(example, code=text.replace(MARK, "#"))


@pytest.fixture(autouse=True)
def _in_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("code", WITH_FIXES)
def test_a_mended_example_is_clean_and_computes_the_same(code: str, tmp_path: Path) -> None:
    pairs = [(example, mended(RULES[code], example, tmp_path)) for example in RULES[code].bad]
    pairs = [(before, after) for before, after in pairs if after is not None]
    assert pairs, "no example whose findings all have a fix"
    for before, after in pairs:
        assert findings_in(after, tmp_path) == []
        observed = measure_example.measure(after, tmp_path / "mended.py")
        assert (observed.default, observed.fullgraph) == ("clean", "clean"), after.code
        # A deep copy refuses a tensor with a history; both sides are asked without one.
        with torch.no_grad():
            assert eager(after, tmp_path / "mended.py") == eager(before, tmp_path / "before.py")


def eager(example: Example, file: Path) -> list[object]:
    file.write_text(example.code, encoding="utf-8")
    results, _ = measure_example.run(example, file, compile=lambda model, **_: model)
    return [(how, value.tolist() if isinstance(value, torch.Tensor) else value) for how, value in results]


def test_no_other_rule_has_fixes() -> None:
    """Then it belongs into WITH_FIXES, where its fix is tried."""
    sources = {rule.code: Path(rule.check.__code__.co_filename).read_text(encoding="utf-8") for rule in RULES.values()}
    assert [code for code, text in sources.items() if "static.flagging.rewrites" in text] == list(WITH_FIXES)


@pytest.mark.parametrize("key", EXAMPLES)
def test_fixes_belong_to_their_finding(key: str, tmp_path: Path) -> None:
    for finding in with_fixes(*EXAMPLES[key], tmp_path):
        for fix in finding.fixes:
            assert all(covers(finding, edit.span.line) for edit in fix.edits)
