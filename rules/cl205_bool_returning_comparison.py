"""`torch.equal`, `torch.allclose` and `is_nonzero` return Python bools, and so split the graph.

## What it does
Reports the comparisons of torch whose result is a Python bool, as functions and as methods, and
`torch.testing.assert_close`.

## Why it costs
The answer depends on data and must be a Python object at once: Dynamo ends the graph, waits for the value (GB0033)
and continues in a new one, even when the result is never looked at. Each is an error under `fullgraph=True`.

## Write instead
Compare elementwise and reduce; the result is a tensor and stays in the graph:

    same = (a == b).all()              # not torch.equal(a, b); compare shapes in Python first
    near = torch.isclose(a, b).all()   # not torch.allclose(a, b)

Then `torch.where(same, ...)`, or `torch._assert_async(same)` where it is a check.

## Limits
`torch.isclose`, `torch.eq` and `==` return tensors and compile. Measured on torch 2.13.

## References
Operator tag data_dependent_output in torch's native_functions.yaml (`equal`, `allclose`). GB0033.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import data, on_error_path

HAZARD = "graph-break"
NAMES = frozenset({"equal", "allclose", "is_nonzero", "assert_close", "is_same_size"})
FUNCTIONS = frozenset(
    {"torch.equal", "torch.allclose", "torch.is_nonzero", "torch.testing.assert_close", "torch.is_same_size"}
)
WATCH = Watch(nodes=(ast.Call,), names=NAMES)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call."""
    if not isinstance(node, ast.Call) or on_error_path(node, view):
        return
    callee = view.callee(node)
    if callee in FUNCTIONS:
        kinds = [data(view.kind(argument)) for argument in node.args]
        confidence = "certain" if "certain" in kinds else "likely"
    elif callee.startswith("torch.Tensor.") and isinstance(node.func, ast.Attribute):
        confidence = data(view.kind(node.func.value)) or "likely"
    else:
        return
    yield Hit(
        node,
        f"`{view.text(node)}` must be a Python bool at once: Dynamo splits the graph here and reads the answer back",
        "compare elementwise and keep a tensor: `(a == b).all()`, `torch.isclose(a, b).all()`, `t != 0`",
        confidence,  # type: ignore[arg-type]
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("last", torch.zeros(2, 4))

    def forward(self, x):
        if torch.equal(x, self.last):  # ~
            return x
        return self.proj(x)
""",
        run="(Cached(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def step(x: torch.Tensor):
    y = x * 0.5
    settled = y.allclose(x)  # ~
    dead = y.sum().is_nonzero()  # ~
    return y + settled + dead
""",
        run="(step, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("last", torch.zeros(2, 4))

    def forward(self, x):
        same = (x == self.last).all() & torch.isclose(x, self.last).all()
        if x.shape == self.last.shape and x.dtype == self.last.dtype:
            x = x + 1
        return torch.where(same, x, self.proj(x)) * torch.eq(x, x)
""",
        run="(Cached(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
