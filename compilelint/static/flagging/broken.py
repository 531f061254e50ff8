"""Findings that hang on others: what Dynamo trips over only where a break makes it begin anew with a function.

After a break in a call, the functions on the way to it run as Python calls them, and each is compiled from its start.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from compilelint.model import CONFIDENCES, Finding
from compilelint.static.facts.questions import last_name
from compilelint.static.flagging.combine import Key
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, Const, options

Parents: TypeAlias = Mapping[ast.AST, ast.AST]
"""The syntax node around each node of a function."""


class Broken:
    """Which compiled functions have a break in them or below, and the findings that wait for one."""

    def __init__(self) -> None:
        self._callers: dict[FunctionRef, set[FunctionRef]] = {}
        self._breaking: set[FunctionRef] = set()
        self._called_for_sure: set[FunctionRef] = set()
        self._always_calling: dict[FunctionRef, set[FunctionRef]] = {}
        self._always_breaking: set[FunctionRef] = set()
        self._waiting: dict[Key, tuple[Finding, FunctionRef, FunctionRef | None]] = {}

    def note_call(self, frame: Frame, parents: Callable[[Frame], Parents]) -> None:
        """Note who called the function of a compiled frame; `parents` gives what is around the nodes of a frame."""
        if frame.mode != "compiled":
            return
        caller = frame.caller
        if caller is not None and caller.mode == "compiled":
            self._callers.setdefault(frame.ref, set()).add(caller.ref)
            if (
                frame.site is not None
                and _is_named(frame, caller)
                and _runs_always(frame.site, caller, parents(caller))
            ):
                self._always_calling.setdefault(frame.ref, set()).add(caller.ref)
        if not _may_be_no_call(frame):
            self._called_for_sure.add(frame.ref)

    def note_break(self, node: ast.expr | ast.stmt, frame: Frame, parents: Parents) -> None:
        """Note a break that was found in a compiled frame."""
        if frame.mode == "compiled":
            self._breaking.add(frame.ref)
            if _runs_always(node, frame, parents):
                self._always_breaking.add(frame.ref)

    def wait(self, key: Key, finding: Finding, frame: Frame, called: FunctionRef | None) -> None:
        """Keep a finding that counts only if what it `called` always breaks; without that, if its own function begins
        anew, or an `__init__` around it that calls it."""
        known = self._waiting.get(key)
        if known is None or CONFIDENCES.index(finding.confidence) < CONFIDENCES.index(known[0].confidence):
            self._waiting[key] = finding, frame.ref, called

    def counting(self) -> Iterator[Finding]:
        """The findings that have waited for a break and got one."""
        broken = _with_callers(self._breaking, self._callers)
        always = _with_callers(self._always_breaking, self._always_calling)
        for finding, ref, called in self._waiting.values():
            if called in always if called is not None else any(around in broken for around in self._made_from(ref)):
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


def _with_callers(broken: set[FunctionRef], callers: Mapping[FunctionRef, set[FunctionRef]]) -> set[FunctionRef]:
    """Functions with a break in them, and those that lead to one."""
    found, pending = set(broken), list(broken)
    while pending:
        for caller in callers.get(pending.pop(), set()) - found:
            found.add(caller)
            pending.append(caller)
    return found


def _is_named(frame: Frame, caller: Frame) -> bool:
    """Whether the text of a call says which function it calls; one that is handed in, or kept, is another each time."""
    called = frame.site.func if isinstance(frame.site, ast.Call) else None
    name = frame.ref.qualname.rpartition(".")[2]
    if name == "forward":
        return caller.ref.owner is not None and frame.tracer.program.is_module(caller.ref.owner)
    if name == "__call__":
        return isinstance(called, ast.Name) and caller.is_receiver(called)
    return called is not None and name in (last_name(called), "__init__")


def _runs_always(node: ast.AST, frame: Frame, parents: Parents) -> bool:
    """Whether no test that kinds leave open, and no handler, decides if a node of a function runs."""
    below = node
    while (around := parents.get(below)) is not None and around is not frame.ref.node:
        if isinstance(around, (ast.If, ast.IfExp, ast.While)):
            if below is not around.test and not isinstance(frame.kinds.get(around.test), Const):
                return False
        elif isinstance(around, (ast.ExceptHandler, ast.match_case)) or (
            isinstance(around, ast.BoolOp) and below is not around.values[0]
        ):
            return False
        below = around
    return True


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
