"""An operator between a tensor and an object of a class of the project, `@` of two and `~` of one split the graph.

## What it does
Finds, in code that Dynamo traces, `+`, `-`, `*`, `/`, `//`, `%`, `**`, `@`, `&`, `|`, `^` and shifts between a tensor
and an object or module whose class defines the operator (`__mul__`, `__rmul__`), `a @ b` of two objects, and `~a` where
its class defines `__invert__`.

## Why it costs
Dynamo follows an object's operators into the methods that define them where the other side is a number or an object.
Beside a tensor it tries to write the object into the graph as an operand (GB0055), and for `@` of two objects and for
`~` it has no answer (GB0059). Python then runs the operator, and a new graph starts behind it; in a loop, and for `~`
anywhere, the whole function stays uncompiled. `fullgraph=True` raises.

## Write instead
Call a method by its name; its body is traced:

    y = rotation.apply(x)         # not rotation @ x
    y = rotation.__matmul__(x)    # compiles as well

## Limits
`[]` and comparisons, members of enumerations, named tuples and numbers of a class of their own are fine. So is, beside
a tensor, an object with `__torch_function__`; where one is on the left of `@`, Dynamo hands it the two sides the wrong
way round, a wrong result that is reported as such. Torch 2.14 compiles `~a` and `a @ b` of two objects, but not `@`
beside a tensor. Measured on torch 2.11, 2.13 and 2.14.

## References
torch/_dynamo/graph_break_registry.json: GB0055, GB0059.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.objects import is_object
from compilelint.static.values import Value, tensor_certainty

HAZARD = "graph-break"
METHODS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}
"""What the methods of an operator are named after: `__mul__`, `__rmul__`, `__imul__`."""
WATCH = Watch(
    nodes=(ast.BinOp, ast.UnaryOp, ast.AugAssign),
    syntax=lambda node, module: isinstance(getattr(node, "op", None), (*METHODS, ast.Invert)),
)
INVERTED_FROM = (2, 14)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per operator that Dynamo leaves to Python."""
    if isinstance(node, ast.UnaryOp):
        sides: list[ast.expr] = [node.operand]
        names: list[tuple[str, ...]] = [("__invert__",)]
        beside_tensor = False
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        name = METHODS[type(node.op)]
        in_place = (f"__i{name}__",) if isinstance(node, ast.AugAssign) else ()
        sides, names = [left, right], [(*in_place, f"__{name}__"), (f"__r{name}__",)]
        beside_tensor = any(tensor_certainty(view.kind(side)) is not None for side in sides)
        if not (beside_tensor or isinstance(node.op, ast.MatMult)):
            return
    else:
        return
    if view.torch >= INVERTED_FROM and not beside_tensor:
        return
    for side, methods in zip(sides, names, strict=True):
        defined = _defined(view.kind(side), view)
        method = next((name for name in methods if name in defined), None)
        answers = beside_tensor and "__torch_function__" in defined
        swapped = answers and isinstance(getattr(node, "op", None), ast.MatMult) and side is sides[0]
        if method is None or (answers and not swapped):
            continue
        inverts = isinstance(node, ast.UnaryOp)
        outcome = "the whole function runs uncompiled" if inverts else "the graph splits here"
        yield Hit(
            node,
            f"`{view.text(node)}` has an object with `__torch_function__` on its left: Dynamo hands it the two sides"
            " the wrong way round, so the result is another one than in eager code"
            if swapped
            else f"`{view.text(node)}` runs `{method}` of the object `{view.text(side)}`, into which Dynamo does not"
            f" follow this operator: {outcome}",
            f"call a method by its name: `{view.text(side)}.{method}({_other(node, side, view)})` compiles",
            confidence="likely",
            hazard="stale-result" if swapped else "frame-skip" if inverts else None,
        )
        return


def _defined(value: Value, view: View) -> frozenset[str]:
    """What the classes of an object define; nothing for what is no object, or a tensor itself."""
    if not is_object(value, view) or "torch.Tensor" in view.outside(value):
        return frozenset()
    return frozenset(name for owner in view.classes(value) for member in owner.body for name in _named(member))


def _named(member: ast.stmt) -> Iterator[str]:
    """What a statement in the body of a class defines: a method, or one more name for it."""
    if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield member.name
    elif isinstance(member, ast.Assign):
        yield from (target.id for target in member.targets if isinstance(target, ast.Name))


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


class Shift:
    def __init__(self, by):
        self.by = by

    def __add__(self, other):
        return other + self.by

    __radd__ = __add__


SHIFT = Shift(1.0)


class Wrapped:
    def __init__(self, data):
        self.data = data

    def __matmul__(self, other):
        return self.data @ other

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*[arg.data if isinstance(arg, Wrapped) else arg for arg in args], **(kwargs or {}))


@torch.compile
def wrapped(x, weight):
    return Wrapped(x) @ weight  # ~


@torch.compile
def shifted(x):
    x = SHIFT + x * 2  # ~
    x = x.relu() + Shift(x.mean())  # ~
    return x.sin()


def both(x):
    return outside(x), scaled(x, 3), shifted(x), wrapped(x.T @ x, x.T @ x)
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


class Wrapped:
    def __init__(self, data):
        self.data = data

    def __rmatmul__(self, other):
        return other @ self.data

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*[arg.data if isinstance(arg, Wrapped) else arg for arg in args], **(kwargs or {}))


class Turn(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, x):
        rotation = -Rotation(self.weight) * 0.5 * x.shape[0]
        x = rotation.apply(x) + rotation.__matmul__(x)
        keep = ~(x > 0)
        if ~Part.HEAD == Part.TAIL:
            x = x @ Wrapped(self.weight)
        return torch.where(keep, x, 0)
""",
        run="(Turn(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
