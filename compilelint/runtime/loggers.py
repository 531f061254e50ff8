"""Hearing what torch says to one of its loggers, without anything more being printed."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

_SAYING = ("debug", "info", "warning")


class ListenedTo:
    """A logger that says it is enabled, hands what it is told to `hear`, and is otherwise the one it stands for.

    Handlers and levels stay as they are; a program that sets up its logging anew changes nothing of this.
    """

    def __init__(self, log: logging.Logger, hear: Callable[[str], None] | None = None) -> None:
        self._log = log
        self._hear = hear

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 (the name that logging gave it)
        return True

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._log, name)
        hear = self._hear
        if hear is None or name not in _SAYING:
            return found

        def say(message: object, *args: Any, **kwargs: Any) -> None:
            with contextlib.suppress(Exception):  # what cannot be read costs the observation, never the program
                hear(str(message) % args if args else str(message))
            found(message, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})

        return say
