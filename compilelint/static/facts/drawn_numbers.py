"""Python numbers that Dynamo draws for a graph: what it can't compute with."""

from __future__ import annotations

import ast

from compilelint.rule import View
from compilelint.static.facts.questions import is_drawn
from compilelint.static.values import Const, Scalar, Sequence, Value, options

_NUMBERS = ("int", "float", "bool", "number")


def is_computed(node: ast.AST, view: View) -> bool:
    """Whether a node is arithmetic on Python numbers, or repeats a list, and one of them was drawn."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.USub, ast.Invert)) and is_drawn(view.kind(node.operand))
    if isinstance(node, ast.BinOp):
        sides = (view.kind(node.left), view.kind(node.right))
    elif isinstance(node, ast.AugAssign):
        sides = (view.kind(node.target), view.kind(node.value))
    else:
        return False
    drawn = [is_drawn(side) for side in sides]
    return any(drawn) and all(done or _is_number(side) for done, side in zip(drawn, sides, strict=True))


def _is_number(value: Value) -> bool:
    """Whether a value is a Python number, or a list or tuple that another number repeats."""
    return all(
        isinstance(option, Sequence) or (isinstance(option, (Const, Scalar)) and option.type in _NUMBERS)
        for option in options(value)
    )
