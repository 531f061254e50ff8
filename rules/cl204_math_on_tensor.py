"""A function of module `math` on a tensor splits the graph.

## What it does
Reports `math.sqrt(t)`, `math.isnan(t)`, `math.floor(t)` and the other functions of `math` with a tensor, or a numpy
array, among the arguments.

## Why it costs
`math` works on Python floats, so Python converts the tensor first: the graph ends there, the value is read back
(GB0033), and the result is a new input of the next graph. Unlike `float(t)` this raises under `fullgraph=True` in
every version measured.

## Write instead
torch has the same functions, for tensors of any size: `torch.sqrt(t)` or `t.sqrt()`, `torch.isnan(t)`, `t.floor()`.

## Limits
`math` on shapes and Python numbers compiles; so do `math.prod` and `math.radians`, which only multiply, and
`math.sqrt` of a tensor whose number Dynamo knows: of one that is made of constants, `torch.tensor(2.0)`, or a single
int on the CPU that an attribute holds. Of `floor`, `ceil`, `isnan` and their like it does not work those out. Measured
on torch 2.11, 2.13 and 2.14.

## References
torch.compile programming model: "Common Graph Breaks". GB0033.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import (
    data,
    int_from_outside,
    is_array,
    on_error_path,
    python_number,
    tensors_within,
    written_constant,
)
from compilelint.static.values import Scalar

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name.startswith("math."))
SAME_NAME = frozenset(
    (
        "sqrt exp log log2 log10 log1p expm1 sin cos tan tanh floor ceil trunc isnan isinf isfinite isclose pow fmod "
        "copysign hypot atan2 gcd erf lgamma deg2rad"
    ).split()
)
MULTIPLYING = frozenset({"prod", "radians"})
"""Functions that are made of operators, which a tensor has."""
NOT_FOLDED = frozenset("floor ceil trunc isnan isinf isfinite isclose factorial isqrt gcd lcm comb perm".split())
"""Functions that Dynamo does not work out for a tensor of which it knows the number; it does all others."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call with a tensor among its arguments."""
    if not isinstance(node, ast.Call):
        return
    module, _, name = view.callee(node).rpartition(".")
    if module != "math" or name in MULTIPLYING or on_error_path(node, view):
        return
    for argument in node.args:
        if name not in NOT_FOLDED and (_is_written(argument, view) or int_from_outside(argument, view)):
            continue
        confidence = tensors_within(view.kind(argument)) if name == "fsum" else data(view.kind(argument))
        if confidence is not None:
            of_numpy = is_array(argument, view)
            what = ", a NumPy number that Dynamo holds as a tensor," if of_numpy else ""
            use = f"use `torch.{name}`, which takes tensors" if name in SAME_NAME else "use the torch function"
            yield Hit(
                node,
                f"`math.{name}` needs a Python number, so `{view.text(argument)}`{what} is read back: the graph splits"
                " here",
                python_number(argument) if of_numpy else use,
                confidence,
            )
            return


def _is_written(node: ast.expr, view: View) -> bool:
    """Whether a tensor is made of constants: one of a size is read back once that is a symbol."""
    sizes = any(isinstance(kind, Scalar) and kind.origin == "shape" for kind in map(view.kind, _numbers_in(node)))
    return written_constant(node, view) and not sizes


def _numbers_in(node: ast.expr) -> Iterator[ast.expr]:
    return (part for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)))


BAD = (
    Example(
        code="""\
import math

import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        return h / math.sqrt(h.square().sum())  # ~
""",
        run="(Scale(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from math import isnan


def clean(x: torch.Tensor):
    return torch.zeros_like(x) if isnan(x.sum()) else x + 1  # ~
""",
        run="(clean, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import math

import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, heads=2):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.heads = heads
        self.steps = torch.tensor(3)

    def forward(self, x: torch.Tensor):
        h = self.proj(x) / math.sqrt(x.shape[-1] // self.heads)
        h = h * math.prod([h.sum(), 2])
        h = h * math.log(torch.tensor(2.0)) * math.radians(h.sum()) + math.pow(self.steps, 2)
        h = torch.where(torch.isnan(h), torch.zeros_like(h), h)
        return h * math.pi * math.ceil(x.size(0) / 2) / h.square().sum().sqrt()
""",
        run="(Scale(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # What calls it passes numbers.
        code="""\
import math

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, t):
        return self.proj(x) * math.cos(t / 2) + math.pi * t


class Sampler:
    def __init__(self):
        self.net = torch.compile(Denoiser().requires_grad_(False), dynamic=True)

    def __call__(self, x, n):
        for i in range(n):
            x = self.net(x, 1.0 - i / n)
        return x
""",
        run="(Sampler(), [(torch.ones(2, 4), 4)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
