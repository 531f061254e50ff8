"""What all tests need of the process that they run in."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Take Ctrl-C again: a shell starts background jobs with SIGINT ignored, and their children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
