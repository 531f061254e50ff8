"""What a file runs before any compiled code does: its body, each `__init__`, and what these call or read."""

from __future__ import annotations

import ast

from compilelint.static.facts.questions import last_name
from compilelint.static.project.syntax import nodes_in

FIRST = frozenset({"__init__", "__post_init__"})
"""Methods that run before any compiled code does."""


def runs_early(module: ast.Module) -> list[ast.AST]:
    """The statements outside of functions and classes, and the functions that run then or when an object is made."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    statements: list[ast.AST] = [s for s in module.body if not isinstance(s, definitions)]
    functions = [node for node in nodes_in(module) if isinstance(node, ast.FunctionDef)]
    known = {function.name for function in functions}
    names, new = set(FIRST), {part for around in statements for part in _mentioned(around)} & known
    new |= FIRST
    while new:
        names |= new
        inside = [function for function in functions if function.name in new]
        new = {name for function in inside for name in _mentioned(function)} & known - names
    return statements + [function for function in functions if function.name in names]


def _mentioned(around: ast.AST) -> set[str]:
    """What a piece of code calls by name, and the attributes it reads, which may be properties."""
    parts = nodes_in(around)
    called = {last_name(part.func) for part in parts if isinstance(part, ast.Call)}
    return called | {part.attr for part in parts if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load)}
