"""A tensor as index of a Python list, `nn.ModuleList` or string splits the graph.

## What it does
Reports `items[t]`, read, written or deleted, where `items` is a Python list, tuple, shape, string, dict,
`nn.ModuleList` or `nn.Sequential` and `t` is a tensor, and slices of such by tensors.

## Why it costs
Which Python object is meant can't be known while tracing. Python asks the tensor for its index: a read-back (GB0124).
For a dict the whole frame stays uncompiled (GB0088). What is picked, a layer perhaps, then decides what is compiled
next, so `fullgraph=True` raises and every new value compiles anew.

## Write instead
Put the tensors into one tensor and index that, or compute all choices and select:

    picked = torch.stack(items).index_select(0, t.reshape(1)).squeeze(0)
    y = torch.stack([layer(x) for layer in self.layers]).index_select(0, t.reshape(1)).squeeze(0)

Or choose the layer outside the compiled region by a Python int.

## Limits
Python ints, loop counters, constants and dicts keyed by tensors are not reported. An `int(t)` or `t.item()` as index
is reported at the read-back. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0088, GB0124.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Hazard
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import SUBSCRIPTING, subscripts
from compilelint.static.values import (
    Const,
    ExternalInstance,
    Mapping,
    Scalar,
    Sequence,
    Value,
    options,
    tensor_certainty,
)

HAZARD = "graph-break"
WATCH = Watch(nodes=SUBSCRIPTING, syntax=lambda node, module: any(True for _ in subscripts(node)))
CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ParameterList"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per subscript of something that is not a tensor by something that is."""
    for subscript in subscripts(node):
        owner = view.kind(subscript.value)
        stored_by_key = isinstance(owner, Mapping) and not isinstance(subscript.ctx, ast.Load)
        if not stored_by_key and all(counts_in_python(option) for option in options(owner)):
            yield from read_back_indices(subscript, isinstance(owner, Mapping), view)


def read_back_indices(node: ast.Subscript, by_key: bool, view: View) -> Iterator[Hit]:
    """A hit if the index or a bound of the slice is a tensor."""
    sliced = isinstance(node.slice, ast.Slice)
    bounds = (
        [node.slice.lower, node.slice.upper, node.slice.step] if isinstance(node.slice, ast.Slice) else [node.slice]
    )
    for bound in bounds:
        confidence = tensor_certainty(view.kind(bound)) if bound is not None else None
        if bound is not None and confidence is not None:
            hazard: Hazard | None = "frame-skip" if sliced or by_key else None
            yield Hit(
                node,
                f"`{view.text(bound)}` is a tensor and `{view.text(node.value)}` a Python container: Dynamo reads the"
                " index back and splits the graph here",
                "stack the choices and use `index_select`, or pass the index in as a Python int",
                confidence,
                hazard,
            )
            return


def counts_in_python(value: Value) -> bool:
    """Whether indexing `value` needs a Python index. A dict may have tensors as keys, compared by identity."""
    if isinstance(value, Sequence):
        return value.form in ("list", "tuple", "size")
    if isinstance(value, (Const, Scalar)):
        return value.type == "str"
    if isinstance(value, Mapping):
        return any(isinstance(key, (int, str)) for key, _ in value.entries)
    return isinstance(value, ExternalInstance) and value.name in CONTAINERS


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        chosen = self.gate(x).sum(0).argmax()
        return self.experts[chosen](x)  # ~
""",
        run="(Experts(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def pick(x: torch.Tensor, index: torch.Tensor):
    scales = (0.5, 1.0, 2.0)
    rows = [x, x * 2]
    rows[index - 1] = x + 1  # ~
    return rows[0] * scales[index + 1]  # ~
""",
        run="(pick, [(torch.ones(2, 4), torch.tensor(1))])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.scales = [0.5, 1.0, 2.0]
        self.named = {"a": 1, 2: 3}

    def forward(self, x: torch.Tensor, index: int = 1):
        chosen = self.gate(x).sum(0).argmax()
        y = torch.stack([expert(x) for expert in self.experts])
        y = y.index_select(0, chosen.reshape(1)).squeeze(0)
        for position in range(2):
            y = y + self.experts[position](x) * self.scales[position]
        return y * self.scales[index] * self.named["a"] * x.shape[0]
""",
        run="(Experts(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
