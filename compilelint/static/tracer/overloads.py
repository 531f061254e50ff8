"""What a class of the project defines for Python's operators and builtins: `a + b` runs `a.__add__(b)`, `int(a)` runs
`a.__int__()`; both are walked like any call."""

from __future__ import annotations

import ast

from compilelint.static.tracer import attributes, operators
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import (
    UNKNOWN,
    Array,
    Const,
    Function,
    Instance,
    Mapping,
    Scalar,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join_all,
    options,
)

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("eq", "eq"), ast.NotEq: ("ne", "ne"), ast.Lt: ("lt", "gt"), ast.LtE: ("le", "ge"), ast.Gt: ("gt", "lt"),
    ast.GtE: ("ge", "le"),
}  # fmt: skip
_PLAIN = (Tensor, Array, Const, Scalar, Sequence, Mapping, Unknown)
"""What has no operators of the project's own; most values are of these sorts."""
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}


def binary(left: Value, op: ast.operator, right: Value, node: ast.AST, frame: Frame) -> Value:
    """`left op right`."""
    if isinstance(left, _PLAIN) and isinstance(right, _PLAIN):
        return operators.binary(left, op, right)
    name = _BINARY[type(op)]
    return join_all(
        _either(a, f"__{name}__", b, f"__r{name}__", node, frame) or operators.binary(a, op, b)
        for a in options(left)
        for b in options(right)
    )


def in_place(left: Value, op: ast.operator, right: Value, node: ast.AST, frame: Frame) -> Value:
    """`left op= right`."""
    done = [own_method(option, f"__i{_BINARY[type(op)]}__", (right,), node, frame) for option in options(left)]
    known = [value for value in done if value is not None]
    return join_all(known) if len(known) == len(done) else binary(left, op, right, node, frame)


def compare(left: Value, op: ast.cmpop, right: Value, node: ast.AST, frame: Frame) -> Value:
    """`left op right` for one comparison operator."""
    if isinstance(op, (ast.In, ast.NotIn)) and not isinstance(right, _PLAIN):
        found = [own_method(option, "__contains__", (left,), node, frame) for option in options(right)]
        frame.handed_back[node] = join_all(UNKNOWN if answer is None else answer for answer in found)
    if type(op) not in _COMPARE:
        return operators.compare(left, op, right)
    mine, reflected = _COMPARE[type(op)]
    if isinstance(left, _PLAIN) and isinstance(right, _PLAIN):
        return operators.compare(left, op, right)
    return join_all(
        _either(a, f"__{mine}__", b, f"__{reflected}__", node, frame) or operators.compare(a, op, b)
        for a in options(left)
        for b in options(right)
    )


def unary(op: ast.unaryop, value: Value, node: ast.AST, frame: Frame) -> Value:
    """`-x`, `+x`, `~x`."""
    return join_all(
        own_method(option, f"__{_UNARY[type(op)]}__", (), node, frame) or operators.unary(op, option)
        for option in options(value)
    )


def ask_truth(value: Value, node: ast.AST, frame: Frame) -> None:
    """Walk what Python runs to learn whether `value` is true: `__bool__`, else `__len__`."""
    for option in () if isinstance(value, _PLAIN) else options(value):
        if own_method(option, "__bool__", (), node, frame) is None:
            own_method(option, "__len__", (), node, frame)


def store_item(owner: Value, index: Value, value: Value, node: ast.AST, frame: Frame) -> None:
    """Walk what `owner[index] = value` runs."""
    for option in options(owner):
        own_method(option, "__setitem__", (index, value), node, frame)


def _either(left: Value, name: str, right: Value, reflected: str, node: ast.AST, frame: Frame) -> Value | None:
    found = own_method(left, name, (right,), node, frame)
    return found if found is not None else own_method(right, reflected, (left,), node, frame)


def converted(value: Value, names: tuple[str, ...], node: ast.AST | None, frame: Frame) -> Value | None:
    """What `int(value)` and the like give where the project's class says how: by the first of `names` that it has.

    None unless all that `value` may be has one; what some of it has is walked all the same.
    """
    if isinstance(value, _PLAIN):
        return None
    given = [_first_of(option, names, node, frame) for option in options(value)]
    known = [result for result in given if result is not None]
    return join_all(known) if len(known) == len(given) else None


def _first_of(owner: Value, names: tuple[str, ...], node: ast.AST | None, frame: Frame) -> Value | None:
    return next((found for name in names if (found := own_method(owner, name, (), node, frame)) is not None), None)


def own_method(owner: Value, name: str, args: tuple[Value, ...], node: ast.AST | None, frame: Frame) -> Value | None:
    """What the project's own method `name` of `owner` returns; None if the project defines none."""
    if not isinstance(owner, Instance):
        return None
    method = attributes.get(owner, name, frame)
    return frame.tracer.call(method, args, {}, node, frame) if isinstance(method, Function) else None
