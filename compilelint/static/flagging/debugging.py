"""What runs only while somebody debugs: under a flag like `self.verbose` that is off unless somebody sets it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.static.facts.environment import asks_for_debugging, when_unset
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
        if any(_asks_not_to_debug(test, view) for test in _leaving(below, parent)):
            return True
        below = parent
    return any(_asks_not_to_debug(test, view) for test in _leaving(below, view.function))


def _asks_to_debug(test: ast.expr, view: FrameView) -> bool:
    return not isinstance(view.kind(test), Const) and any(_is_off(part, view) for part in _parts(test, ast.And))


def _asks_not_to_debug(test: ast.expr, view: FrameView) -> bool:
    """Whether what comes behind `if not self.verbose: return` runs only while somebody debugs."""
    return not isinstance(view.kind(test), Const) and any(
        _is_off(part.operand, view)
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not)
        else asks_for_debugging(part) and when_unset(part) is True
        for part in _parts(test, ast.Or)
    )


def _parts(test: ast.expr, joined_by: type[ast.boolop]) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, joined_by) else [test]


def _leaving(below: ast.AST, parent: ast.AST) -> Iterator[ast.expr]:
    """The tests before a statement, in the same block, under which the block is left; none for what is no statement."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, ())
        if isinstance(block, list) and below in block:
            for earlier in block[: block.index(below)]:
                if isinstance(earlier, ast.If) and isinstance(earlier.body[-1], (ast.Return, ast.Continue, ast.Break)):
                    yield earlier.test


def _is_off(test: ast.expr, view: FrameView) -> bool:
    """Whether a test asks for a flag, or a variable of the environment, that is off unless somebody sets it."""
    flag = _flag_of(test)
    named = bool(_DEBUGGING & set(_name_of(flag).lower().split("_"))) and _starts_off(flag, view)
    return named or (asks_for_debugging(test) and when_unset(test) is False)


def _flag_of(test: ast.expr) -> ast.expr:
    """A flag, or a level that is compared with a number."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Eq)):
        return test.left
    return test


def _name_of(flag: ast.expr) -> str:
    return flag.attr if isinstance(flag, ast.Attribute) else flag.id if isinstance(flag, ast.Name) else ""


def _starts_off(flag: ast.expr, view: FrameView) -> bool:
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
