"""Sorting tensors with Python's sort splits the graph.

## What it does
Reports `sorted(...)` of tensors, `.sort()` of a list of tensors, and `max` or `min` of tensors with `key=` or
`default=`.

## Why it costs
The order depends on values that exist only once the graph has run, and Python's sort asks for a truth per comparison.
Dynamo sorts constants only (GB0207; GB0059 for iterating a tensor into `sorted`), and `max`/`min` with keyword
arguments it doesn't do for tensors (GB0193). `fullgraph=True` raises.

## Write instead
    values, order = torch.stack(items).sort()
    best = torch.stack(items).max()

## Limits
Plain `max(a, b)` and `min(list_of_tensors)` compile to `torch.maximum` and `torch.minimum`. Sorting by a key that is
not a tensor compiles; a key function's result is not looked at, so `key=lambda t: t.sum()` is missed. Measured on
torch 2.13.
Torch 2.14 compiles `max` and `min` with a `default`.

## References
torch/_dynamo/graph_break_registry.json: GB0059, GB0193, GB0207.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.tensors import tensors_within

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"sorted", "sort", "max", "min"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that has Python compare tensors."""
    if not isinstance(node, ast.Call):
        return
    confidence = ordered_tensors(node, view)
    if confidence is not None:
        yield Hit(
            node,
            f"`{view.text(node)}` has Python order tensors by value, which Dynamo cannot trace: the graph splits here",
            "stack them and order on the device: `torch.stack(items).sort()`, `.max()`, `.min()`",
            confidence,
        )


def ordered_tensors(node: ast.Call, view: View) -> Confidence | None:
    """How sure it is that the call compares tensors in a way that does not compile."""
    callee, keywords = view.callee(node), {keyword.arg for keyword in node.keywords}
    if callee == "list.sort" and isinstance(node.func, ast.Attribute) and "key" not in keywords:
        return tensors_within(view.kind(node.func.value))
    if callee == "builtins.sorted" and "key" not in keywords and node.args:
        return tensors_within(view.kind(node.args[0]))
    not_traced = {"key"} if view.torch >= (2, 14) else {"key", "default"}
    if callee in ("builtins.max", "builtins.min") and keywords & not_traced and len(node.args) == 1:
        return tensors_within(view.kind(node.args[0]))
    return None


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Beams(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, candidates: list[torch.Tensor]):
        scores = [self.score(c).sum() for c in candidates]
        best = sorted(scores, reverse=True)  # ~
        return best[0] * 2
""",
        run="(Beams(), [([torch.ones(2, 4), torch.zeros(2, 4)],)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def largest(x):
    losses = [row.square().mean() for row in x.unbind(0)]
    return max(losses, default=0) + x  # ~
""",
        run="(largest, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Beams(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)
        self.order = {"b": 1, "a": 0}

    def forward(self, candidates: list[torch.Tensor]):
        scores = [self.score(c).sum() for c in candidates]
        names = sorted(self.order)
        sizes = sorted([c.shape[0] for c in candidates])
        first, second = sorted([(1, scores[0]), (0, scores[1])], key=lambda pair: pair[0])
        most = max(scores) + max(scores[0], scores[1]) + max(3, len(names), default=1) if False else min(scores)
        values, _ = torch.stack(scores).sort(descending=True)
        return values[0] + most + first[1] + sizes[-1] + max(sizes, key=lambda size: -size)
""",
        run="(Beams(), [([torch.ones(2, 4), torch.zeros(2, 4)],)])",
        default="clean",
        fullgraph="clean",
    ),
)
