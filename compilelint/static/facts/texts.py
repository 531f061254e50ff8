"""What compiled code does with a value that it can do with a text only."""

from __future__ import annotations

import ast

from compilelint.rule import View
from compilelint.static.facts.state import is_text, own_nodes, same_place
from compilelint.static.values import UNKNOWN, ExternalInstance, Mapping, Value

_MODULES_BY_NAME = "torch.nn.ModuleDict"
_METHODS = frozenset({"encode", "lower", "upper", "startswith", "endswith", "strip", "casefold", "removeprefix"})


def used_as_text(place: ast.expr, view: View) -> bool:
    """Whether this function calls a method on what `place` names that only a str has, compares it with a text, or picks
    from an nn.ModuleDict, or a dict of texts, by it."""
    return any(_takes_for_text(part, place, view) for part in own_nodes(view.function))


def _takes_for_text(part: ast.AST, place: ast.expr, view: View) -> bool:
    if isinstance(part, ast.Attribute):
        return part.attr in _METHODS and same_place(part.value, place)
    if isinstance(part, ast.Subscript):
        return same_place(part.slice, place) and _is_kept_by_name(view.kind(part.value))
    if not isinstance(part, ast.Compare):
        return False
    sides = (part.left, *part.comparators)
    text = any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides)
    return text and any(same_place(side, place) for side in sides)


def _is_kept_by_name(value: Value) -> bool:
    """Whether a value is a dict, of modules or of anything, whose keys are texts."""
    if isinstance(value, Mapping):
        return bool(value.entries) and all(isinstance(key, str) for key, _ in value.entries)
    return isinstance(value, ExternalInstance) and value.name == _MODULES_BY_NAME


def taken_for_text(value: Value, node: ast.Name | ast.Attribute, view: View) -> bool:
    """Whether a value that comes to be at `node` is a text, or is used as one there."""
    return is_text(value) or (value == UNKNOWN and used_as_text(node, view))
