"""The builtin pow of a tensor splits the graph; the operator does not.

## What it does
Finds `pow(a, b)` with a tensor as base or exponent in code that Dynamo traces.

## Why it costs
Dynamo knows the builtin `pow` for numbers only (GB0059). It ends the graph, Python calls `Tensor.__pow__`, and
another graph starts behind it, for the same operation that `a ** b` records without a break.

## Write instead
The operator `a ** b`, or `torch.pow(a, b)`: both give the same result as the builtin and stay in the graph.

## Limits
`pow` of numbers and sizes compiles, as do `abs`, `max`, `min` and `sum` of tensors. Measured on torch 2.13.
Torch 2.14 compiles the builtin; the rule is silent from there on.

## References
torch.compile documentation: "Common Graph Breaks". GB0059.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import tensor_certainty

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"pow"}))
TRACED_FROM = (2, 14)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per builtin power that involves a tensor."""
    if view.torch >= TRACED_FROM or not isinstance(node, ast.Call) or view.callee(node) != "builtins.pow":
        return
    found = {tensor_certainty(view.kind(argument)) for argument in node.args}
    if found <= {None}:
        return
    base, exponent = ([view.text(argument) for argument in node.args] + ["2"])[:2]
    yield Hit(
        node,
        f"`{view.text(node)}` is the builtin, which Dynamo does not know for tensors: the graph splits here",
        f"write `torch.pow({base}, {exponent})` or use the operator `**`",
        "certain" if "certain" in found else "likely",
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Similarity(nn.Module):
    def __init__(self, k=0.01):
        super().__init__()
        self.k = k

    def forward(self, x, y):
        span = torch.maximum(x.max() - x.min(), y.max() - y.min())
        c = pow(self.k * span, 2)  # ~
        return (2 * x * y + c) / (x * x + y * y + c)
""",
        run="(Similarity(), [(torch.rand(4), torch.rand(4))])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Similarity(nn.Module):
    def __init__(self, k=0.01):
        super().__init__()
        self.c = pow(k, 2)

    def forward(self, x):
        scale = pow(x.shape[-1], 2) * pow(2, 3)
        return abs(x) ** 2 / (torch.pow(x, 2) + self.c) / scale
""",
        run="(Similarity(), [(torch.rand(4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
