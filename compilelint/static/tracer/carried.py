"""Which numbers the functions that driving code passes carry with them, another one each time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from compilelint.static.facts.state import own_names
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer import varying
from compilelint.static.values import UNKNOWN, Const, Function, Partial, Scalar, Value, options

if TYPE_CHECKING:
    from compilelint.static.tracer.frame import Frame

_NUMBERS = frozenset({"int", "float", "number"})


def carried_numbers(argument: ast.expr, frame: Frame) -> tuple[Value, ...]:
    """What differs from call to call, and is a number, in a function that is made of it.

    That is what `partial(f, by=w)` and `make_guide(w)` are given, and what a lambda or nested function reads of the
    function around it.
    """
    found: list[Value] = []
    for made in _made(argument, frame):
        for part, value in _carried(made, frame):
            numbers = [option for option in options(value) if _is_number(option)]
            if numbers and varying.is_another_next_time(part, frame):
                found += numbers
    return tuple(found)


def _is_number(value: Value) -> bool:
    return isinstance(value, (Const, Scalar)) and value.type in _NUMBERS and getattr(value, "origin", "") != "shape"


def _made(argument: ast.expr, frame: Frame) -> Iterator[ast.expr | ast.FunctionDef]:
    """What a variable is in this function, and each side of a choice; any other argument as it is."""
    if isinstance(argument, ast.IfExp):
        yield from (*_made(argument.body, frame), *_made(argument.orelse, frame))
        return
    if not isinstance(argument, ast.Name):
        yield argument
        return
    for node in nodes_in(frame.tree):
        if isinstance(node, ast.FunctionDef) and node.name == argument.id and node is not frame.tree:
            yield node
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == argument.id for target in node.targets
        ):
            # a choice among what else is made here; a variable set to another one stays what it is
            yield from _made(node.value, frame) if isinstance(node.value, ast.IfExp) else (node.value,)


def _carried(made: ast.expr | ast.FunctionDef, frame: Frame) -> Iterator[tuple[ast.expr, Value]]:
    """The parts of which a function is made, with what each of them is."""
    if isinstance(made, ast.Call):
        if any(isinstance(option, (Function, Partial)) for option in options(frame.kind(made))):
            for part in (*made.args, *(keyword.value for keyword in made.keywords)):
                yield part, frame.kind(part)
    elif isinstance(made, (ast.Lambda, ast.FunctionDef)):
        local = own_names(made)
        names = [part for part in nodes_in(made) if isinstance(part, ast.Name) and part.id not in local]
        yield from ((name, frame.look_up(name.id) or UNKNOWN) for name in names)
