"""Where a function computes with a number that an attribute, or an entry of a dict at it, holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import View
from compilelint.static.facts.state import held, own_nodes, root_of, same_place
from compilelint.static.values import Const, ExternalInstance, Mapping, Scalar, Sequence, Value, options


def spellings(node: ast.Attribute | ast.Subscript, view: View) -> list[ast.expr]:
    """An attribute, or an entry, and the variables that are set to it."""
    found: list[ast.expr] = [node]
    for statement in own_nodes(view.function):
        if isinstance(statement, ast.Assign) and _starts_with(statement.value, node):
            found += statement.targets
    return found


def computed_with(node: ast.Attribute | ast.Subscript, places: list[ast.expr], view: View) -> ast.expr | None:
    """The first use of a number, or of an entry of a dict; a comparison if any.

    A dict that is only iterated over, or asked for a key, tells nothing.
    """
    compared = [
        part
        for part in own_nodes(view.function)
        if isinstance(part, ast.Compare)
        and not any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in part.ops)
        and any(_starts_with(side, spelling) for side in (part.left, *part.comparators) for spelling in places)
    ]
    if compared:
        return min(compared, key=lambda part: (part.lineno, part.col_offset))
    of_dict = any(map(is_dict, options(held(node, view))))
    for part in own_nodes(view.function):
        if isinstance(part, ast.BinOp):
            for side in (part.left, part.right):
                is_number = not of_dict or not _starts_with(side, node) or isinstance(side, ast.Subscript)
                if is_number and any(_starts_with(side, spelling) for spelling in places):
                    return side
    return None


def needed_as_constant(places: list[ast.expr], view: View) -> Iterator[tuple[ast.expr, str]]:
    """Where a number has to be a constant, and why."""
    for part in own_nodes(view.function):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "range":
            bounds = [bound for bound in part.args if any(same_place(bound, place) for place in places)]
            yield from ((bound, "the loop is unrolled by it") for bound in bounds)
        elif isinstance(part, ast.Subscript) and is_list(view.kind(part.value)):
            picking = (part.slice.lower, part.slice.upper) if isinstance(part.slice, ast.Slice) else (part.slice,)
            picked = [index for index in picking if index is not None and any(same_place(index, p) for p in places)]
            yield from ((index, "it picks from a list") for index in picked)
    for key in keys_and_texts(view):
        if any(same_place(key, place) for place in places):
            yield key, "a dict's key, or a text, is made of it"


def keys_and_texts(view: View) -> Iterator[ast.expr]:
    """The keys of dicts, and what this function makes a text of: `{step: x}`, `logs[step] = x`, `str(step)`.

    Of f-strings only what hangs off `self`: a number of an argument is made a symbol first, and breaks the graph there.
    """
    for part in own_nodes(view.function):
        if isinstance(part, ast.Dict):
            yield from (key for key in part.keys if key is not None)
        elif isinstance(part, ast.Subscript) and all(map(is_dict, options(view.kind(part.value)))):
            yield part.slice
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "str":
            yield from part.args
        elif isinstance(part, ast.FormattedValue):
            root = root_of(part.value)
            yield from [part.value] if isinstance(root, ast.Name) and root.id == "self" else []


_LISTS = frozenset({"torch.nn.ModuleList", "torch.nn.ParameterList", "torch.nn.modules.container.ModuleList"})


def is_list(value: Value) -> bool:
    """Whether a value is a list or tuple, or one of modules or parameters, in any case."""
    return all(
        (isinstance(option, Sequence) and option.form in ("list", "tuple"))
        or (isinstance(option, ExternalInstance) and option.name in _LISTS)
        for option in options(value)
    )


def is_list_of_settings(value: Value) -> bool:
    """Whether a value is a list of unknown length, of numbers or texts, not of tensors."""
    if (
        not isinstance(value, Sequence)
        or value.items is not None
        or value.form not in ("list", "tuple", "set", "range")
    ):
        return False
    return all(isinstance(part, (Const, Scalar)) for part in options(value.element))


def _starts_with(node: ast.expr, place: ast.expr) -> bool:
    """Whether `node` is `place` or an entry of it."""
    if isinstance(node, ast.Subscript) and not isinstance(place, ast.Subscript):
        node = node.value
    return type(node) is type(place) and ast.unparse(node) == ast.unparse(place)


def is_dict(value: Value) -> bool:
    """Whether a value is a dict."""
    return isinstance(value, Mapping) or (isinstance(value, ExternalInstance) and value.name.endswith("defaultdict"))
