"""`checkpoint_sequential` is not traced, unlike `checkpoint`.

## What it does
Finds calls of `torch.utils.checkpoint.checkpoint_sequential` in code that Dynamo traces.

## Why it costs
Dynamo puts `checkpoint` into the graph as one operator, but the function that cuts a Sequential into segments is marked
as not traced (GB0007), with `use_reentrant=False` too. The graph ends before it; the segments are compiled one by one
where Python calls them. In a loop the whole function stays uncompiled.

## Write instead
Checkpoint the segments yourself:

    for segment in (self.layers[:4], self.layers[4:]):
        x = checkpoint(segment, x, use_reentrant=False)

## Limits
Measured on torch 2.11, 2.13 and 2.14.

## References
PyTorch documentation: "torch.utils.checkpoint". GB0007.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
CUTTING = "torch.utils.checkpoint.checkpoint_sequential"
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name == CUTTING)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call."""
    if isinstance(node, ast.Call) and view.callee(node) == CUTTING:
        yield Hit(
            node,
            f"`{view.text(node)}` is marked as not traced: the graph splits here",
            "call `checkpoint(segment, x, use_reentrant=False)` for each segment, which stays in the graph",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x):
        x = checkpoint_sequential(self.layers, 2, x * 2, use_reentrant=False)  # ~
        if self.training:
            return checkpoint_sequential(self.layers, 2, x * 2)  # ~
        return self.layers(x)
""",
        run="(Encoder(), [(torch.ones(2, 4, requires_grad=True),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
import torch.utils.checkpoint
from torch import nn


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)])

    def forward(self, x):
        for stage in self.stages:
            x = torch.utils.checkpoint.checkpoint_sequential(stage, 1, x, use_reentrant=False)  # ~
        return x
""",
        run="(Stages(), [(torch.ones(2, 4, requires_grad=True),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.cut = False

    def forward(self, x):
        if self.cut:
            return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)
        for segment in (self.layers[:1], self.layers[1:]):
            x = checkpoint(segment, x, use_reentrant=False)
        return x
""",
        run="(Encoder(), [(torch.ones(2, 4, requires_grad=True),)])",
        default="clean",
        fullgraph="clean",
    ),
)
