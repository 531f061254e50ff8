"""`one_hot` without `num_classes` splits the graph.

## What it does
Reports `torch.nn.functional.one_hot(x)` with `num_classes` left out or -1.

## Why it costs
Without it the width of the result is the largest label plus one: data, not shape. Dynamo ends the graph at the call
(GB0246, named so from torch 2.9 on), a GPU is waited for, and `fullgraph=True` raises.

## Write instead
The number of classes is known to the model; say it:

    target = F.one_hot(labels, num_classes=self.classes)

## Limits
A `num_classes` that is itself a tensor is reported by size-from-tensor. Measured on torch 2.13.

## References
torch documentation: torch.nn.functional.one_hot, parameter num_classes. GB0246.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Const

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"one_hot"}))
CALLEES = frozenset({"torch.nn.functional.one_hot", "torch._C._nn.one_hot"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that leaves the width to the data."""
    if not isinstance(node, ast.Call) or view.callee(node) not in CALLEES or any(k.arg is None for k in node.keywords):
        return
    classes = view.argument(node, 1, "num_classes")
    if classes is None or view.kind(classes) == Const(-1):
        yield Hit(
            node,
            f"how wide `{view.text(node)}` gets depends on the largest label: Dynamo splits the graph here",
            "pass the number of classes: `one_hot(labels, num_classes=n)`",
        )


BAD = (
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        return F.one_hot(chosen).float() * 2  # ~
""",
        run="(Router(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch.nn.functional import one_hot


def encode(labels):
    return one_hot(labels * 2, num_classes=-1) + 1  # ~
""",
        run="(encode, [(torch.tensor([0, 1]),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    def __init__(self, experts=3):
        super().__init__()
        self.gate = nn.Linear(4, experts)
        self.experts = experts

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        return F.one_hot(chosen, self.experts).float() + F.one_hot(chosen, num_classes=self.gate.out_features)
""",
        run="(Router(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
