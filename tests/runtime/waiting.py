"""Waiting for processes, and seeing that they are gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path


def assert_gone(pids: Path) -> None:
    """None of the processes runs whose ids the file holds; without a file, the end came before they had started."""
    if not pids.exists():
        return
    for pid in map(int, pids.read_text().split()):
        assert any(not alive(pid) for _ in until(10)), f"process {pid} is still there"


def alive(pid: int) -> bool:
    """Whether there is such a process that is not just waiting to be collected."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def until(seconds: float) -> Iterator[None]:
    """One turn every little while, for so many seconds at most."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.05)
