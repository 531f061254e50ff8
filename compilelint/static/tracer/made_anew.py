"""Objects and dicts that driving code makes anew for each call of what is compiled, and what differs in them then."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from compilelint.record import record
from compilelint.static.facts.state import same_place
from compilelint.static.project.definitions import ClassRef, FunctionRef, assignments
from compilelint.static.project.syntax import statements_in
from compilelint.static.tracer import varying
from compilelint.static.tracer.construction import fields_of
from compilelint.static.values import Class, options

if TYPE_CHECKING:
    from compilelint.static.tracer.frame import Frame

TWO_SIDES = 2


@record(frozen=True, slots=True)
class Made:
    """An attribute of a new object that is another one each time. `line` is 1-based."""

    path: str
    line: int


def note_construction(node: ast.Call, frame: Frame) -> None:
    """Note which attributes of the objects that a call makes differ from one time to the next."""
    for made in options(frame.kind(node.func)):
        if isinstance(made, Class) and not frame.tracer.program.is_module(made.ref):
            for attribute, argument in kept_arguments(made.ref, node, frame):
                if _differs(argument, frame):
                    path = frame.tracer.display(frame.module)
                    frame.tracer.driven.made.setdefault((made.ref, attribute), Made(path, node.lineno))


def kept_arguments(ref: ClassRef, call: ast.Call, frame: Frame) -> Iterator[tuple[str, ast.expr]]:
    """The attributes that a constructor keeps of its arguments as they are, with the arguments of a call."""
    made = frame.tracer.program.method(ref, "__init__")
    if isinstance(made, FunctionRef):
        frame.tracer.program.note(made.module, "body", line=made.node.lineno)
        kept = [pair for node in statements_in(made.node) if isinstance(node, ast.Assign) for pair in assignments(node)]
        for target, value in kept:
            argument = varying.argument_at(call, made, value.id) if isinstance(value, ast.Name) else None
            if isinstance(target, ast.Attribute) and argument is not None:
                yield target.attr, argument
        return
    names = [name for name, _ in fields_of(ref, frame.tracer)]
    if not any(isinstance(argument, ast.Starred) for argument in call.args):
        yield from zip(names, call.args, strict=False)
    yield from ((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg in names)


def entries_made(argument: ast.expr, frame: Frame) -> frozenset[str]:
    """The keys, all texts, under which a dict that is written down holds something else each time."""
    found: set[str] = set()
    for node in statements_in(frame.tree) if isinstance(argument, ast.Name) else ():
        for target, value in assignments(node) if isinstance(node, (ast.Assign, ast.AnnAssign)) else ():
            if same_place(target, argument):
                found |= {key for key, part in _written_in(value) if _differs(part, frame)}
            elif isinstance(target, ast.Subscript) and same_place(target.value, argument):
                key = target.slice.value if isinstance(target.slice, ast.Constant) else None
                found |= {key} if isinstance(key, str) and _differs(value, frame) else set()
    return frozenset(found | {key for key, part in _written_in(argument) if _differs(part, frame)})


def _written_in(value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The entries of `{"a": x}` or `dict(a=x)`."""
    if isinstance(value, ast.Dict):
        for key, part in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, part
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
        yield from ((keyword.arg, keyword.value) for keyword in value.keywords if keyword.arg is not None)


def _differs(argument: ast.expr, frame: Frame) -> bool:
    """Whether an argument is one of many values: of a loop, or of what the outermost function is given."""
    if 0 < len(_constants(argument)) <= TWO_SIDES:
        return False
    if varying.is_another_next_time(argument, frame):
        return True
    names = varying.parameters_in(argument, frame) if frame.caller is None else set()
    return any(varying.is_open(name, frame) for name in names)


def _constants(argument: ast.expr) -> list[ast.expr]:
    """The values of a choice among constants; none for anything else."""
    pending, found = [argument], list[ast.expr]()
    while pending:
        part = pending.pop()
        if isinstance(part, ast.IfExp):
            pending += [part.body, part.orelse]
        elif isinstance(part, ast.Constant):
            found.append(part)
        else:
            return []
    return found
