"""`masked_select` splits the graph: how much it returns depends on the data.

## What it does
Reports `torch.masked_select(x, mask)` and `x.masked_select(mask)`.

## Why it costs
It is `x[mask]` under its own name: the result has one element per hit, so Dynamo keeps it out of the graph by default
(GB0036), a GPU is waited for, and all that follows has a dynamic shape.

## Write instead
    total = torch.where(mask, x, 0).sum()               # not x.masked_select(mask).sum()
    mean = (x * mask).sum() / mask.sum()
    x = x.masked_fill(~mask, 0)

## Limits
`masked_fill`, `masked_scatter` and three-argument `where` keep the shape and compile. `fullgraph=True` captures the
call from torch 2.10 on. Measured on torch 2.13.

## References
Operator tag dynamic_output_shape in torch's native_functions.yaml. GB0036.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
CAPTURED = "sizes"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"masked_select"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call; nothing but tensors has a method of this name."""
    if not isinstance(node, ast.Call):
        return
    owner = view.callee(node).rpartition(".")[0]
    if owner in ("torch", "torch.Tensor", "?"):
        yield Hit(
            node,
            f"how much `{view.text(node)}` returns depends on the mask: Dynamo leaves it out and splits the graph here",
            "keep the shape: `torch.where(mask, x, 0)`, `x.masked_fill(~mask, 0)`, or `(x * mask).sum() / mask.sum()`",
            "likely" if owner == "?" else "certain",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x, labels):
        scores = self.head(x).log_softmax(-1)[:, 0]
        return -scores.masked_select(labels >= 0).mean()  # ~
""",
        run="(Loss(), [(torch.ones(3, 4), torch.tensor([0, -100, 2]))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def spread(x):
    x = x * 2
    return torch.masked_select(x, x > 0).std()  # ~
""",
        run="(spread, [(torch.ones(3, 4),)])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x, labels: torch.Tensor):
        keep = labels >= 0
        scores = self.head(x).log_softmax(-1)[:, 0].masked_fill(~keep, 0.0)
        scores = scores.masked_scatter(keep, torch.ones(3))
        return -scores.sum() / keep.sum()
""",
        run="(Loss(), [(torch.ones(3, 4), torch.tensor([0, -100, 2]))])",
        default="clean",
        fullgraph="clean",
    ),
)
