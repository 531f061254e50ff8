"""What the README and docs/ say is what the code says today."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import fields
from pathlib import Path

from compilelint.config import Settings
from compilelint.model import VERDICTS
from compilelint.report import FORMATS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_rule_pages_are_fresh() -> None:
    spec = importlib.util.spec_from_file_location("make_rules", ROOT / "docs" / "make_rules.py")
    assert spec is not None and spec.loader is not None
    make_rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_rules)
    expected = make_rules.pages()
    found = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "rules").glob("*.md")}
    stale = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    assert not stale, f"run `python docs/make_rules.py`: {stale}"


def test_the_readme_tells_of_every_setting_format_and_verdict() -> None:
    first_cells = [line.split("|")[1] for line in README.splitlines() if line.startswith("|")]
    told = {word for cell in first_cells for word in re.findall(r"`([^`]+)`", cell)}
    settings = {field.name.replace("_", "-") for field in fields(Settings)} - {"root", "source", "cache", "targets"}
    missing = {*settings, "targets.NAME.factory", *FORMATS, *VERDICTS} - told
    assert not missing


def test_what_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
