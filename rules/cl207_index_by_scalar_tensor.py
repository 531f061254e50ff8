"""A 0-d tensor as index or slice bound is read back into Python.

## What it does
Reports `x[:t]` for any tensor bound `t`, and `x[t]` where `t` is known to have no dimensions (`scores.argmax()`, an
item of a 1-d tensor, a counter kept as a tensor), read or written.

## Why it costs
A slice bound decides a size, so it must be a number: the graph splits to fetch it (GB0124). Under a 0-d tensor torch
selects a single row, which is a view at an offset that must be known as well (GB0033). Index tensors with at least
one dimension are gathered on the device and cost nothing. In a loop over the tensor the whole frame stays uncompiled.

## Write instead
    row = x.index_select(0, t.reshape(1))                 # or x[t.reshape(1)], keeping a dimension of one
    x = torch.where(torch.arange(n, device=x.device) == t, new, x)      # for a write
    head = torch.where(torch.arange(n, device=x.device) < t, x, 0)      # for x[:t]

## Limits
Where the number of dimensions isn't known nothing is said about `x[t]`. A constant, `torch.tensor(2)`, compiles. A
0-d int64 CPU tensor that is an *input* of the region is made a constant and compiles anew for each value instead, and
so is a numpy number that the model keeps; an element of a numpy array is a tensor. From torch 2.10 on `fullgraph=True`
accepts slices, not indices. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0033, GB0124; GB0038 up to torch 2.9.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import parameters
from compilelint.static.facts.tensors import (
    SUBSCRIPTING,
    data,
    element_of_array,
    indices,
    int_from_outside,
    kept_number,
    scalar_tensor,
    subscripts,
    written_constant,
)
from compilelint.static.values import Scalar, options

HAZARD = "graph-break"
WATCH = Watch(nodes=SUBSCRIPTING, syntax=lambda node, module: any(True for _ in subscripts(node)))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per subscript of a tensor; the first part that is read back gives the words."""
    for subscript in subscripts(node):
        if data(view.kind(subscript.value)) is None:
            continue
        for part in indices(subscript):
            hit = bound_read(subscript, part, view) if isinstance(part, ast.Slice) else row_read(subscript, part, view)
            if hit is not None:
                yield hit
                break


def bound_read(node: ast.Subscript, part: ast.Slice, view: View) -> Hit | None:
    """A hit if a bound of the slice is a tensor."""
    for bound in (part.lower, part.upper, part.step):
        confidence = data(view.kind(bound)) if bound is not None else None
        if bound is not None and confidence is not None and not kept_number(bound, view):
            return Hit(
                node,
                f"the slice bound `{view.text(bound)}` is a tensor, read back to get a size: the graph splits here",
                "keep the size and mask: `torch.where(torch.arange(n) < t, x, 0)`, or pass the bound in as an int",
                confidence,
            )
    return None


def row_read(node: ast.Subscript, part: ast.expr, view: View) -> Hit | None:
    """A hit if the index is a tensor without dimensions."""
    value = view.kind(part)
    confidence = scalar_tensor(value) or ("likely" if element_of_array(part, view) else None)
    known = written_constant(part, view) or int_from_outside(part, view)
    if confidence is None or known or any(isinstance(o, Scalar) for o in options(value)):
        return None  # a step that is a tensor or an int comes in from outside, where Dynamo makes a constant of it
    sides = [*ast.iter_child_nodes(part)] if isinstance(part, (ast.BinOp, ast.Compare)) else [part]
    if any(isinstance(side, ast.Name) and side.id in parameters(view.function) for side in sides):
        confidence = "likely"  # a caller may pass `torch.tensor(3)`, of which Dynamo knows the number
    return Hit(
        node,
        f"the index `{view.text(part)}` is a tensor without dimensions and is read back: the graph splits here",
        "write through a mask: `torch.where(torch.arange(n) == t, new, x)`"
        if isinstance(node.ctx, ast.Store)
        else "index with a dimension: `x.index_select(0, t.reshape(1))`",
        confidence,
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Best(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        best = h.sum(-1).flatten().argmax(0)
        return h[best] * 2  # ~
""",
        run="(Best(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def crop(x: torch.Tensor, lengths: torch.Tensor):
    x = x + 1
    return x[:, : lengths.max()] * 2  # ~
""",
        run="(crop, [(torch.ones(2, 4), torch.tensor([2, 3]))])",
        default="skip",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def clear(x: torch.Tensor):
    x = x + 1
    x[0, x[0].flatten().argmin()] = 0.0  # ~
    for row in torch.arange(2):
        x[row] = x[row] * 2  # ~
    return x
""",
        run="(clear, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


class Bands(nn.Module):
    def __init__(self):
        super().__init__()
        self.edges = np.array([1, 3])

    def forward(self, x):
        x = x * 2
        return x[:, : self.edges[1]].sum() + x[:, self.edges[0]]  # ~
""",
        run="(Bands(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


class Best(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("table", torch.arange(8.0))
        self.widths = np.array([1, 2])
        self.width = self.widths.max()
        self.first = torch.tensor(0)

    def forward(self, x, ids: torch.Tensor, n: int = 2):
        h = self.proj(x)
        best = h.sum(-1).flatten().argmax()
        h = h + h.index_select(0, best.reshape(1)) + h[best.reshape(1)]
        h[:, :n] = 0.0
        token = torch.tensor(n)
        h[token == 3] = 0.0
        rows = torch.arange(x.shape[0])
        last = h[rows, h.argmax(-1)] + h[torch.tensor(1)].sum() + h[self.first].sum()
        return h[:n, 1:].sum() * last + self.table[ids].sum() + h[h.argmax(dim=0)].sum() + h[..., : self.width].sum()
""",
        run="(Best(), [(torch.ones(2, 4), torch.tensor([1, 2]))])",
        default="clean",
        fullgraph="clean",
    ),
)
