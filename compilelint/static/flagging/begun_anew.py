"""Whether a function that calls methods of an object begins anew with it: what those count then starts over."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations

from compilelint.record import record
from compilelint.static.facts.counting import stepped
from compilelint.static.facts.renewals import is_renewed
from compilelint.static.facts.state import is_module, own_nodes, own_statements, parameters, same_place
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, Instance, Value, options

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@record(frozen=True, slots=True)
class _Changes:
    """The attributes of its object that a method sets, and those that it moves on, up or down."""

    set: frozenset[str]
    up: frozenset[str]
    down: frozenset[str]


def is_begun_anew(place: ast.expr, frame: Frame) -> bool:
    """Whether a function that calls a method of the object at a place begins with a new one, or starts it anew.

    By its own text, by that of a method of its own object, or as one method that it calls undoes what another one does.
    """
    if is_renewed(place, frame.ref.node):
        return True
    owner = frame.kind(place)
    if is_module(owner) or not any(isinstance(option, Instance) for option in options(owner)):
        return False
    frame.tracer.program.note(frame.module.name, "body", line=frame.ref.line)
    return any(is_renewed(place, helper) for helper in _helpers(frame)) or _undone(place, owner, frame)


def _helpers(frame: Frame) -> Iterator[_FunctionNode]:
    """The methods of its own object that a function calls."""
    receiver = frame.env.get(next(iter(parameters(frame.ref.node)), ""), UNKNOWN)
    for node in own_nodes(frame.ref.node):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and frame.is_receiver(called.value):
            yield from _methods(receiver, called.attr, frame)


def _undone(place: ast.expr, owner: Value, frame: Frame) -> bool:
    """Whether of the methods that a function calls of an object one sets, or moves back, what another one moves on."""
    methods = {method for name in _called_of(place, frame.ref.node) for method in _methods(owner, name, frame)}
    return any(
        one.set & (other.up | other.down) or one.up & other.down
        for one, other in permutations(map(_changes_by, methods), 2)
    )


def _called_of(place: ast.expr, function: ast.AST) -> set[str]:
    """The methods of what is at a place that a function calls by name, or enters with `with`."""
    found: set[str] = set()
    for node in own_nodes(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and same_place(node.func.value, place):
            found.add(node.func.attr)
        elif isinstance(node, ast.withitem) and same_place(node.context_expr, place):
            found |= {"__enter__", "__exit__"}
    return found


def _methods(owner: Value, name: str, frame: Frame) -> Iterator[_FunctionNode]:
    program = frame.tracer.program
    for option in options(owner):
        method = program.method(option.ref, name) if isinstance(option, Instance) else None
        if isinstance(method, FunctionRef):
            program.note(method.module, "body", line=method.line)
            yield method.node


@lru_cache(maxsize=1024)
def _changes_by(method: _FunctionNode) -> _Changes:
    receiver = next(iter(parameters(method)), "self")
    changes: dict[str, set[str]] = {"set": set(), "up": set(), "down": set()}
    for node in own_statements(method):
        moved = stepped(node)
        targets = [moved] if moved is not None else node.targets if isinstance(node, ast.Assign) else []
        by = node.op if isinstance(node, ast.AugAssign) else getattr(getattr(node, "value", None), "op", None)
        how = "set" if moved is None else "down" if isinstance(by, ast.Sub) else "up"
        changes[how] |= {
            target.attr
            for target in targets
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == receiver
        }
    return _Changes(*(frozenset(changes[how]) for how in ("set", "up", "down")))
