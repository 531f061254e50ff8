"""Which attributes differ between the objects that a file makes of one class."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.static.facts.state import functions_in, names_in, own_nodes, own_statements, parameters
from compilelint.static.project.answers import about_file
from compilelint.static.project.definitions import assignments
from compilelint.static.project.syntax import statements_in

MAX_ROUNDS = 6
"""A constructor hands what differs on to the constructors it calls; deeper nesting than this is not looked for."""


@about_file(frozenset())
def differing_attributes(module: ast.Module) -> frozenset[str]:
    """The attributes of which `differs` says so for some class of the file."""
    classes = (node for node in statements_in(module) if isinstance(node, ast.ClassDef))
    return frozenset(attribute for owner in classes for attribute in _made_of_differing(owner, module))


def differs(attribute: str, owner: ast.ClassDef, module: ast.Module) -> bool:
    """Whether `__init__` of `owner` makes an attribute of an argument that differs from object to object."""
    return attribute in _made_of_differing(owner, module)


def _made_of_differing(owner: ast.ClassDef, module: ast.Module) -> Iterator[str]:
    made = _constructor(owner)
    names = _differing(module).get(owner.name, frozenset())
    for node in own_statements(made) if made is not None and names else ():
        for target, value in assignments(node) if isinstance(node, (ast.Assign, ast.AnnAssign)) else ():
            if isinstance(target, ast.Attribute) and names_in(value) & names:
                yield target.attr


@about_file({})
def _differing(module: ast.Module) -> dict[str, frozenset[str]]:
    """By class, the constructor's parameters that a loop gives another value on each turn, directly or handed on."""
    classes = {node.name: node for node in statements_in(module) if isinstance(node, ast.ClassDef)}
    made = {name: function for name, node in classes.items() if (function := _constructor(node)) is not None}
    scopes = list(_scopes(module, made))
    found: dict[str, frozenset[str]] = {}
    for _ in range(MAX_ROUNDS):
        before = dict(found)
        for maker, turning, calls in scopes:
            names = turning | found.get(maker, frozenset())
            for name, arguments in calls if names else ():
                given = frozenset(parameter for parameter, used in arguments if used & names)
                found[name] = found.get(name, frozenset()) | given
        if found == before:
            break
    return found


_Arguments = list[tuple[str, set[str]]]
"""The parameters that a call passes something for, with the names in it."""


def _scopes(
    module: ast.Module, made: dict[str, ast.FunctionDef]
) -> Iterator[tuple[str, frozenset[str], list[tuple[str, _Arguments]]]]:
    """Of each function that calls constructors, and of the module: of which class it is the constructor, if of any, the
    names that differ in it from turn to turn, and those calls. `made` has the constructors by class."""
    classes: dict[ast.AST, str] = {function: name for name, function in made.items()}
    for scope in (module, *functions_in(module)):
        calls = [
            (node.func.id, list(_given(node, made[node.func.id])))
            for node in own_nodes(scope)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in made
        ]
        if calls:
            loops = [node for node in own_nodes(scope) if isinstance(node, (ast.For, ast.comprehension))]
            turning = frozenset().union(*(names_in(loop.target) for loop in loops))
            yield classes.get(scope, ""), turning, calls


def _given(call: ast.Call, made: ast.FunctionDef) -> Iterator[tuple[str, set[str]]]:
    """The parameters of a constructor that a call passes something for, with the names in it."""
    for parameter, argument in zip(parameters(made)[1:], call.args, strict=False):
        yield parameter, names_in(argument)
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, names_in(keyword.value)


def _constructor(owner: ast.ClassDef) -> ast.FunctionDef | None:
    return next((part for part in owner.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)
