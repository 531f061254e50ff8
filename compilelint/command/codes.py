"""The rules by their codes: every card, and whether a selection names rules that there are."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from compilelint.config import Settings
from compilelint.model import RuleCard
from compilelint.sift import BUILT_IN_CARDS
from compilelint.sift.select import check_codes


@lru_cache(maxsize=1)
def all_cards() -> tuple[RuleCard, ...]:
    """Every rule's card, sorted by code, with those of the codes that have no rule file."""
    from compilelint.rulebook import card_with_examples, load_rules

    loaded = [card_with_examples(rule) for rule in load_rules()]
    taken = {card.code for card in loaded}
    return tuple(sorted([*loaded, *(c for c in BUILT_IN_CARDS if c.code not in taken)], key=lambda card: card.code))


def rule_codes() -> Collection[str]:
    """The code of every rule."""
    return [card.code for card in all_cards()]


def check_selection(settings: Settings) -> None:
    """Raise ConfigError for a code that no rule has."""
    groups = {
        "select": settings.select,
        "extend-select": settings.extend_select,
        "ignore": settings.ignore,
        "per-file-ignores": [code for _, codes in settings.per_file_ignores for code in codes],
    }
    for name, codes in groups.items():
        if any(code != "ALL" for code in codes):
            check_codes(codes, rule_codes(), name)
