"""What makes a container that outlives the call shorter again, and who calls that."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import View
from compilelint.static.facts.state import SHRINKING, functions_in, own_nodes, same_place, written
from compilelint.static.project.syntax import nodes_in


def is_taken_back(place: ast.expr, view: View) -> bool:
    """Whether this is the `__enter__` of a class whose `__exit__` makes the container shorter again."""
    owner, _, name = view.qualname.rpartition(".")
    if name != "__enter__":
        return False
    classes = (c for c in nodes_in(view.module) if isinstance(c, ast.ClassDef) and c.name == owner.rpartition(".")[2])
    exits = (method for c in classes for method in functions_in(c) if method.name == "__exit__")
    return any(
        (isinstance(node, ast.Attribute) and node.attr in SHRINKING and same_place(node.value, place))
        or (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Del) and same_place(node.value, place))
        for method in exits
        for node in own_nodes(method)
    )


def methods(place: ast.expr, view: View) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The methods of the class that keeps the container, inherited ones included, but no constructor."""
    owners = view.classes(view.kind(place.value)) if isinstance(place, ast.Attribute) else ()
    return (method for owner in owners for method in functions_in(owner) if method.name != "__init__")


def emptied_by(place: ast.expr, view: View) -> Iterator[str]:
    """The methods that rebind or clear it: then it may be empty again at each call."""
    for method in methods(place, view):
        clears = any(
            isinstance(node, ast.Attribute) and node.attr in SHRINKING and same_place(node.value, place)
            for node in own_nodes(method)
        )
        if clears or any(True for _ in written(place, method)):
            yield method.name


def called_beside(view: View) -> set[str]:
    """The methods that a method of the file calls on the object on which it calls this one."""
    name = view.qualname.rpartition(".")[2]
    found: set[str] = set()
    for owner in (node for node in nodes_in(view.module) if isinstance(node, ast.ClassDef)):
        for method in functions_in(owner):
            calls = [node.func for node in own_nodes(method) if isinstance(node, ast.Call)]
            attributes = [called for called in calls if isinstance(called, ast.Attribute)]
            receivers = {ast.unparse(called.value) for called in attributes if called.attr == name}
            found |= {called.attr for called in attributes if receivers and ast.unparse(called.value) in receivers}
    return found


def called_methods(place: ast.expr, view: View) -> set[str]:
    """The methods that other methods call on the same object."""
    return {
        node.func.attr
        for method in methods(place, view)
        for node in own_nodes(method)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "self"
    }
