"""`compilelint rule`: a rule's documentation, from its own file."""

from __future__ import annotations

import argparse
import json
import sys

from compilelint.command.codes import all_cards
from compilelint.command.output import wants_colour, write_stdout
from compilelint.config import ConfigError, did_you_mean
from compilelint.model import RuleCard


def run(options: argparse.Namespace) -> int:
    """Print the rules named by code, prefix or name; a list of all of them where none is named."""
    cards = all_cards()
    chosen = list(cards) if options.all or not options.codes else _named(options.codes, cards)
    if options.output_format == "json":
        write_stdout(json.dumps([_object(card) for card in chosen], indent=2, ensure_ascii=False) + "\n")
    elif options.all or options.codes:
        _print_documentation(chosen)
    else:
        width = max(len(card.name) for card in chosen)
        write_stdout("".join(f"{card.code}  {card.name:{width}}  {card.summary}\n" for card in chosen))
    return 0


def _named(words: list[str], cards: tuple[RuleCard, ...]) -> list[RuleCard]:
    chosen: dict[str, RuleCard] = {}
    for word in words:
        matching = [card for card in cards if card.name == word.lower() or card.code.startswith(word.upper())]
        if not matching or not word:
            known = [name for card in cards for name in (card.code, card.name)]
            raise ConfigError(f"no rule is called '{word}'{did_you_mean(word, known)}")
        chosen.update({card.code: card for card in matching})
    return list(chosen.values())


def _object(card: RuleCard) -> dict[str, str]:
    return {"code": card.code, "name": card.name, "hazard": card.hazard, "summary": card.summary, "help": card.help}


def page(card: RuleCard) -> str:
    """A rule's whole page, as Markdown."""
    return f"# {card.name} ({card.code})\n\n{card.summary}\n\nHazard: `{card.hazard}`\n\n{card.help}\n"


def _print_documentation(cards: list[RuleCard]) -> None:
    pages = [page(card) for card in cards]
    if not sys.stdout.isatty() or not wants_colour("auto"):
        write_stdout("\n".join(pages))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    for text in pages:
        console.print(Markdown(text))
