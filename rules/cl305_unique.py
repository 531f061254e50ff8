"""`unique` and `bincount` split the graph: how much they return depends on the data.

## What it does
Reports `torch.unique`, `torch.unique_consecutive` and `torch.bincount`, the methods of these names, and
`numpy.unique` and `numpy.bincount`.

## Why it costs
The result is as long as there are different values, so Dynamo keeps these operators out of the graph by default
(GB0036). That holds for `bincount(x, minlength=n)` too, since a value above `n` would still lengthen it, and for
`return_inverse=True`, whose inverse has a known shape. On a GPU the host waits.

## Write instead
With a known number of classes, count into a tensor of that size:

    counts = torch.zeros(n, dtype=torch.long, device=x.device).scatter_add_(0, x, torch.ones_like(x))
    counts = (x[:, None] == torch.arange(n, device=x.device)).sum(0)
    fresh = torch.ones_like(x, dtype=torch.bool); fresh[1:] = x[1:] != x[:-1]   # sorted x: marks, not values

## Limits
`fullgraph=True` captures them from torch 2.10 on. `torch.histc` has a fixed size and compiles. Measured on torch
2.13.

## References
Operator tag dynamic_output_shape in torch's native_functions.yaml. GB0036.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import data

HAZARD = "graph-break"
CAPTURED = "sizes"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"unique", "unique_consecutive", "bincount"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call."""
    if not isinstance(node, ast.Call):
        return
    owner, _, name = view.callee(node).rpartition(".")
    confidence: Confidence | None = "certain"
    if owner not in ("torch", "numpy"):
        confidence = data(view.kind(node.func.value)) if isinstance(node.func, ast.Attribute) else None
    if confidence is None:
        return
    yield Hit(
        node,
        f"how much `{view.text(node)}` returns depends on the data: Dynamo leaves it out and splits the graph here",
        "count into a fixed size with `scatter_add_`, or compare with `torch.arange(n)`"
        if name == "bincount"
        else "mark changes in the sorted tensor instead of collecting values, or do this before the compiled region",
        confidence,
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, owner: torch.Tensor, n: int = 3):
        h = self.proj(x)
        counts = torch.bincount(owner, minlength=n)  # ~
        return torch.zeros(n, 4).index_add(0, owner, h) / counts[:, None]
""",
        run="(Pool(), [(torch.ones(3, 4), torch.tensor([0, 1, 2]))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def merge(ids: torch.Tensor):
    ids = ids + 1
    values, where = torch.unique(ids, return_inverse=True)  # ~
    return where * 2, ids.unique_consecutive()  # ~
""",
        run="(merge, [(torch.tensor([0, 1, 1]),)])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self, names=("a", "b")):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.unique = sorted(set(names))

    def forward(self, x, owner: torch.Tensor, n: int = 3):
        h = self.proj(x)
        counts = torch.zeros(n, dtype=torch.long).scatter_add_(0, owner, torch.ones_like(owner))
        fresh = torch.ones_like(owner, dtype=torch.bool)
        fresh[1:] = owner[1:] != owner[:-1]
        return torch.zeros(n, 4).index_add(0, owner, h) / counts[:, None] * fresh.sum() * len(self.unique)
""",
        run="(Pool(), [(torch.ones(3, 4), torch.tensor([0, 1, 2]))])",
        default="clean",
        fullgraph="clean",
    ),
)
