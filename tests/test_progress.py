"""What a terminal shows while targets run."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress

import pytest

from compilelint.command.progress import progress

pty = pytest.importorskip("pty")


def shown(monkeypatch: pytest.MonkeyPatch, term: str) -> str:
    """What a terminal of this kind gets to see of two targets."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "100")
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress(["encoder", "de[red]coder"]) as tell:
            if tell is not None:
                tell("encoder", "running eagerly")
                tell("de[red]coder", "compiling")
        terminal.flush()
        os.set_blocking(ours, False)
        text = b""
        with suppress(BlockingIOError):
            while chunk := os.read(ours, 4096):
                text += chunk
    os.close(ours)
    return text.decode()


def test_a_terminal_is_told_on_one_line_that_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, "xterm")
    assert "target 2 of 2: de[red]coder: compiling" in text
    assert text.count("\n") <= 1
    assert "\x1b[2K" in text.rpartition("compiling")[2], "the line is erased"


def test_a_terminal_that_cannot_rewrite_a_line_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, "dumb") == ""


def test_what_is_no_terminal_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress(["encoder"]) as tell:
        assert tell is None
    assert stream.getvalue() == ""
