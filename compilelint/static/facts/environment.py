"""What code finds where nobody has set a variable of the environment."""

from __future__ import annotations

import ast
from collections.abc import Callable
from operator import ge, gt, le, lt

_READERS = frozenset({"os.getenv", "getenv", "os.environ.get", "environ.get"})
_TEXT_METHODS = frozenset({"lower", "upper", "strip", "casefold"})
_DEBUGGING = frozenset("debug dbg debugging verbose verbosity log logging dump trace tracing profile profiling".split())


def asks_for_debugging(test: ast.expr) -> bool:
    """Whether a test asks the environment for a variable by whose name somebody debugs: `os.getenv("NET_DEBUG")`."""
    return any(_DEBUGGING & set(name.lower().split("_")) for name in _variables(test))


def _variables(test: ast.expr) -> list[str]:
    names = [node.args[0] for node in ast.walk(test) if _reads(node) and isinstance(node, ast.Call)]
    if isinstance(test, ast.Compare) and ast.unparse(test.comparators[0]) in ("os.environ", "environ"):
        names.append(test.left)
    return [name.value for name in names if isinstance(name, ast.Constant) and isinstance(name.value, str)]


def _reads(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and bool(node.args) and ast.unparse(node.func) in _READERS


def when_unset(test: ast.expr) -> bool | None:
    """The answer of a test where none of the variables that it reads is set; None where more decides."""
    try:
        return bool(_value(test))
    except (_OpenError, TypeError, ValueError):
        return None


class _OpenError(Exception):
    """Part of an expression is none of what is followed here."""


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node)
    if isinstance(node, ast.Call):
        return _called(node)
    raise _OpenError


def _compared(node: ast.Compare) -> bool:
    operator, right = node.ops[0], node.comparators[0]
    if isinstance(operator, (ast.In, ast.NotIn)):
        held = [] if ast.unparse(right) in ("os.environ", "environ") else _value(right)
        found = isinstance(held, (list, str)) and _value(node.left) in held
        return found is isinstance(operator, ast.In)
    if isinstance(operator, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
        return (_value(node.left) == _value(right)) is isinstance(operator, (ast.Eq, ast.Is))
    left, bound = _value(node.left), _value(right)
    if isinstance(left, int) and isinstance(bound, int):  # `int(os.getenv("VERBOSE", "0")) > 1`
        return _ORDERS[type(operator)](left, bound)
    raise _OpenError


_ORDERS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {ast.Gt: gt, ast.GtE: ge, ast.Lt: lt, ast.LtE: le}


def _called(node: ast.Call) -> object:
    if _reads(node):
        given = [keyword.value for keyword in node.keywords if keyword.arg == "default"]
        default = [*node.args[1:2], *given]
        return _value(default[0]) if default else None
    if isinstance(node.func, ast.Name) and node.func.id in ("bool", "int") and len(node.args) == 1:
        value = _value(node.args[0])
        return int(value) if node.func.id == "int" and isinstance(value, (str, int)) else bool(value)
    if isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_METHODS:
        text = _value(node.func.value)
        return getattr(text, node.func.attr)() if isinstance(text, str) else text
    raise _OpenError
