"""Findings that hang on others: what Dynamo trips over only where a break makes it begin anew with a function.

After a break in a call, the functions on the way to it run as Python calls them, and each is compiled from its start.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import CONFIDENCES, Finding
from compilelint.static.flagging.combine import Key
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, options


class Broken:
    """Which compiled functions have a break in them or below, and the findings that wait for one."""

    def __init__(self) -> None:
        self._callers: dict[FunctionRef, set[FunctionRef]] = {}
        self._breaking: set[FunctionRef] = set()
        self._called_for_sure: set[FunctionRef] = set()
        self._waiting: dict[Key, tuple[Finding, FunctionRef]] = {}

    def note_call(self, frame: Frame) -> None:
        """Note who called the function of a compiled frame."""
        if frame.mode != "compiled":
            return
        if frame.caller is not None and frame.caller.mode == "compiled":
            self._callers.setdefault(frame.ref, set()).add(frame.caller.ref)
        if not _may_be_no_call(frame):
            self._called_for_sure.add(frame.ref)

    def note_break(self, frame: Frame) -> None:
        """Note a break that was found in a compiled frame."""
        if frame.mode == "compiled":
            self._breaking.add(frame.ref)

    def wait(self, key: Key, finding: Finding, frame: Frame) -> None:
        """Keep a finding that counts only if its function begins anew, or an `__init__` around it that calls it."""
        known = self._waiting.get(key)
        if known is None or CONFIDENCES.index(finding.confidence) < CONFIDENCES.index(known[0].confidence):
            self._waiting[key] = finding, frame.ref

    def begun_anew(self) -> Iterator[Finding]:
        """The findings that have waited for a break and got one."""
        broken, pending = set(self._breaking), list(self._breaking)
        while pending:
            for caller in self._callers.get(pending.pop(), set()) - broken:
                broken.add(caller)
                pending.append(caller)
        for finding, ref in self._waiting.values():
            if any(around in broken for around in self._made_from(ref)):
                yield finding

    def _made_from(self, ref: FunctionRef) -> Iterator[FunctionRef]:
        """The functions that begin anew with an `__init__`, whichever frame of it was looked at: the outermost ones
        around it, all of which are broken where one in between is."""
        found, pending = {ref}, [ref]
        while pending:
            inner = pending.pop()
            if inner in self._called_for_sure:
                yield inner
            around = {caller for caller in self._callers.get(inner, ()) if _is_init(caller)} - found
            found |= around
            pending += around


def _is_init(ref: FunctionRef) -> bool:
    return ref.qualname.endswith(".__init__")


def _may_be_no_call(frame: Frame) -> bool:
    """Whether another `__init__` calls the function of a frame, or what is called may be something else than a class:
    it may never run then."""
    if frame.caller is None:
        return False
    called = frame.site.func if isinstance(frame.site, ast.Call) else None
    return _is_init(frame.caller.ref) or (
        called is not None and len(options(frame.caller.kinds.get(called, UNKNOWN))) > 1
    )
