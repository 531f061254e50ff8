"""`itertools.groupby` by tensors, or with the key as its second argument, splits the graph.

## What it does
Finds `itertools.groupby(items, key)` with the key passed by position, and groups that are formed by a tensor: a `key=`
function that gives one, or no key and tensors as items.

## Why it costs
Dynamo forms the groups itself while it traces, for which it has to know each key, and it knows the key function by its
keyword alone. Any other call is left to Python (GB0134, GB0152), and so is what Python gives back: the loop over
the groups, and with it the whole function, stays uncompiled.

## Write instead
Pass `key=`, and group by what is known while tracing:

    groupby(frames, key=lambda frame: frame.shape[-1])       # not groupby(frames, lambda frame: frame.shape[-1])

## Limits
Groups by sizes, dtypes, devices, texts and numbers compile, of lists of numbers without a key too. Measured on torch
2.11, 2.13 and 2.14.

## References
torch.compile documentation: "Common Graph Breaks". GB0134, GB0152.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import NONE, Sequence, Value, options, tensor_certainty

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name == "itertools.groupby")


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call."""
    if not isinstance(node, ast.Call) or any(isinstance(part, ast.Starred) for part in node.args):
        return
    if len(node.args) > 1 and view.kind(node.args[1]) != NONE:
        yield Hit(
            node,
            f"`{view.text(node)}` passes its key by position, which Dynamo does not know: the graph splits here",
            f"write `key={view.text(node.args[1])}`",
        )
        return
    key = view.argument(node, 1, "key")
    if isinstance(key, ast.Lambda) and isinstance(key.body, ast.Subscript):
        return  # a part of each item, `key=lambda pair: pair[0]`, is a text or number mostly
    sure = _by_tensor(view.kind(node))
    if sure is not None:
        yield Hit(
            node,
            f"`{view.text(node)}` groups by a tensor, which has no value while Dynamo traces: the graph splits here",
            "group by what is known while tracing, such as a size, or use `torch.unique_consecutive`",
            sure,
        )


def _by_tensor(groups: Value) -> Confidence | None:
    """How sure it is that the keys, which stand first in each pair that a loop gets, are tensors."""
    pairs = [option.element for option in options(groups) if isinstance(option, Sequence)]
    keys = [pair.items[0] for pair in pairs if isinstance(pair, Sequence) and pair.items]
    return tensor_certainty(keys[0]) if len(keys) == 1 else None


BAD = (
    Example(
        code="""\
from itertools import groupby

import torch
from torch import nn


class Buckets(nn.Module):
    def forward(self, frames):
        buckets = []
        for _, group in groupby(frames, lambda frame: frame.shape[-1]):  # ~
            buckets.append(torch.stack(list(group)))
        return buckets
""",
        run="(Buckets(), [([torch.ones(2), torch.ones(2), torch.ones(3)],)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import itertools

import torch


def runs(labels: list[torch.Tensor]):
    found = []
    for label, group in itertools.groupby(labels, key=lambda label: label.sum()):  # ~
        found.append(label * len(list(group)))
    for label, _ in itertools.groupby(labels):  # ~
        found.append(label * 2)
    return found
""",
        run="(runs, [([torch.tensor(1), torch.tensor(1)],)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
from itertools import groupby

import torch
from torch import nn


class Buckets(nn.Module):
    def __init__(self):
        super().__init__()
        self.kinds = ["conv", "conv", "norm"]

    def forward(self, frames: list[torch.Tensor]):
        total = 0.0
        for size, group in groupby(frames, key=lambda frame: tuple(frame.shape)):
            total = total + torch.stack(list(group)).sum() * size[-1]
        for dtype, group in groupby(frames, key=lambda frame: frame.dtype):
            total = total + len(list(group)) * dtype.itemsize
        for kind, group in groupby(self.kinds):
            total = total + len(kind) * len(list(group))
        return total
""",
        run="(Buckets(), [([torch.ones(2), torch.ones(2), torch.ones(3)],)])",
        default="clean",
        fullgraph="clean",
    ),
)
