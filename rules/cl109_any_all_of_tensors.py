"""Python's `any` and `all` over tensors read them back one by one.

## What it does
Reports the builtins `any(...)` and `all(...)` over a tensor, or over a list or generator of tensors, and `filter`,
`itertools.filterfalse`, `takewhile`, `dropwhile` and `compress` where they choose by tensors.

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

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import data, tensors_within
from compilelint.static.values import NONE

HAZARD = "graph-break"
CHOOSE = frozenset(
    {"builtins.filter", "itertools.filterfalse", "itertools.takewhile", "itertools.dropwhile", "itertools.compress"}
)
LAZY = frozenset({"itertools.takewhile", "itertools.dropwhile"})
"""What Dynamo traces as a generator."""
WATCH = Watch(
    nodes=(ast.Call,),
    names=frozenset({"any", "all"} | {name.rpartition(".")[2] for name in CHOOSE}),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that asks tensors."""
    confidence = asked(node, view) if isinstance(node, ast.Call) and node.args else None
    if confidence is None or not isinstance(node, ast.Call):
        return
    generator = isinstance(node.args[0], ast.GeneratorExp) or view.callee(node) in LAZY
    what = "the whole function runs uncompiled" if generator else "Dynamo splits the graph here"
    yield Hit(
        node,
        f"`{view.text(node)}` asks tensors for their truth one by one: {what}",
        "reduce on the device: `x.any()`, `x.all()`, `torch.stack(flags).all()`"
        if view.callee(node) not in CHOOSE
        else "keep all of them and mask: `torch.where(test, x, 0)`",
        confidence,
        "frame-skip" if generator else None,
    )


def asked(node: ast.Call, view: View) -> Confidence | None:
    """How sure it is that the truth asked for by the call is that of tensors; None if it asks none."""
    callee = view.callee(node)
    if callee in ("builtins.any", "builtins.all"):
        return tensors_within(view.kind(node.args[0]))
    if callee not in CHOOSE or len(node.args) != 2:
        return None
    if callee == "itertools.compress" or view.kind(node.args[0]) == NONE:
        return tensors_within(view.kind(node.args[1]))
    return data(view.handed_back(node))


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
    Example(
        code="""\
import itertools

import torch


def is_loud(row):
    return row.abs().max() > 0


@torch.compile
def kept(x):
    rows = list(filter(lambda row: row.sum() > 0, x.unbind(0)))  # ~
    return sum(rows) * 2


@torch.compile
def quiet(x):
    rows = itertools.filterfalse(is_loud, [x[0], x[1]])  # ~
    return sum(rows) + x


def both(x):
    return kept(x), quiet(x)
""",
        run="(both, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
        inside=True,
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
