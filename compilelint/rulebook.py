"""The rules, found by where they lie: every `clNNN_name.py` in the package `compilelint.rules`."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

import compilelint.rules
from compilelint.model import RuleCard

if TYPE_CHECKING:
    from compilelint.rule import Example, Rule

FILE_NAME = re.compile(r"^cl(?P<number>\d{3})_(?P<slug>[a-z0-9_]+)$")


class RuleError(Exception):
    """A rule file that breaks the contract of compilelint.rule; the message names the file and the missing part."""


@lru_cache(maxsize=1)
def load_rules() -> tuple[Rule, ...]:
    """Every rule, sorted by code.

    Raises RuleError for a file whose name, docstring or members break the contract, and for two files with one code.
    """
    rules: dict[str, Rule] = {}
    for entry in pkgutil.iter_modules(compilelint.rules.__path__):
        rule = rule_from(importlib.import_module(f"compilelint.rules.{entry.name}"))
        if rule.code in rules:
            raise RuleError(f"{entry.name}: the code {rule.code} is taken by {rules[rule.code].card.name}")
        rules[rule.code] = rule
    return tuple(rules[code] for code in sorted(rules))


def rule_folders() -> tuple[str, ...]:
    """The folders that rules are looked for in."""
    return tuple(compilelint.rules.__path__)


def rule_from(module: ModuleType) -> Rule:
    """Build the Rule out of a rule module; raises RuleError when a part is missing."""
    file = module.__name__.rpartition(".")[2]
    name = FILE_NAME.match(file)
    if name is None:
        raise RuleError(f"{file}: a rule file is called clNNN_some_name.py")
    for part in ("HAZARD", "WATCH", "BAD", "GOOD", "check"):
        if not hasattr(module, part):
            raise RuleError(f"{file}: {part} is missing")
    if not module.__doc__:
        raise RuleError(f"{file}: the docstring is the rule's documentation and is missing (python -OO drops it)")
    from compilelint.rule import Rule  # the kinds of values behind it are many, and not needed without rules

    summary, _, body = module.__doc__.strip().partition("\n")
    card = RuleCard(
        code=f"CL{name['number']}",
        name=name["slug"].replace("_", "-"),
        hazard=module.HAZARD,
        summary=summary.strip(),
        help=body.strip(),
    )
    return Rule(
        card,
        module.WATCH,
        module.check,
        tuple(module.BAD),
        tuple(module.GOOD),
        getattr(module, "CAPTURED", None),
        getattr(module, "FALLBACK", False),
    )


def card_with_examples(rule: Rule) -> RuleCard:
    """What a user reads about a rule, its first examples included: apart, since a check does without."""
    return replace(rule.card, help=f"{rule.card.help}\n\n{_examples(rule.bad, rule.good)}".strip())


def _examples(bad: Sequence[Example], good: Sequence[Example]) -> str:
    """The first example of each sort, as Markdown; marked lines keep a comment where the finding is."""
    shown = [("Reported", example) for example in bad[:1]] + [("Not reported", example) for example in good[:1]]
    parts = [f"{head} ({_outcome(example)}):\n\n```python\n{_marked(example.code)}\n```" for head, example in shown]
    return "\n\n".join(["## Example", *parts]) if parts else ""


def _marked(code: str) -> str:
    code = re.sub(r"  # ~ (CL\d{3})(?=$|  # ~$)", r"  # \1", code.strip(), flags=re.MULTILINE)
    return re.sub(r"  # ~$", "  # <- here", code, flags=re.MULTILINE)


def _outcome(example: Example) -> str:
    """What the test suite saw torch do with an example, in words."""
    if example.default == "unmeasured":
        return "judged from documentation and GPU runs"
    words = {
        "break": "a graph break",
        "skip": "no graph at all",
        "recompile": "a recompile per change",
        "clean": "clean",
        "stale": "another result than eager",
    }
    other = "raises" if example.fullgraph in ("break", "skip") else words.get(example.fullgraph, "not measured")
    return f"measured: {words[example.default]}; with `fullgraph=True`: {other}"
