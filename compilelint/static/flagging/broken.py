"""Findings that hang on others: what Dynamo trips over only where a break makes it begin anew with a function.

After a break in a call, the functions on the way to it run as Python calls them, and each is compiled from its start.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from compilelint.model import CONFIDENCES, Finding
from compilelint.static.facts.questions import last_name
from compilelint.static.flagging.combine import Key
from compilelint.static.flagging.view import ScopeNodes
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, Const, options

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_EXITS = (ast.Return, ast.Break, ast.Continue)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Broken:
    """Which compiled functions have a break in them or below, and the findings that wait for one."""

    def __init__(self) -> None:
        self._callers: dict[FunctionRef, set[FunctionRef]] = {}
        self._breaking: set[FunctionRef] = set()
        self._called_for_sure: set[FunctionRef] = set()
        self._always_calling: dict[FunctionRef, set[FunctionRef]] = {}
        self._always_breaking: set[FunctionRef] = set()
        self._waiting: dict[Key, tuple[Finding, FunctionRef, FunctionRef | None]] = {}

    def note_call(self, frame: Frame, nodes_of: Callable[[Frame], ScopeNodes]) -> None:
        """Note who called the function of a compiled frame."""
        if frame.mode != "compiled":
            return
        caller = frame.caller
        if caller is not None and caller.mode == "compiled":
            self._callers.setdefault(frame.ref, set()).add(caller.ref)
            if (
                frame.site is not None
                and _is_named(frame, caller)
                and _runs_always(frame.site, caller, nodes_of(caller))
            ):
                self._always_calling.setdefault(frame.ref, set()).add(caller.ref)
        if not _may_be_no_call(frame):
            self._called_for_sure.add(frame.ref)

    def note_break(self, node: ast.expr | ast.stmt, frame: Frame, nodes: ScopeNodes) -> None:
        """Note a break that was found in a compiled frame."""
        if frame.mode == "compiled":
            self._breaking.add(frame.ref)
            if _runs_always(node, frame, nodes):
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


def _runs_always(node: ast.AST, frame: Frame, nodes: ScopeNodes) -> bool:
    """Whether no test that kinds leave open, and no handler, decides if a node of a function runs."""
    if any(_is_open(around, below, frame) for around, below in _ways_up(node, frame, nodes.parent)):
        return False
    exits = (found for kind in _EXITS for found in nodes.by_type.get(kind, ()))
    return not any(_leads_past(found, node, frame, nodes.parent) for found in exits)


def _ways_up(node: ast.AST, frame: Frame, parents: Mapping[ast.AST, ast.AST]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What is around a node in its function, innermost first, each with the part of it in which the node stands."""
    below = node
    while (around := parents.get(below)) is not None and around is not frame.ref.node:
        yield around, below
        below = around


def _is_open(around: ast.AST, below: ast.AST, frame: Frame) -> bool:
    """Whether nobody knows that a part of a statement or expression runs where that does."""
    if isinstance(around, (ast.If, ast.IfExp, ast.While)):
        return below is not around.test and not isinstance(frame.kinds.get(around.test), Const)
    if isinstance(around, _COMPREHENSIONS):
        return not isinstance(below, ast.comprehension) and any(part.ifs for part in around.generators)
    if isinstance(around, ast.BoolOp):
        return below is not around.values[0]
    return isinstance(around, (ast.ExceptHandler, ast.match_case))


def _leads_past(leaving: ast.AST, node: ast.AST, frame: Frame, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether a `return`, `break` or `continue` above a node may keep it from being run."""
    if getattr(leaving, "end_lineno", 0) >= getattr(node, "lineno", 0):
        return False
    ways = [*_ways_up(leaving, frame, parents)]
    if any(_is_dead(around, below, frame) for around, below in ways):
        return False
    loop = next((around for around, _ in ways if isinstance(around, _LOOPS)), None)
    return isinstance(leaving, ast.Return) or any(around is loop for around, _ in _ways_up(node, frame, parents))


def _is_dead(around: ast.AST, below: ast.AST, frame: Frame) -> bool:
    """Whether a statement stands in the branch that is not taken."""
    test = frame.kinds.get(around.test) if isinstance(around, ast.If) and below is not around.test else None
    return isinstance(test, Const) and bool(test.value) != (below in getattr(around, "body", ()))


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
