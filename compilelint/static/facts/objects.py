"""Objects that Dynamo follows attribute by attribute, and of which it knows no value as a whole."""

from __future__ import annotations

import ast

from compilelint.rule import View
from compilelint.static.facts.enumerations import is_enumeration
from compilelint.static.values import ExternalInstance, Instance, Value, options

_NUMBERS = frozenset({"str", "int", "float", "bool"})


def is_object(value: Value, view: View) -> bool:
    """Whether a value is, whatever it is, a module of torch or an object of a class of the project.

    Members of enumerations, named tuples, and numbers and texts with a class of their own are values to Dynamo.
    """
    found = options(value)
    return bool(found) and all(_is_one(option, view) for option in found)


def _is_one(value: Value, view: View) -> bool:
    if isinstance(value, ExternalInstance):
        return value.name.startswith("torch.nn.")
    return isinstance(value, Instance) and not any(map(makes_values, view.classes(value)))


def makes_values(definition: ast.ClassDef) -> bool:
    """Whether the objects of a class are numbers, texts, named tuples, or members of an enumeration."""
    bases = [ast.unparse(base) for base in definition.bases]
    of_tuple = any(base == "tuple" or "namedtuple" in base.lower() for base in bases)
    return of_tuple or is_enumeration(definition) or makes_numbers(definition)


def makes_numbers(definition: ast.ClassDef) -> bool:
    """Whether the objects of a class are numbers or texts."""
    return any(ast.unparse(base) in _NUMBERS for base in definition.bases)
