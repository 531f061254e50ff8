"""Which attributes differ between the objects that a file makes of one class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from compilelint.static.definitions import assignments
from compilelint.static.state import functions_in, own_nodes, parameters
from compilelint.static.syntax import nodes_in

MAX_ROUNDS = 6
"""A constructor hands what differs on to the constructors it calls; deeper nesting than this is not looked for."""


@lru_cache(maxsize=256)
def differing_attributes(module: ast.Module) -> frozenset[str]:
    """The attributes of which `differs` says so for some class of the file."""
    return frozenset(
        target.attr
        for owner in (node for node in nodes_in(module) if isinstance(node, ast.ClassDef))
        for target in _set_by_constructor(owner)
        if differs(target.attr, owner, module)
    )


def _set_by_constructor(owner: ast.ClassDef) -> Iterator[ast.Attribute]:
    made = _constructor(owner)
    for node in own_nodes(made) if made is not None else ():
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node


def differs(attribute: str, owner: ast.ClassDef, module: ast.Module) -> bool:
    """Whether `__init__` of `owner` makes an attribute of an argument that differs from object to object."""
    made = _constructor(owner)
    names = _differing(module).get(owner.name, frozenset())
    if made is None or not names:
        return False
    return any(
        isinstance(target, ast.Attribute) and target.attr == attribute and _names_in(value) & names
        for node in own_nodes(made)
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target, value in assignments(node)
    )


@lru_cache(maxsize=256)
def _differing(module: ast.Module) -> dict[str, frozenset[str]]:
    """By class, the constructor's parameters that a loop gives another value on each turn, directly or handed on."""
    classes = {node.name: node for node in nodes_in(module) if isinstance(node, ast.ClassDef)}
    found: dict[str, frozenset[str]] = {}
    for _ in range(MAX_ROUNDS):
        before = dict(found)
        for scope, names in _scopes(module, classes, found):
            for call in own_nodes(scope):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in classes:
                    made = _constructor(classes[call.func.id])
                    given = frozenset(_given(call, made, names)) if made is not None else frozenset()
                    found[call.func.id] = found.get(call.func.id, frozenset()) | given
        if found == before:
            break
    return found


def _scopes(
    module: ast.Module, classes: dict[str, ast.ClassDef], found: dict[str, frozenset[str]]
) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Each function, and the module, with the names in it that differ from turn to turn or from object to object."""
    constructors: dict[ast.AST, str] = {made: name for name, node in classes.items() if (made := _constructor(node))}
    for scope in (module, *functions_in(module)):
        names = set(found.get(constructors.get(scope, ""), ()))
        for node in own_nodes(scope):
            if isinstance(node, (ast.For, ast.comprehension)):
                names |= _names_in(node.target)
        yield scope, frozenset(names)


def _given(call: ast.Call, made: ast.FunctionDef, names: frozenset[str]) -> Iterator[str]:
    """The parameters of a constructor for which a call passes something with one of the names in it."""
    for parameter, argument in zip(parameters(made)[1:], call.args, strict=False):
        if _names_in(argument) & names:
            yield parameter
    for keyword in call.keywords:
        if keyword.arg is not None and _names_in(keyword.value) & names:
            yield keyword.arg


def _constructor(owner: ast.ClassDef) -> ast.FunctionDef | None:
    return next((part for part in owner.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
