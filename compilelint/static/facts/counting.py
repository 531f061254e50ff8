"""Where code moves a number on, by `x += k` and its like, and which methods have read it by then."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import View
from compilelint.static.facts.state import (
    functions_in,
    mentions,
    own_nodes,
    own_statements,
    root_of,
    same_place,
    written,
)
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in


def stepped(node: ast.AST) -> ast.expr | None:
    """The target of `x += k`, `x = x + k` or `x = (x + k) % n`."""
    if isinstance(node, ast.AugAssign):
        return node.target if isinstance(node.op, (ast.Add, ast.Sub)) else None
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp)):
        return None
    target, value = node.targets[0], node.value
    if (
        isinstance(value.op, ast.Mod)
        and isinstance(value.left, ast.BinOp)
        and not isinstance(value.right, ast.Constant)
    ):
        value = value.left  # the place in a ring; `% 2` takes few values
    if not isinstance(value.op, (ast.Add, ast.Sub)):
        return None
    return target if same_place(value.left, target) or same_place(value.right, target) else None


@about_file(frozenset())
def names_stepped_after_reads(module: ast.Module) -> frozenset[str]:
    """The names of the attributes of which `steps_after_reads` tells."""
    return frozenset(step.attr for step in steps_after_reads(module).values() if isinstance(step, ast.Attribute))


@about_file({})
def steps_after_reads(module: ast.Module) -> dict[ast.AST, ast.expr]:
    """By attribute that some method reads, where the method that called this one moves it on."""
    found: dict[ast.AST, ast.expr] = {}
    for method in functions_in(module):
        for node in own_statements(method) if method.name != "__init__" else ():
            step = stepped(node)
            if isinstance(step, ast.Attribute):
                found.update((read, step) for read in read_by_methods(step, step.lineno, method, module))
    return found


def read_by_methods(place: ast.expr, line: int, method: ast.AST, module: ast.Module) -> Iterator[ast.Attribute]:
    """The reads of `place` in methods of the same class that `method` calls on its object before `line`."""
    if not isinstance(place, ast.Attribute) or not isinstance(root := root_of(place), ast.Name) or root.id != "self":
        return
    methods = _methods_beside(method, module)
    for call in own_nodes(method):
        called = call.func if isinstance(call, ast.Call) and call.lineno < line else None
        if isinstance(called, ast.Attribute) and same_place(called.value, root) and called.attr in methods:
            inner = own_nodes(methods[called.attr])
            yield from (part for part in inner if isinstance(part, ast.Attribute) and same_place(part, place))


def _methods_beside(method: ast.AST, module: ast.Module) -> dict[str, ast.FunctionDef]:
    """The methods of the class that a method stands in, by name."""
    owners = (node for node in nodes_in(module) if isinstance(node, ast.ClassDef) and method in node.body)
    return {part.name: part for owner in owners for part in owner.body if isinstance(part, ast.FunctionDef)}


def is_restored(target: ast.expr, step: ast.AST, view: View) -> bool:
    """Whether the function also sets the place from scratch, or steps it back."""
    for statement, value in written(target, view.function):
        if isinstance(statement, ast.AugAssign):
            if isinstance(step, ast.AugAssign) and type(statement.op) is not type(step.op):
                return True
        elif value is None or not mentions(value, target):
            return True
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("reset")
        for node in own_nodes(view.function)
    )
