"""What an attribute starts with: what `__init__` stores there, and whether a branch that moves it on is ever taken."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING

from compilelint.static.facts.state import class_node, same_place, written

if TYPE_CHECKING:
    from compilelint.rule import View

_ORDERINGS = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.NotEq: operator.ne,
}
_STRICT = (ast.Lt, ast.Gt, ast.NotEq)


def starts_with(place: ast.expr, view: View) -> ast.expr | None:
    """The one value that the `__init__` of an attribute's class stores there."""
    owner = class_node(view.kind(place.value), view) if isinstance(place, ast.Attribute) else None
    made = [part for part in owner.body if _is_constructor(part)] if owner is not None else []
    values = [value for part in made for _, value in written(place, part)]
    return values[0] if len(values) == 1 else None


def starts_at_bound(place: ast.expr, step: ast.AST, view: View) -> bool:
    """Whether `if self.n < self.cap: self.n += 1` starts with `n` at the cap and nothing else moves either of them."""
    below = step
    for parent in view.parents(step):
        test = parent.test if isinstance(parent, ast.If) and below in parent.body else None
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and same_place(test.left, place):
            return _is_false_at_first(place, test, view) and _moved_only_in(parent, place, view)
        below = parent
    return False


def _is_false_at_first(place: ast.expr, test: ast.Compare, view: View) -> bool:
    bound = test.comparators[0]
    first, ordering = starts_with(place, view), type(test.ops[0])
    last = bound if isinstance(bound, ast.Constant) else starts_with(bound, view)
    if first is None or last is None or (last is not bound and not _moved_only_in(None, bound, view)):
        return False
    if isinstance(first, ast.Constant) and isinstance(last, ast.Constant):
        compare, start, end = _ORDERINGS.get(ordering), first.value, last.value
        return compare is not None and isinstance(start, int) and isinstance(end, int) and not compare(start, end)
    is_same = isinstance(first, ast.Name) and isinstance(last, ast.Name) and first.id == last.id
    return is_same and issubclass(ordering, _STRICT)


def _moved_only_in(branch: ast.AST | None, place: ast.expr, view: View) -> bool:
    """Whether the class of an attribute binds it in `__init__` and in one branch alone."""
    owner = class_node(view.kind(place.value), view) if isinstance(place, ast.Attribute) else None
    allowed = [] if branch is None else [statement for statement, _ in written(place, branch)]
    return owner is not None and all(
        statement in allowed
        for part in owner.body
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and not _is_constructor(part)
        for statement, _ in written(place, part)
    )


def _is_constructor(part: ast.stmt) -> bool:
    return isinstance(part, ast.FunctionDef) and part.name == "__init__"
