"""What arithmetic and comparisons give, by the kinds of their operands."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from compilelint.static.dtypes import is_dtype
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Array,
    Const,
    Element,
    ExternalInstance,
    Instance,
    Mapping,
    Scalar,
    ScalarType,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    differ,
    element_of,
    first_of,
    join,
    join_all,
    options,
)

_FOLD: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[object, object], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,  # type: ignore[dict-item]
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
}
_LOGICAL = (ast.BitAnd, ast.BitOr, ast.BitXor)


def binary(left: Value, op: ast.operator, right: Value) -> Value:
    """`left op right`."""
    if not (isinstance(left, Union) or isinstance(right, Union)):
        return _binary(left, op, right)
    return join_all(_binary(a, op, b) for a in options(left) for b in options(right))


def _binary(left: Value, op: ast.operator, right: Value) -> Value:
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        if isinstance(op, _LOGICAL) and Scalar("object") in (left, right) and _guessed(left, right):
            return UNKNOWN  # what was taken for a tensor is a flag of an enumeration
        return tensor_result(left, right, _arithmetic_element(left, op, right))
    if isinstance(left, Array) or isinstance(right, Array):
        return Array(_arithmetic_element(left, op, right), _rank(left, right))
    for side in (left, right):
        # `True | x` and `False & x` are decided whatever flag x is.
        if (isinstance(op, ast.BitOr) and side == Const(True)) or (isinstance(op, ast.BitAnd) and side == Const(False)):
            return side
    if isinstance(left, Const) and isinstance(right, Const):
        return _fold(left, op, right)
    if isinstance(left, Sequence) or isinstance(right, Sequence):
        return _sequences(left, op, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return Mapping((*left.entries, *right.entries), join(left.element, right.element))
    if isinstance(left, (Const, Scalar)) and isinstance(right, (Const, Scalar)):
        return _scalars(left, op, right)
    return UNKNOWN


def _fold(left: Const, op: ast.operator, right: Const) -> Value:
    fold = _FOLD.get(type(op))
    if fold is None or not all(isinstance(c.value, (int, float)) for c in (left, right)):
        if left.type == right.type == "str" and isinstance(op, ast.Add):
            return Const(f"{left.value}{right.value}")
        return _scalars(left, op, right)
    try:
        return Const(fold(left.value, right.value))
    except (ArithmeticError, ValueError):
        return Scalar("number")


def _scalars(left: Const | Scalar, op: ast.operator, right: Const | Scalar) -> Value:
    if left == NONE or right == NONE:
        return UNKNOWN
    origins = [v.origin for v in (left, right) if isinstance(v, Scalar)]
    origin = next((o for o in ("tensor", "shape", "argument") if o in origins), "python")
    types = {left.type, right.type}
    kind: ScalarType = "object"
    if "str" in types:
        kind = "str"
    elif isinstance(op, ast.Div) or "float" in types:
        kind = "float"
    elif types <= {"int", "bool"}:
        kind = "int"
    elif types <= {"int", "bool", "number"}:
        kind = "number"
    return Scalar(kind, origin)  # type: ignore[arg-type]


def _sequences(left: Value, op: ast.operator, right: Value) -> Value:
    """Concatenation and repetition."""
    if isinstance(left, Sequence) and isinstance(right, Sequence):
        form = "tuple" if left.form == "size" else left.form
        if left.items is not None and right.items is not None and isinstance(op, ast.Add):
            return Sequence(form, (*left.items, *right.items))
        head = first_of(left) if form == "tuple" and differ(first_of(left)) else ()
        return Sequence(form, None, join(element_of(left), element_of(right)), head)
    many, times = (left, right) if isinstance(left, Sequence) else (right, left)
    if not isinstance(many, Sequence):
        return UNKNOWN
    form = "tuple" if many.form == "size" else many.form
    if (
        isinstance(op, ast.Mult)
        and isinstance(times, Const)
        and isinstance(times.value, int)
        and many.items is not None
    ):
        repeated = many.items * min(times.value, 64)
        return Sequence(form, repeated if len(repeated) <= 32 else None, element_of(many))
    return Sequence(form, None, element_of(many))


def _arithmetic_element(left: Value, op: ast.operator, right: Value) -> Element | None:
    mine, other = element(left), element(right)
    if isinstance(op, ast.Div):
        return "float"
    if isinstance(op, _LOGICAL):
        return mine if mine == other else (mine or other)
    if "float" in (mine, other):
        return "float"
    if mine is None or other is None:
        return None
    return "bool" if mine == other == "bool" and isinstance(op, (ast.Add, ast.Mult)) else "int"


def element(value: Value) -> Element | None:
    """What a tensor, array or Python number holds."""
    if isinstance(value, (Tensor, Array)):
        return value.element
    if isinstance(value, (Const, Scalar)) and value.type in ("bool", "int", "float"):
        return value.type  # type: ignore[return-value]
    return None


def _rank(left: Value, right: Value) -> int | None:
    ranks = [
        v.rank if isinstance(v, (Tensor, Array)) else (0 if isinstance(v, (Const, Scalar)) else None)
        for v in (left, right)
    ]
    known = [rank for rank in ranks if rank is not None]
    return max(known) if len(known) == 2 else None


def tensor_result(left: Value, right: Value, kind: Element | None) -> Tensor:
    """The tensor an elementwise operation of two operands makes, at least one of which is a tensor."""
    tensors = [v for v in (left, right) if isinstance(v, Tensor)]
    sure = any(t.sure for t in tensors)
    host = all(t.host or t.rank == 0 for t in tensors) and any(t.host for t in tensors)
    return Tensor(kind, _rank(left, right), sure, host)


def compare(left: Value, op: ast.cmpop, right: Value) -> Value:
    """`left op right` for one comparison operator."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(left, isinstance(op, ast.Is), right)
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(left, isinstance(op, ast.In), right)
    if not (isinstance(left, Union) or isinstance(right, Union)):
        return _compare(left, op, right)
    return join_all(_compare(a, op, b) for a in options(left) for b in options(right))


def _compare(left: Value, op: ast.cmpop, right: Value) -> Value:
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        other = right if isinstance(left, Tensor) else left
        # `tensor == None` and `tensor == "auto"` are plain False, measured on torch 2.13: Dynamo compiles them.
        if isinstance(other, Const) and not isinstance(other.value, (bool, int, float)):
            return Const(isinstance(op, ast.NotEq))
        if isinstance(other, (Sequence, Mapping, Instance)) or (isinstance(other, Scalar) and other.type == "str"):
            return Scalar("bool")
        if other == Scalar("object") and _guessed(left, right):
            return Scalar("bool")  # what was taken for a tensor is a member of an enumeration
        if is_dtype(other) or (isinstance(other, ExternalInstance) and _guessed(left, right)):
            return Scalar("bool")  # what was taken for a tensor is a dtype, a `Fraction`, a `slice`
        return tensor_result(left, right, "bool")
    if isinstance(left, Array) or isinstance(right, Array):
        return Array("bool", _rank(left, right))
    if isinstance(left, Const) and isinstance(right, Const):
        try:
            return Const(bool(_COMPARE[type(op)](left.value, right.value)))
        except TypeError:
            return Scalar("bool")
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    origins = [v.origin for v in (left, right) if isinstance(v, Scalar)]
    return Scalar("bool", next((o for o in ("tensor", "drawn", "shape", "argument") if o in origins), "python"))


def _guessed(left: Value, right: Value) -> bool:
    """Whether neither of two operands is a tensor for sure."""
    return not any(isinstance(side, Tensor) and side.sure for side in (left, right))


def _identity(left: Value, positive: bool, right: Value) -> Value:
    """`is` and `is not`; decided where one side is None and the other is known to be, or not to be."""
    if right == NONE or left == NONE:
        others = options(left if right == NONE else right)
        if all(o == NONE for o in others):
            return Const(positive)
        if not any(
            o == NONE or isinstance(o, Unknown) or (isinstance(o, Scalar) and o.type == "object") for o in others
        ):
            return Const(not positive)
    if isinstance(left, Const) and isinstance(right, Const) and left.type == right.type == "bool":
        return Const((left.value is right.value) is positive)
    return Scalar("bool")


def _membership(left: Value, positive: bool, right: Value) -> Value:
    if isinstance(left, Const) and isinstance(right, Sequence) and right.items is not None:
        if any(item == left for item in right.items):
            return Const(positive)
        if all(isinstance(item, Const) for item in right.items):
            return Const(not positive)
    if isinstance(left, Const) and isinstance(right, Mapping) and any(key == left.value for key, _ in right.entries):
        return Const(positive)
    return Scalar("bool")


def unary(op: ast.unaryop, value: Value) -> Value:
    """`-x`, `+x`, `~x`."""
    return join_all(_unary(op, option) for option in options(value))


def _unary(op: ast.unaryop, value: Value) -> Value:
    if isinstance(value, (Tensor, Array, Scalar)):
        return value
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
        if isinstance(op, ast.USub):
            return Const(-value.value)
        return value if isinstance(op, ast.UAdd) else Scalar("int")
    return UNKNOWN
