"""What runs only while somebody debugs: under a flag like `self.verbose` that is off unless somebody sets it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.static.facts.state import functions_in, own_statements, parameters, same_place
from compilelint.static.flagging.view import FrameView
from compilelint.static.project.definitions import assignments
from compilelint.static.tracer.binding import defaults
from compilelint.static.values import Const

_DEBUGGING = frozenset({"debug", "dbg", "debugging", "verbose", "verbosity"})


def is_for_debugging(node: ast.AST, view: FrameView) -> bool:
    """Whether a node runs only under such a flag, which nothing here is known to set, or as an assert fails."""
    below = node
    for parent in view.parents(node):
        flags: list[ast.expr] = []
        if isinstance(parent, (ast.If, ast.IfExp)):
            body = parent.body if isinstance(parent, ast.If) else [parent.body]
            flags = [parent.test] if below in body else []
        elif isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And) and isinstance(below, ast.expr):
            flags = parent.values[: parent.values.index(below)]
        elif isinstance(parent, ast.Assert) and below is parent.msg:
            return True
        if any(_asks_to_debug(flag, view) for flag in flags):
            return True
        below = parent
    return False


def _asks_to_debug(test: ast.expr, view: FrameView) -> bool:
    if isinstance(view.kind(test), Const):
        return False
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    flags = [_flag_of(part) for part in parts]
    return any(_DEBUGGING & set(_name_of(flag).lower().split("_")) and _is_off(flag, view) for flag in flags)


def _flag_of(test: ast.expr) -> ast.expr:
    """A flag, or a level that is compared with a number."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Eq)):
        return test.left
    return test


def _name_of(flag: ast.expr) -> str:
    return flag.attr if isinstance(flag, ast.Attribute) else flag.id if isinstance(flag, ast.Name) else ""


def _is_off(flag: ast.expr, view: FrameView) -> bool:
    """Whether a flag is off unless an argument or the environment says otherwise."""
    values = list(_values(flag, view))
    return bool(values) and all(map(_says_off, values))


def _says_off(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return not value.value
    return any(_name_of(part) in ("environ", "getenv") for part in ast.walk(value) if isinstance(part, ast.expr))


def _values(flag: ast.expr, view: FrameView) -> Iterator[ast.expr]:
    """What a parameter has by default, and what is assigned to a variable or an attribute of the object."""
    function = view.function
    if isinstance(flag, ast.Name) and not isinstance(function, ast.Module) and flag.id in parameters(function):
        yield defaults(function).get(flag.id, flag)
    elif isinstance(flag, ast.Name):
        yield from _assigned(flag, function)
        yield from _assigned(flag, view.module)
    else:
        for method in functions_in(view.module):
            for value in _assigned(flag, method):
                yield defaults(method).get(value.id, value) if isinstance(value, ast.Name) else value


def _assigned(place: ast.expr, scope: ast.AST) -> Iterator[ast.expr]:
    """What a function or file sets a place to, also as one of several: `self.a, self.b = a, b`."""
    for node in own_statements(scope):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield from (value for target, value in assignments(node) if same_place(target, place))
