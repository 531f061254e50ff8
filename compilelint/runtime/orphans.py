"""Processes of a watched program that left its process group: found again by a mark in their environment.

A process inherits the environment of whoever started it, by fork too, and keeps what it began with in sight of the
system whatever it does to its copy. Only Linux shows it; elsewhere nothing is found.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def kill_marked(variable: str, value: str) -> None:
    """Kill every process but this one that began with this environment variable."""
    for _ in range(3):  # one that is just being forked escapes the first look
        for process in _marked(variable, value):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)


def _marked(variable: str, value: str) -> Iterator[int]:
    mark = f"{variable}={value}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            process = int(environment.parent.name)
            if mark in environment.read_bytes().split(b"\0") and process != os.getpid():
                yield process
