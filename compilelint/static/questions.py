"""Questions that several rules ask about the code around a node. Syntax only; nothing here knows kinds."""

from __future__ import annotations

import ast
from collections.abc import Iterable

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def assigned_once(function: FunctionNode, name: str) -> ast.expr | None:
    """The expression assigned to the local variable `name`, or None unless `function` assigns it exactly one."""
    values = [
        statement.value
        for statement in ast.walk(function)
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id == name
    ]
    return values[0] if len(values) == 1 else None


def made_here(function: FunctionNode, node: ast.expr) -> bool:
    """Whether `node` is computed in `function`: an operation, or a variable that is assigned an operation once.

    False for what comes from outside: a parameter, an attribute, an item, a global.
    """
    made = assigned_once(function, node.id) if isinstance(node, ast.Name) else node
    return isinstance(made, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare))


def called_by(node: ast.expr, parents: Iterable[ast.AST]) -> ast.Call | None:
    """The call whose callee `node` is, or is the receiver of: `f` in `f(x)`, `m` in `m.run(x)`."""
    inner: ast.AST = node
    for parent in parents:
        if isinstance(parent, ast.Call):
            return parent if parent.func is inner else None
        if not isinstance(parent, ast.Attribute):
            return None
        inner = parent
    return None
