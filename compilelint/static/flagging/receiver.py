"""How the object whose method a frame runs is reached from the one with which the region starts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.state import is_module, own_names, own_statements, parameters, root_of
from compilelint.static.flagging.begun_anew import is_begun_anew
from compilelint.static.project.parts import FACT
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, Instance, Value, options

_GIVING = frozenset({"enumerate", "zip", "list", "tuple", "reversed", "values", "items"})
"""What a loop over objects may call on the way to them."""


def is_of_first_object(frame: Frame) -> bool:
    """Whether it is that object, or is reached from it by attributes of `self` alone.

    Not where a function on the way puts another object there, sets one of its attributes, or resets it.
    """
    while frame.caller is not None and frame.caller.mode == frame.mode:
        place = _called_on(frame)
        root = _root(place)
        if not (isinstance(root, ast.Name) and root.id == "self"):
            return False
        if isinstance(place, (ast.Attribute, ast.Subscript)) and is_begun_anew(place, frame.caller):
            return False
        frame = frame.caller
    return True


def is_of_module(frame: Frame) -> bool:
    """Whether it is a module, or was reached from one, or from a global, by attributes, entries and loops over them.

    Not where a function on the way puts another object there, sets one of its attributes, or resets it.
    """
    while not is_module(receiver := _receiver(frame)):
        caller = frame.caller
        if caller is None or caller.mode != frame.mode or not _is_object(receiver):
            return False
        place = place_called_on(frame, caller)
        root = _root(place)
        if place is None or not isinstance(root, ast.Name) or is_begun_anew(place, caller):
            return False
        if root.id not in own_names(caller.ref.node):
            return _is_global(root.id, caller)
        if not caller.is_receiver(root):
            return False  # what is handed in may be another object each time
        frame = caller
    return True


def place_called_on(frame: Frame, caller: Frame) -> ast.expr | None:
    """What `caller` calls a method of to get to `frame`: an attribute or entry, also where a local variable stands for
    it or a loop takes it from there; None for a local variable that is anything else."""
    node = _called_on(frame)
    root = _root(node)
    if not isinstance(root, ast.Name) or caller.is_receiver(root):
        return node
    caller.tracer.program.note(caller.module.name, "body", line=caller.ref.line)
    if root.id not in own_names(caller.ref.node):
        return node
    sources = list(_bound_to(root.id, caller.ref.node))
    return sources[0] if len(sources) == 1 and isinstance(sources[0], (ast.Attribute, ast.Subscript)) else None


def _receiver(frame: Frame) -> Value:
    first = next(iter(parameters(frame.ref.node)), None)
    return frame.env.get(first, UNKNOWN) if first is not None and frame.ref.owner is not None else UNKNOWN


def _is_object(value: Value) -> bool:
    return all(isinstance(option, Instance) for option in options(value))


def _called_on(frame: Frame) -> ast.expr | None:
    """What the caller calls a method of, or calls as it is: `self.stats` of `self.stats.push(x)`."""
    called = frame.site.func if isinstance(frame.site, ast.Call) else None
    return called.value if isinstance(called, ast.Attribute) else called


def _bound_to(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.expr]:
    made = assigned_once(function, name)
    if made is not None:
        yield made
    for loop in own_statements(function):
        if isinstance(loop, ast.For) and any(
            isinstance(part, ast.Name) and part.id == name for part in ast.walk(loop.target)
        ):
            yield _gone_through(loop.iter)


def _gone_through(node: ast.expr) -> ast.expr:
    """`self.items` of `enumerate(self.items)` and `self.items.values()`."""
    while isinstance(node, ast.Call):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name not in _GIVING:
            break
        if isinstance(called, ast.Attribute):
            node = called.value
        elif len(node.args) == 1:
            node = node.args[0]
        else:
            break
    return node


def _is_global(name: str, frame: Frame) -> bool:
    module = frame.module
    frame.tracer.program.note(module.name, FACT, f"{__name__}:{bound_by.__qualname__}")
    return name in bound_by(module.tree)


def bound_by(module: ast.Module) -> tuple[str, ...]:
    """The names that a file binds outside of its functions and classes."""
    return tuple(sorted(own_names(module)))


def _root(node: ast.expr | None) -> ast.expr | None:
    return None if node is None else root_of(node)
