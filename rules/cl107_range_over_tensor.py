"""A tensor as the count of a Python loop splits the graph.

## What it does
Reports `range(t)`, with a tensor at any of its positions, and `enumerate(..., t)`.

## Why it costs
A Python loop is unrolled while tracing, so the number of turns must be known then. For a tensor Dynamo can't make a
range (GB0059); the graph ends, the loop runs in Python and what follows is compiled apart. `fullgraph=True` raises as
well, even where it captures scalars. `range(int(t))` breaks for the cast instead.

## Write instead
Loop to a bound that Python knows, and mask what is past the count:

    for i in range(self.max_steps):
        x = torch.where(i < count, step(x), x)

or do all turns at once: `torch.arange(self.max_steps) < count`.

## Limits
Ranges over shapes, lengths and Python ints are unrolled without a break. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0059, GB0088.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import data

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"range", "enumerate"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that counts by a tensor."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    if callee == "builtins.range":
        counts = node.args
    elif callee == "builtins.enumerate":
        start = view.argument(node, 1, "start")
        counts = [start] if start is not None else []
    else:
        return
    for count in counts:
        confidence = data(view.kind(count))
        if confidence is not None:
            yield Hit(
                node,
                f"`{view.text(node)}` counts by the tensor `{view.text(count)}`: the graph splits here",
                "loop to a bound that Python knows and mask with `torch.where(i < count, ...)`",
                confidence,
            )
            return


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Unroll(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, x, lengths: torch.Tensor):
        for _ in range(lengths.max()):  # ~
            x = self.cell(x)
        return x
""",
        run="(Unroll(), [(torch.ones(2, 4), torch.tensor([2, 3]))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def windows(x: torch.Tensor, stride: torch.Tensor):
    total = x.sum()
    for start in range(0, x.shape[0], stride + 1):  # ~
        total = total + x[start]
    return total
""",
        run="(windows, [(torch.ones(4), torch.tensor(1))])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Unroll(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.cell = nn.Linear(4, 4)
        self.depth = depth

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        for turn in range(self.depth):
            x = torch.where((turn < lengths)[:, None], self.cell(x), x)
        for row in range(x.shape[0]):
            x = x + row
        for number, row in enumerate(x, 1):
            x = x + number * row
        for _ in range(len(lengths)):
            x = x * 2
        return x
""",
        run="(Unroll(), [(torch.ones(2, 4), torch.tensor([2, 3]))])",
        default="clean",
        fullgraph="clean",
    ),
)
