"""Members of enumerations: which class they belong to, and how many there are."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from compilelint.rule import View
from compilelint.static.facts.state import own_nodes, same_place
from compilelint.static.values import UNKNOWN, Class, Scalar, Value


def is_enumeration(definition: ast.ClassDef) -> bool:
    """Whether a class inherits from one of Python's enumerations."""
    return any(ast.unparse(base).endswith(("Enum", "Flag")) for base in definition.bases)


def enumeration_of(values: Iterable[Value], place: ast.expr, view: View) -> ast.ClassDef | None:
    """The enumeration of which all of some values, met at `place` in this function, are members; None if of none.

    Where a value does not tell, what it is compared with there does.
    """
    found: set[ast.ClassDef | None] = set()
    for value in values:
        if value == UNKNOWN or value == Scalar("object"):
            found.add(_compared_with(place, view))
        else:
            found.add(_enumeration(value, view))
    return found.pop() if len(found) == 1 else None


def count(enumeration: ast.ClassDef) -> int:
    """How many members an enumeration has."""
    return sum(isinstance(part, ast.Assign) for part in enumeration.body)


def _enumeration(value: Value, view: View) -> ast.ClassDef | None:
    """The enumeration that a value is a member of, by whichever base it is one."""
    classes = view.classes(value)
    return classes[0] if any(map(is_enumeration, classes)) else None


def _compared_with(place: ast.expr, view: View) -> ast.ClassDef | None:
    """The enumeration with members of which this function compares what `place` names."""
    for part in own_nodes(view.function):
        sides = (part.left, *part.comparators) if isinstance(part, ast.Compare) else ()
        if any(same_place(side, place) for side in sides):
            for side in sides:
                owner = view.kind(side.value) if isinstance(side, ast.Attribute) else UNKNOWN
                if isinstance(owner, Class) and is_enumeration(owner.ref.node):
                    return owner.ref.node
    return None
