"""Python's `any` and `all` over tensors read them back one by one.

## What it does
Reports the builtins `any(...)` and `all(...)` over a tensor, or over a list or generator of tensors, and
`filter(None, ...)` over tensors.

## Why it costs
The builtins ask each item for its truth and stop at the first answer: a data-dependent branch per item (GB0170), each
a synchronisation on a GPU. Over a generator expression there is no place to resume, and the whole frame runs
uncompiled. `fullgraph=True` raises.

## Write instead
The tensor methods of the same names reduce on the device:

    found = (x > 0).any()
    fine = torch.stack([h.isfinite().all() for h in hidden]).all()

## Limits
`any`/`all` over Python bools, `is None` tests and shapes compile. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0170, GB8335.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.tensors import tensors_within
from compilelint.static.values import NONE

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"any", "all", "filter"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call over tensors."""
    if not isinstance(node, ast.Call) or not node.args:
        return
    callee = view.callee(node)
    if callee in ("builtins.any", "builtins.all"):
        items = node.args[0]
    elif callee == "builtins.filter" and len(node.args) == 2 and view.kind(node.args[0]) == NONE:
        items = node.args[1]
    else:
        return
    confidence = tensors_within(view.kind(items))
    if confidence is None:
        return
    generator = isinstance(items, ast.GeneratorExp)
    what = "the whole function runs uncompiled" if generator else "Dynamo splits the graph here"
    yield Hit(
        node,
        f"`{view.text(node)}` asks tensors for their truth one by one: {what}",
        "reduce on the device: `x.any()`, `x.all()`, `torch.stack(flags).all()`",
        confidence,
        "frame-skip" if generator else None,
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Guard(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        hidden = [layer(x) for layer in self.layers]
        fine = all([h.isfinite().all() for h in hidden])  # ~
        return sum(hidden) * fine
""",
        run="(Guard(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def shift(x: torch.Tensor):
    if any((row > 0).all() for row in x):  # ~
        return x + 1
    return x
""",
        run="(shift, [(torch.zeros(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def count(x: torch.Tensor):
    positive = any(x[0] > 0)  # ~
    return x + positive
""",
        run="(count, [(torch.zeros(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Guard(nn.Module):
    def __init__(self, drops=(0.0, 0.1)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.drops = drops

    def forward(self, x: torch.Tensor, masks: tuple[torch.Tensor, ...] = ()):
        hidden = [layer(x) for layer in self.layers]
        if any(mask is not None for mask in masks) or all(h.dim() == 2 for h in hidden):
            x = x + 1
        if any(self.drops) and all([h.shape[0] == 2 for h in hidden]):
            x = x * 2
        fine = torch.stack([h.isfinite().all() for h in hidden]).all()
        return torch.where(fine, x, sum(hidden))
""",
        run="(Guard(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
