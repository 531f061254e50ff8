"""A conditional expression, `and` or `or` that a tensor decides splits the graph.

## What it does
Reports `a if tensor else b`, and `tensor and x` or `tensor or x` used as values, chained comparisons included.

## Why it costs
These are branches in small clothes: each operand but the last is asked for its truth, so Dynamo ends the graph once
per operand (GB0170) and a GPU is waited for. `0 < t < 1` is `0 < t and t < 1`, and breaks the same way.
`fullgraph=True` raises.

## Write instead
Selecting is an operation of its own, and so is a logical and:

    y = torch.where(x.sum() > 0, a, b)
    ok = (x > 0) & (x < 1)

## Limits
`x if x is not None else y` and tests on shapes or Python values compile. `value or default` is reported only where
`value` can be nothing but a tensor, or is annotated as one. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0170.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import decided, decided_by, site_of

HAZARD = "graph-break"
WATCH = Watch(tests=True)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per operand that is asked for its truth."""
    if not isinstance(node, ast.expr):
        return
    confidence = decided(node, view)
    if confidence is None:
        return
    site, negated = site_of(node, view)
    if isinstance(site, ast.IfExp):
        yield Hit(
            node,
            f"`{view.text(node)}` is {decided_by(node, view)}: Dynamo splits the graph here and reads it back to"
            " choose a side",
            "select with `torch.where(condition, a, b)`",
            confidence,
        )
    elif (isinstance(site, ast.BoolOp) and not negated) or site is None:
        yield Hit(
            node,
            f"`{view.text(node)}` is a tensor: Python asks for its truth here, which splits the graph",
            "combine tensors with `&`, `|` and `torch.where`, not with `and`, `or` and chained comparisons",
            confidence,
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Schedule(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.linspace(1, 0, 10))
        self.final = 1.0

    def forward(self, x, step: torch.Tensor):
        before = step - 1
        alpha = self.table.sum() if before >= 0 else self.final  # ~
        return x * alpha
""",
        run="(Schedule(), [(torch.ones(2, 4), torch.tensor(3))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def in_range(x: torch.Tensor, low, high):
    return low < x.mean() < high  # ~


def gate(x: torch.Tensor):
    some = (x > 0).any() or (x < -1).any()  # ~
    return x * some + in_range(x, 0, 2)
""",
        run="(gate, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=4, scale=None):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.scale = scale or width**-0.5

    def forward(self, x, mask=None, bias=None):
        rows = x.shape[0] if x.dim() == 2 else 1
        mask = mask if mask is not None else torch.ones(rows, 1)
        x = x if bias is None else x + bias
        gain = 2.0 if self.training and rows > 1 else 1.0
        inside = (x > 0) & (x < 1)
        return self.proj(torch.where(inside, x, -x)) * mask * gain * self.scale
""",
        run="(Attention(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
