"""Which sizes that compiled code reads are those of a tensor that is passed with another size each time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import View
from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.state import own_nodes, parameters
from compilelint.static.values import Tensor, options

_DEPTH = 3
"""So many variables are followed from a number to the size that it is computed from."""
_KEEPING = frozenset({"torch.nn.Embedding", "torch.nn.Linear", "torch.nn.LayerNorm", "torch.nn.Dropout"})
"""Modules whose result has the first two dimensions of what they are given."""


def varying_size(number: ast.expr, view: View) -> str | None:
    """The size, as `x.shape[1]`, from which a number is computed and which differs from call to call; None if none."""
    for name, dimension in _sizes(number, view, _DEPTH):
        if size_varies(name, dimension, view):
            return f"{name}.shape[{dimension}]"
    return None


def size_varies(name: str, dimension: int, view: View, asked: frozenset[str] = frozenset()) -> bool:
    """Whether driving code passes for a variable a tensor with another size in a dimension each time.

    `asked` are the variables of which that is being asked already: two may be made of each other in a loop.
    """
    if name not in parameters(view.function):
        made = None if isinstance(view.function, (ast.Module, ast.Lambda)) else assigned_once(view.function, name)
        keeping = isinstance(made, ast.Call) and view.callee(made).removesuffix(".__call__") in _KEEPING
        given = made.args[0] if isinstance(made, ast.Call) and keeping and len(made.args) == 1 else None
        asked |= {name}
        if not isinstance(given, ast.Name) or given.id in asked or dimension not in (0, 1):
            return False
        return size_varies(given.id, dimension, view, asked)
    found = {size for passing in view.passed(name) for size in passing.sizes}
    return dimension in found or (bool(found) and _from_the_other_end(name, dimension, view) in found)


def _from_the_other_end(name: str, dimension: int, view: View) -> int | None:
    """`-1` for dimension 2 of 3, and the other way round; None where there is none or their number is not known."""
    for node in own_nodes(view.function):
        if isinstance(node, ast.Name) and node.id == name:
            for option in options(view.kind(node)):
                if isinstance(option, Tensor) and option.rank is not None:
                    other = dimension - option.rank if dimension >= 0 else dimension + option.rank
                    return other if (other < 0) == (dimension >= 0) else None
    return None


def _sizes(number: ast.expr, view: View, depth: int) -> Iterator[tuple[str, int]]:
    """The sizes that a number is computed from: of which variable, and in which dimension."""
    for part in ast.walk(number):
        if isinstance(part, (ast.Subscript, ast.Call)):
            found = _size(part, view)
            if found is not None:
                yield found
        elif isinstance(part, ast.Name) and depth and not isinstance(view.function, (ast.Module, ast.Lambda)):
            made = assigned_once(view.function, part.id)
            if made is not None and not isinstance(made, ast.Tuple):
                yield from _sizes(made, view, depth - 1)
            yield from _unpacked(part.id, view)


def _size(node: ast.Subscript | ast.Call, view: View) -> tuple[str, int] | None:
    """`x.shape[1]`, `x.size(1)` or `len(x)`."""
    if isinstance(node, ast.Subscript):
        of_shape = node.value if isinstance(node.value, ast.Attribute) and node.value.attr == "shape" else None
        tensor, index = (of_shape.value if of_shape is not None else None), _constant(node.slice)
    elif isinstance(node.func, ast.Attribute):
        sized = node.func.attr == "size" and len(node.args) == 1
        tensor, index = (node.func.value, _constant(node.args[0])) if sized else (None, None)
    else:
        counted = view.callee(node) == "builtins.len" and len(node.args) == 1
        tensor, index = (node.args[0], 0) if counted else (None, None)
    return (tensor.id, index) if isinstance(tensor, ast.Name) and index is not None else None


def _unpacked(name: str, view: View) -> Iterator[tuple[str, int]]:
    """`(x, 1)` for `n` of `batch, n, width = x.shape`, and `(x, -2)` for `h` of `h, w = x.shape[-2:]`."""
    for node in own_nodes(view.function):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not (isinstance(node, ast.Assign) and isinstance(target, ast.Tuple)):
            continue
        names = [part.id if isinstance(part, ast.Name) else "" for part in target.elts]
        shape, first = node.value, 0
        if isinstance(shape, ast.Subscript) and isinstance(shape.slice, ast.Slice) and shape.slice.upper is None:
            first = _constant(shape.slice.lower) or 0
            shape = shape.value
        if isinstance(shape, ast.Call):
            shape = shape.func
        of_tensor = isinstance(shape, ast.Attribute) and shape.attr in ("shape", "size")
        if of_tensor and isinstance(shape, ast.Attribute) and isinstance(shape.value, ast.Name) and name in names:
            yield shape.value.id, first + names.index(name)


def _constant(node: ast.expr | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _constant(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None
