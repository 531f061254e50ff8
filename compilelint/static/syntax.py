"""Walking syntax trees, a third as long as the standard library takes; half of all time went into that."""

from __future__ import annotations

import ast
from functools import lru_cache

_NOT_NODES = frozenset(
    (
        "ctx op ops id attr arg name asname module level kind type_comment type_ignores simple conversion is_async "
        "kwd_attrs rest"
    ).split()
)
"""Fields that hold names, numbers, operators or contexts."""
_INNER = {
    kind: tuple(field for field in kind._fields if field not in _NOT_NODES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Constant: (), ast.MatchSingleton: (), ast.Global: (), ast.Nonlocal: ()}


def children(node: ast.AST) -> list[ast.AST]:
    """As `ast.iter_child_nodes`, without operators and contexts (`ast.Load`)."""
    found: list[ast.AST] = []
    for field in _INNER[node.__class__]:
        value = getattr(node, field)
        if value.__class__ is list:
            found += [item for item in value if item is not None]  # a dict's `**`, a keyword without default
        elif value is not None:
            found.append(value)
    return found


@lru_cache(maxsize=16384)
def nodes_in(tree: ast.AST) -> tuple[ast.AST, ...]:
    """As `ast.walk`, without operators and contexts; kept, since many questions go over one function."""
    found = [tree]
    for node in found:
        for field in _INNER[node.__class__]:
            value = getattr(node, field)
            if value.__class__ is list:
                found += [item for item in value if item is not None]
            elif value is not None:
                found.append(value)
    return tuple(found)
