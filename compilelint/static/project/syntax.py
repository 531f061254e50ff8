"""Walking syntax trees, a third as long as the standard library takes; half of all time went into that."""

from __future__ import annotations

import ast
from functools import lru_cache

from compilelint.static.project.bodies import WithoutBody

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
_INNER[WithoutBody] = _INNER[ast.FunctionDef]

_BLOCKS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: tuple(field for field in kind._fields if field in ("body", "handlers", "orelse", "finalbody", "cases"))
    for kind in _INNER
    if issubclass(kind, (ast.Module, ast.stmt, ast.excepthandler, ast.match_case))
}


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


def inner_statements(node: ast.AST) -> list[ast.AST]:
    """The statements, handlers and cases among the children of a node; an expression has none."""
    return [inner for field in _BLOCKS.get(node.__class__, ()) for inner in getattr(node, field)]


@lru_cache(maxsize=16384)
def statements_in(tree: ast.AST) -> tuple[ast.AST, ...]:
    """`tree` and the statements, handlers and cases among `nodes_in(tree)`, in its order: a tenth of the nodes."""
    return tuple(walked_statements(tree))


def walked_statements(tree: ast.AST) -> list[ast.AST]:
    """As `statements_in`, for one look: nothing is kept."""
    found = [tree]
    for node in found:
        for field in _BLOCKS.get(node.__class__, ()):
            found += getattr(node, field)
    return found


def first_line(node: ast.stmt) -> int:
    """The first line of a statement, that of its first decorator where it has one."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


@lru_cache(maxsize=16384)
def nodes_in(tree: ast.AST) -> tuple[ast.AST, ...]:
    """As `ast.walk`, without operators and contexts; kept, since many questions go over one function."""
    return tuple(walked_nodes(tree))


def walked_nodes(tree: ast.AST) -> list[ast.AST]:
    """As `nodes_in`, for one look: nothing is kept."""
    found = [tree]
    for node in found:
        for field in _INNER[node.__class__]:
            value = getattr(node, field)
            if value.__class__ is list:
                found += [item for item in value if item is not None]
            elif value is not None:
                found.append(value)
    return found
