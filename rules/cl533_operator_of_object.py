"""`@` with an object of a class of the project, and `~` of one, split the graph.

## What it does
Finds `a @ b` where one side is an object or module whose class defines `__matmul__` or `__rmatmul__`, and `~a` where it
defines `__invert__`, in code that Dynamo traces.

## Why it costs
Dynamo follows an object's `+`, `-`, `*`, `/`, `**`, `[]` and comparisons into the methods that define them, but not
these two. For `@` beside a tensor it tries to write the object into the graph as an operand (GB0055), for two objects
and for `~` it has no answer (GB0059). Python then runs `@`, and a new graph starts behind it; in a loop, and for `~`
anywhere, the whole function stays uncompiled. `fullgraph=True` raises.

## Write instead
Call a method by its name; its body is traced:

    y = rotation.apply(x)         # not rotation @ x
    y = rotation.__matmul__(x)    # compiles as well

## Limits
Members of enumerations and tensors are fine. Torch 2.14 compiles `~a` and `a @ b` of two objects, but not `@` beside a
tensor. Measured on torch 2.11, 2.13 and 2.14.

## References
torch/_dynamo/graph_break_registry.json: GB0055, GB0059.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.objects import is_object
from compilelint.static.facts.state import functions_in
from compilelint.static.values import Value, tensor_certainty

HAZARD = "graph-break"
WATCH = Watch(
    nodes=(ast.BinOp, ast.UnaryOp, ast.AugAssign),
    syntax=lambda node, module: isinstance(getattr(node, "op", None), (ast.MatMult, ast.Invert)),
)
INVERTED_FROM = (2, 14)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per operator that Dynamo leaves to Python."""
    if isinstance(node, ast.UnaryOp):
        sides: list[ast.expr] = [node.operand]
        names: list[tuple[str, ...]] = [("__invert__",)]
        traced = view.torch >= INVERTED_FROM
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        in_place = ("__imatmul__",) if isinstance(node, ast.AugAssign) else ()
        sides, names = [left, right], [(*in_place, "__matmul__"), ("__rmatmul__",)]
        beside_tensor = any(tensor_certainty(view.kind(side)) is not None for side in sides)
        traced = view.torch >= INVERTED_FROM and not beside_tensor
    else:
        return
    for side, methods in zip(sides, names, strict=True):
        value = view.kind(side)
        method = _own_method(value, methods, view)
        if traced or method is None:
            continue
        inverts = isinstance(node, ast.UnaryOp)
        outcome = "the whole function runs uncompiled" if inverts else "the graph splits here"
        yield Hit(
            node,
            f"`{view.text(node)}` runs `{method}` of the object `{view.text(side)}`, into which Dynamo does not follow"
            f" this operator: {outcome}",
            f"call a method by its name: `{view.text(side)}.{method}({_other(node, side, view)})` compiles",
            confidence="likely",
            hazard="frame-skip" if inverts else None,
        )
        return


def _own_method(value: Value, names: tuple[str, ...], view: View) -> str | None:
    """The first of some methods that a class of the value defines; None for what is no object."""
    if not is_object(value, view):
        return None
    defined = {function.name for definition in view.classes(value) for function in functions_in(definition)}
    return next((name for name in names if name in defined), None)


def _other(node: ast.AST, side: ast.expr, view: View) -> str:
    """The operand beside this one, as text."""
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else []
    parts = [node.target, node.value] if isinstance(node, ast.AugAssign) else parts
    return ", ".join(view.text(part) for part in parts if part is not side)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Rotation:
    def __init__(self, matrix):
        self.matrix = matrix

    def __matmul__(self, other):
        if isinstance(other, Rotation):
            return Rotation(self.matrix @ other.matrix)
        return other @ self.matrix.transpose(-1, -2)


class Turn(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, x):
        rotation = Rotation(self.weight)
        x = self.fc(x) * 2
        x = rotation @ x  # ~
        return self.fc(x)
""",
        run="(Turn(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


class Region:
    def __init__(self, mask):
        self.mask = mask

    def __invert__(self):
        return Region(~self.mask)


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __rmatmul__(self, other):
        return other * self.factor


@torch.compile
def outside(x):
    region = Region(x > 0)
    x = x * 2
    return torch.where((~region).mask, x, 0)  # ~


@torch.compile
def scaled(x, factor):
    x = x * 2
    x @= Scaled(factor)  # ~
    return x + 1


def both(x):
    return outside(x), scaled(x, 3)
""",
        run="(both, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import enum

import torch
from torch import nn


class Rotation:
    def __init__(self, matrix):
        self.matrix = matrix

    def __matmul__(self, other):
        return self.apply(other)

    def apply(self, x):
        return x @ self.matrix.mT

    def __neg__(self):
        return Rotation(-self.matrix)

    def __mul__(self, other):
        return Rotation(self.matrix * other)


class Part(enum.Flag):
    HEAD = 1
    TAIL = 2


class Turn(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, x):
        rotation = -Rotation(self.weight) * 0.5
        x = rotation.apply(x) + rotation.__matmul__(x)
        keep = ~(x > 0)
        if ~Part.HEAD == Part.TAIL:
            x = x @ self.weight
        return torch.where(keep, x, 0)
""",
        run="(Turn(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
