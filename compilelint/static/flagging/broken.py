"""Findings that hang on others: what Dynamo trips over only where a break makes it begin anew with a function.

After a break in a call, the functions on the way to it run as Python calls them, and each is compiled from its start.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Finding
from compilelint.static.flagging.combine import Key
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, options


class Broken:
    """Which compiled functions have a break in them or below, and the findings that wait for one."""

    def __init__(self) -> None:
        self._callers: dict[FunctionRef, set[FunctionRef]] = {}
        self._breaking: set[FunctionRef] = set()
        self._waiting: dict[Key, tuple[Finding, tuple[FunctionRef, ...]]] = {}

    def note_call(self, frame: Frame) -> None:
        """Note who called the function of a compiled frame."""
        if frame.mode == "compiled" and frame.caller is not None and frame.caller.mode == "compiled":
            self._callers.setdefault(frame.ref, set()).add(frame.caller.ref)

    def note_break(self, frame: Frame) -> None:
        """Note a break that was found in a compiled frame."""
        if frame.mode == "compiled":
            self._breaking.add(frame.ref)

    def wait(self, key: Key, finding: Finding, frame: Frame) -> None:
        """Keep a finding that counts only if its function begins anew, or an `__init__` around it that calls it.

        Not where what was called may be something else than a class: the `__init__` may never run then.
        """
        around = [frame.ref]
        while frame.caller is not None and frame.caller.ref.qualname.endswith(".__init__"):
            frame = frame.caller
            around.append(frame.ref)
        called = frame.site.func if isinstance(frame.site, ast.Call) else None
        if (
            frame.caller is not None
            and called is not None
            and len(options(frame.caller.kinds.get(called, UNKNOWN))) > 1
        ):
            return
        self._waiting.setdefault(key, (finding, tuple(around)))

    def begun_anew(self) -> Iterator[Finding]:
        """The findings that have waited for a break and got one."""
        broken, pending = set(self._breaking), list(self._breaking)
        while pending:
            for caller in self._callers.get(pending.pop(), set()) - broken:
                broken.add(caller)
                pending.append(caller)
        for finding, around in self._waiting.values():
            if not broken.isdisjoint(around):
                yield finding
