"""Writes docs/rules/ from the rule files: `python docs/make_rules.py`. A test keeps the folder fresh."""

from __future__ import annotations

from pathlib import Path

from compilelint.command.rule import page
from compilelint.rulebook import card_with_examples, load_rules

FOLDER = Path(__file__).parent / "rules"

FAMILIES = {
    "1": "Data-dependent control flow",
    "2": "Tensors read back into Python",
    "3": "Shapes that depend on data",
    "4": "Logging, I/O and host state",
    "5": "Constructs Dynamo does not trace",
    "6": "Recompiles",
    "7": "Host-device syncs",
    "8": "CUDA graphs",
    "9": "Stale results, and where torch.compile is placed",
}


def pages() -> dict[str, str]:
    """Every file of docs/rules by name: a page for each rule, and the index."""
    cards = [card_with_examples(rule) for rule in load_rules()]
    texts = {f"{card.code}.md": page(card) for card in cards}
    index = ["# Rules\n"]
    for digit, title in FAMILIES.items():
        index.append(f"\n## CL{digit}xx: {title}\n\n| code | name | hazard | |\n| --- | --- | --- | --- |\n")
        for card in cards:
            if card.code[2] == digit:
                index.append(f"| [{card.code}]({card.code}.md) | {card.name} | {card.hazard} | {card.summary} |\n")
    texts["README.md"] = "".join(index)
    return texts


def main() -> None:
    """Write the folder anew; pages of rules that are gone go too."""
    FOLDER.mkdir(exist_ok=True)
    texts = pages()
    for old in FOLDER.glob("*.md"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
