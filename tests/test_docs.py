"""What is generated into docs/ is what the code says today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_rule_pages_are_fresh() -> None:
    spec = importlib.util.spec_from_file_location("make_rules", ROOT / "docs" / "make_rules.py")
    assert spec is not None and spec.loader is not None
    make_rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_rules)
    expected = make_rules.pages()
    found = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "rules").glob("*.md")}
    stale = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    assert not stale, f"run `python docs/make_rules.py`: {stale}"
