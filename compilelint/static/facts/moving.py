"""Which attributes a file moves on as time goes by: epochs, steps, counters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilelint.static.facts.state import functions_in, own_nodes, own_statements, parameters
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import statements_in

MOVES_ON = re.compile(r"(?:^|_)(?:epoch|step|iter|iteration|tick|frame|update|round)(?:s|_idx|_index|_id|_num|_no)?$")


@about_file(frozenset())
def names_moved_on(module: ast.Module) -> frozenset[str]:
    """The names of the attributes that the file moves on."""
    return frozenset(moved_on(module))


@about_file({})
def moved_on(module: ast.Module) -> dict[str, list[tuple[int, ast.AST | None, ast.ClassDef | None]]]:
    """Attributes that the file moves on: name -> line, function and, for `self.…`, class of each place that does."""
    found: dict[str, list[tuple[int, ast.AST | None, ast.ClassDef | None]]] = {}
    for cls in (node for node in statements_in(module) if isinstance(node, ast.ClassDef)):
        methods = [node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name != "__init__"]
        moving = [(method, moved) for method in methods if (moved := list(_moved_by_method(method)))]
        called = {name for method in methods for name in _self_calls(method)} if moving else set()
        for method, moved in moving:
            if method.name not in called:
                for attribute in moved:
                    found.setdefault(attribute.attr, []).append((attribute.lineno, method, cls))
    for function in functions_in(module):
        for attribute in _moved_by_loop(function):
            found.setdefault(attribute.attr, []).append((attribute.lineno, function, None))
    return found


def _self_calls(method: ast.FunctionDef) -> Iterator[str]:
    """The names of the methods that a method calls on its own object."""
    for node in own_nodes(method):
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and _is_self(func.value):
            yield func.attr


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _moved_by_method(method: ast.FunctionDef) -> Iterator[ast.Attribute]:
    """`self.x += 1` in a method, or `self.epoch = epoch` in one that takes it and is called set_…."""
    for node in own_statements(method):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
            target: ast.expr = node.target
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and method.name.startswith("set_"):
            target = node.targets[0]
            if node.value.id not in parameters(method):
                continue
        else:
            continue
        if not (isinstance(target, ast.Attribute) and _is_self(target.value)):
            continue
        if isinstance(node, ast.AugAssign) or _is_moment(target.attr):
            yield target


def _moved_by_loop(function: ast.AST) -> Iterator[ast.Attribute]:
    """`model.epoch = epoch` in a loop over `epoch`."""
    for loop in own_statements(function):
        if not (isinstance(loop, ast.For) and isinstance(loop.target, ast.Name)):
            continue
        for node in own_statements(loop):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == loop.target.id:
                yield from (target for target in node.targets if isinstance(target, ast.Attribute))


def _is_moment(name: str) -> bool:
    """Whether a name says that its value moves on (`epoch`, `global_step`), unlike an amount (`num_steps`)."""
    return bool(MOVES_ON.search(name)) and not re.match(r"(?:num|n|max|total|min)_", name)
