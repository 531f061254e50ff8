"""Where a function computes with a number that an attribute, or an entry of a dict at it, holds."""

from __future__ import annotations

import ast

from compilelint.rule import View
from compilelint.static.state import held, own_nodes
from compilelint.static.values import ExternalInstance, Mapping, Value, options


def spellings(node: ast.Attribute | ast.Subscript, view: View) -> list[ast.expr]:
    """An attribute, or an entry, and the variables that are set to it."""
    found: list[ast.expr] = [node]
    for statement in own_nodes(view.function):
        if isinstance(statement, ast.Assign) and _starts_with(statement.value, node):
            found += statement.targets
    return found


def computed_with(node: ast.Attribute | ast.Subscript, places: list[ast.expr], view: View) -> ast.expr | None:
    """The first use of a number, or of an entry of a dict; a comparison if any.

    A dict that is only iterated over, or asked for a key, tells nothing.
    """
    compared = [
        part
        for part in own_nodes(view.function)
        if isinstance(part, ast.Compare)
        and not any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in part.ops)
        and any(_starts_with(side, spelling) for side in (part.left, *part.comparators) for spelling in places)
    ]
    if compared:
        return min(compared, key=lambda part: (part.lineno, part.col_offset))
    of_dict = any(map(is_dict, options(held(node, view))))
    for part in own_nodes(view.function):
        if isinstance(part, ast.BinOp):
            for side in (part.left, part.right):
                is_number = not of_dict or not _starts_with(side, node) or isinstance(side, ast.Subscript)
                if is_number and any(_starts_with(side, spelling) for spelling in places):
                    return side
    return None


def _starts_with(node: ast.expr, place: ast.expr) -> bool:
    """Whether `node` is `place` or an entry of it."""
    if isinstance(node, ast.Subscript) and not isinstance(place, ast.Subscript):
        node = node.value
    return type(node) is type(place) and ast.unparse(node) == ast.unparse(place)


def is_dict(value: Value) -> bool:
    """Whether a value is a dict."""
    return isinstance(value, Mapping) or (isinstance(value, ExternalInstance) and value.name.endswith("defaultdict"))
