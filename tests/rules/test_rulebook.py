"""The contract of a rule file, and the conventions that every shipped rule keeps."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from compilelint import rulebook
from compilelint.model import HAZARDS
from compilelint.rule import Example, Rule, Watch
from compilelint.rulebook import RuleError, card_with_examples, load_rules, rule_from

RULES = load_rules()
FILES = sorted(Path(__file__).parents[2].glob("rules/cl*.py"))
SECTIONS = ("## What it does", "## Why it costs", "## Write instead")
each_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])


def rule_module(name: str = "cl999_made_up", doc: str | None = "It does.\n\n## What it does\nNothing.") -> ModuleType:
    module = ModuleType(f"compilelint.rules.{name}", doc)
    vars(module).update(HAZARD="graph-break", WATCH=Watch(), BAD=(), GOOD=(), check=lambda node, view: iter(()))
    return module


def test_a_rule_is_made_of_its_file_name_and_docstring() -> None:
    rule = rule_from(rule_module())
    assert (rule.code, rule.card.name, rule.card.summary) == ("CL999", "made-up", "It does.")
    assert rule.card.help == "## What it does\nNothing."


def test_the_first_example_of_each_sort_is_part_of_the_help_with_what_torch_did() -> None:
    module = rule_module()
    module.BAD = (Example("x = 1  # ~\n", "(f, [])", "skip", "break"), Example("second"))
    module.GOOD = (Example("x = 2\n"),)
    assert card_with_examples(rule_from(module)).help == (
        "## What it does\nNothing.\n\n## Example\n\n"
        "Reported (measured: no graph at all; with `fullgraph=True`: raises):\n\n"
        "```python\nx = 1  # <- here\n```\n\n"
        "Not reported (judged from documentation and GPU runs):\n\n"
        "```python\nx = 2\n```"
    )


@pytest.mark.parametrize("name", ["cl99_short", "CL999_upper", "cl999", "made_up", "cl999_With_Capitals"])
def test_a_file_name_without_code_and_slug_is_refused(name: str) -> None:
    with pytest.raises(RuleError, match=f"{name}: a rule file is called clNNN_some_name.py"):
        rule_from(rule_module(name))


@pytest.mark.parametrize("part", ["HAZARD", "WATCH", "BAD", "GOOD", "check"])
def test_a_missing_part_is_named(part: str) -> None:
    module = rule_module()
    delattr(module, part)
    with pytest.raises(RuleError, match=f"cl999_made_up: {part} is missing"):
        rule_from(module)


@pytest.mark.parametrize("doc", [None, ""])
def test_a_missing_docstring_is_told(doc: str | None) -> None:
    with pytest.raises(RuleError, match="docstring"):
        rule_from(rule_module(doc=doc))


def test_two_files_with_one_code_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {f"compilelint.rules.{name}": rule_module(name) for name in ("cl999_one", "cl999_two")}
    monkeypatch.setattr(rulebook.pkgutil, "iter_modules", lambda path: map(Entry, ("cl999_one", "cl999_two")))
    monkeypatch.setattr(rulebook.importlib, "import_module", modules.__getitem__)
    with pytest.raises(RuleError, match="cl999_two: the code CL999 is taken by one"):
        load_rules.__wrapped__()


class Entry:
    """What pkgutil tells about a file, as far as the rulebook asks."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_rules_are_sorted_and_their_names_are_unique() -> None:
    assert [rule.code for rule in RULES] == sorted(rule.code for rule in RULES)
    names = [rule.card.name for rule in RULES]
    assert len(set(names)) == len(names)


@each_rule
def test_the_summary_is_one_sentence(rule: Rule) -> None:
    summary = rule.card.summary
    assert summary.endswith(".") and len(summary) <= 1024  # SARIF's limit for a short description
    assert summary[0].isupper() or summary[0] == "`"
    assert not summary.startswith(("Checks", "Finds", "Detects")), "say what happens, not what the rule does"


@each_rule
def test_the_documentation_has_its_sections_in_order(rule: Rule) -> None:
    places = [rule.card.help.find(section) for section in SECTIONS]
    assert -1 not in places and places == sorted(places)
    assert all(len(text.strip()) > 40 for text in re.split(r"^## .*$", rule.card.help, flags=re.M)[1:4])


@each_rule
def test_the_hazard_is_one_of_the_models(rule: Rule) -> None:
    assert rule.card.hazard in HAZARDS


@each_rule
def test_there_are_examples_of_both_sorts_and_none_twice(rule: Rule) -> None:
    assert rule.bad and rule.good
    codes = [example.code for example in (*rule.bad, *rule.good)]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_file_reads_from_what_it_watches_to_its_examples(file: Path) -> None:
    statements = ast.parse(file.read_text(encoding="utf-8")).body
    names = [getattr(item, "name", "") or ast.unparse(item).partition(" = ")[0] for item in statements]
    places = [names.index(part) for part in ("HAZARD", "WATCH", "check", "BAD", "GOOD")]
    assert places == sorted(places)
    assert names[-2:] == ["BAD", "GOOD"]


@each_rule
def test_an_example_with_a_claim_can_be_run(rule: Rule) -> None:
    for example in (*rule.bad, *rule.good):
        assert bool(example.run) == claims(example)


def claims(example: Example) -> bool:
    return "unmeasured" not in (example.default, example.fullgraph)
