"""`repeat_interleave` by a tensor of counts splits the graph.

## What it does
Reports `x.repeat_interleave(counts)` and `torch.repeat_interleave(x, counts)` where `counts` is a tensor, and
`torch.repeat_interleave(counts)`, without an `output_size`.

## Why it costs
The length of the result is the sum of the counts, which is data: Dynamo keeps the operator out of the graph by
default (GB0036), and on a GPU the host waits for the sum. A 0-d tensor as count breaks as well.

## Write instead
Say how long the result is, if that is known from elsewhere:

    owner = torch.repeat_interleave(rows, counts, output_size=x.shape[0])
    y = x.repeat_interleave(2, dim=0)               # a Python int needs nothing

## Limits
`output_size=None` breaks like none at all; an `output_size` whose value isn't known here is trusted. From torch 2.10
on `fullgraph=True` captures the call. Measured on torch 2.13.

## References
Operator tag dynamic_output_shape (repeat_interleave.Tensor) in torch's native_functions.yaml. GB0036.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import data
from compilelint.static.values import NONE, options

HAZARD = "graph-break"
CAPTURED = "sizes"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"repeat_interleave"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call whose length is data."""
    if not isinstance(node, ast.Call):
        return
    size = view.argument(node, 9, "output_size")
    if size is not None and NONE not in options(view.kind(size)):
        return
    confidence = counted_by_tensor(node, view)
    if confidence is not None:
        yield Hit(
            node,
            f"how long the result of `{view.text(node)}` is depends on the counts: the graph splits here",
            "pass `output_size=`, the known length of the result; a Python int as count needs none"
            if size is None
            else f"give `{view.text(size)}`, which may be None, the known length of the result",
            confidence,
        )


def counted_by_tensor(node: ast.Call, view: View) -> Confidence | None:
    """How sure it is that the counts are a tensor."""
    function = view.callee(node) == "torch.repeat_interleave"
    counts = view.argument(node, 1 if function else 0, "repeats")
    if counts is None:
        return "certain" if function and len(node.args) == 1 else None
    return data(view.kind(counts))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Spread(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, counts: torch.Tensor):
        h = self.proj(x)
        return h.repeat_interleave(counts, dim=0) * 2  # ~
""",
        run="(Spread(), [(torch.ones(2, 4), torch.tensor([1, 2]))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def owners(ptr: torch.Tensor, output_size=None):
    index = torch.arange(ptr.shape[0] - 1)
    return index.repeat_interleave(ptr.diff(), output_size=output_size)  # ~


def scatter(x, ptr: torch.Tensor):
    return torch.zeros(2, 4).index_add(0, owners(ptr), x + 1)
""",
        run="(scatter, [(torch.ones(3, 4), torch.tensor([0, 1, 3]))])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Spread(nn.Module):
    def __init__(self, groups=2):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.groups = groups

    def forward(self, x, counts: torch.Tensor):
        h = self.proj(x)
        y = torch.repeat_interleave(h, counts, dim=0, output_size=3).sum(0)
        y = y.repeat_interleave(self.groups).repeat_interleave(repeats=2, dim=0)
        return y + h.repeat_interleave(h.shape[0] * 4, dim=0).sum()
""",
        run="(Spread(), [(torch.ones(2, 4), torch.tensor([1, 2]))])",
        default="clean",
        fullgraph="clean",
    ),
)
