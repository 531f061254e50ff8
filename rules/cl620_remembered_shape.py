"""A shape that compiled code remembers on an object and compares with the next input's compiles twice per change.

## What it does
Finds `if self.shape != x.shape: …; self.shape = x.shape` in compiled code: tables, anchors or masks that are made anew
when the input has another shape than the last one. The same with one size, `self.width`, is CL604.

## Why it costs
The remembered sizes are plain Python numbers: Dynamo guards on their values. An input of another size compiles the
function again for the branch that makes the table, and the call after it once more for the branch that does not, since
what is remembered has changed by then. Measured on torch 2.13: inputs of 4, 4, 6, 6, 8 columns compile five times.
Sizes that only belong to tensors become symbols after the second one.

## Write instead
Compare with the table itself, whose size becomes a symbol, or make it for the largest size and slice it:

    if self.anchors.shape[0] != x.shape[-1]:          # not self.shape != x.shape
    table = self.table[: x.shape[-1]]                 # better: no branch at all

or make the table at each call: under the compiler `arange` and the like are fused with what uses them.

## References
PyTorch documentation "Dynamic shapes".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import class_node, functions_in, is_same_object_next_call, written
from compilelint.static.values import Scalar, Sequence, Value, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Compare,))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the comparison of a remembered shape with one of an input."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return
    sides = (node.left, node.comparators[0])
    for place, other in (sides, sides[::-1]):
        if not isinstance(place, ast.Attribute) or not _is_shape(view.kind(other)) or _is_tensors_own(place):
            continue
        if is_same_object_next_call(place, view) and _is_remembered(place, view):
            yield Hit(
                node,
                f"`{view.text(place)}` keeps the last input's size as plain numbers, on which Dynamo guards: each other"
                " size compiles again here, and once more at the call after it",
                "compare with the size of the tensor that depends on it, or make it for the largest size and slice it",
                "likely",
            )
            return


def _is_shape(value: Value) -> bool:
    """Several sizes of a tensor, together."""
    return all(
        isinstance(option, Sequence) and (option.form == "size" or all(map(_is_size, option.items or [option.element])))
        for option in options(value)
    )


def _is_size(value: Value) -> bool:
    return isinstance(value, Scalar) and value.origin == "shape"


def _is_tensors_own(place: ast.Attribute) -> bool:
    """`self.table.shape`: no memory but a tensor's own size."""
    return place.attr == "shape" and isinstance(place.value, ast.Attribute)


def _is_remembered(place: ast.Attribute, view: View) -> bool:
    """Whether this function, or another method that is no constructor, stores a shape there."""
    if any(value is not None and _is_shape(view.kind(value)) for _, value in written(place, view.function)):
        return True
    owner = class_node(view.kind(place.value), view)
    return any(
        value is not None and ast.unparse(value).endswith((".shape", ".size()"))
        for method in (functions_in(owner) if owner is not None else ())
        if method.name != "__init__" and _calls(method.name, view)
        for _, value in written(place, method)
    )


def _calls(name: str, view: View) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == name for part in ast.walk(view.function))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Detect(nn.Module):
    def __init__(self):
        super().__init__()
        self.shape = None
        self.anchors = torch.empty(0)

    def forward(self, x):
        if self.shape != x.shape:  # ~
            self.anchors = torch.arange(x.shape[-1])
            self.shape = x.shape
        return x + self.anchors
""",
        run="(Detect(), [(torch.ones(2, n),) for n in (4, 4, 6, 6, 8)])",
        default="recompile",
        fullgraph="recompile",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Detect(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.width = width
        self.shape = None
        self.register_buffer("table", torch.arange(width))

    def check(self, x):
        self.shape = x.shape

    def forward(self, x):
        if x.shape[-1] > self.width:
            raise ValueError("too wide")
        return x + self.table[: x.shape[-1]]
""",
        run="(Detect(), [(torch.ones(2, 4),) for n in range(3)])",
        default="clean",
        fullgraph="clean",
    ),
)
