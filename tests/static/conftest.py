"""Every test of the static pass runs in an empty folder of its own, where it writes the project it speaks about."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: findings show paths relative to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
