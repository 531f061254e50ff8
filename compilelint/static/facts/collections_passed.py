"""Lists, tuples, sets and dicts that driving code passes, and what compiled code does with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Passing, View
from compilelint.static.facts.state import loads
from compilelint.static.values import UNKNOWN, Mapping, Sequence, Value, options

OF_DICT = frozenset({"items", "values", "keys"})


def is_collection(passing: Passing, node: ast.Name, view: View) -> bool:
    """Whether all that is passed for a parameter is a collection; what nothing is known of, if it is used as a dict."""
    kinds = [option for value in passing.values for option in options(value if value != UNKNOWN else view.kind(node))]
    if all(kind == UNKNOWN for kind in kinds):
        return any(_calls_dict(parent) for parent, _ in _around_uses(node, view))
    return all(map(_is_one, kinds))


def _is_one(kind: Value) -> bool:
    return isinstance(kind, Mapping) or (isinstance(kind, Sequence) and kind.form in ("list", "tuple", "set"))


def _calls_dict(parent: ast.AST | None) -> bool:
    return isinstance(parent, ast.Attribute) and parent.attr in OF_DICT


def reads_entries(node: ast.Name, view: View) -> bool:
    """Whether all that the function does with a dict is to read entries under constant keys, whatever else is in it."""
    return all(_is_entry(parent, next(above, None)) for parent, above in _around_uses(node, view))


def _around_uses(node: ast.Name, view: View) -> Iterator[tuple[ast.AST | None, Iterator[ast.AST]]]:
    for read in loads(node.id, view.function):
        above = view.parents(read)
        yield next(above, None), above


def _is_entry(parent: ast.AST | None, above: ast.AST | None) -> bool:
    """`parts["x"]` or `parts.get("x")`."""
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.slice, ast.Constant) and isinstance(parent.slice.value, str)
    is_get = isinstance(parent, ast.Attribute) and parent.attr == "get"
    return is_get and isinstance(above, ast.Call) and all(isinstance(part, ast.Constant) for part in above.args[:1])
