"""The objects that a function puts in place, sets attributes of, or starts anew, as its text shows."""

from __future__ import annotations

import ast
from functools import lru_cache

from compilelint.static.facts.state import own_nodes, own_statements

_ANEW = ("reset", "clear", "restart", "start", "begin", "init", "setup")


def is_renewed(place: ast.expr, function: ast.AST) -> bool:
    """Whether a function sets a place, something on the way to it or an attribute of it, or calls a method of it that
    starts anew by its name."""
    put, changed = renewed_in(function)
    if ast.unparse(place) in changed:
        return True
    while isinstance(place, (ast.Attribute, ast.Subscript)):
        if ast.unparse(place) in put:
            return True
        place = place.value
    return False


@lru_cache(maxsize=512)
def renewed_in(function: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
    """The attributes and entries that a function sets, and what it sets attributes of or starts anew, as written."""
    targets: list[ast.expr] = []
    for statement in own_statements(function):
        if isinstance(statement, (ast.Assign, ast.Delete)):
            targets += statement.targets
        elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
            targets.append(statement.target)
    put = {ast.unparse(target) for target in targets if isinstance(target, (ast.Attribute, ast.Subscript))}
    changed: set[str] = set()
    for node in own_nodes(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr.startswith(_ANEW):
                changed.add(ast.unparse(node.func.value))
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            changed.add(ast.unparse(node.value))
    return frozenset(put), frozenset(changed)
