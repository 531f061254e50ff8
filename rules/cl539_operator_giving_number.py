"""An operator of torch.ops.aten that answers with a number or a flag splits the graph.

## What it does
Finds calls of operators such as `torch.ops.aten.numel`, `torch.ops.aten.is_contiguous` and
`torch.ops.aten.storage_offset`, with an overload (`.default`) or without, whose result is a Python value.

## Why it costs
A graph calls operators for tensors. Dynamo knows the methods of tensors that answer with numbers, and answers for them
while it traces, but not the operators behind them (GB0208): it ends the graph there and has Python make the call.

## Write instead
The method: `x.numel()`, `x.is_contiguous()`, `x.dim()`. `torch.ops.aten.sym_size` and `sym_stride` compile.
For `is_non_overlapping_and_dense`, which has no method, compare `x.stride()` with what it has to be.

## Limits
Measured on torch 2.11, 2.13 and 2.14. The list that `torch.ops.aten.size(x)` gives is not looked at.

## References
GB0208 in torch's graph-break registry.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.operator_answers import answer

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: answer(name) is not None)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call."""
    found = answer(view.callee(node)) if isinstance(node, ast.Call) else None
    if found is not None and isinstance(node, ast.Call):
        gives = "a flag" if found.type == "bool" else "a number"
        reads = ", read back from a tensor" if found.origin == "tensor" else ""
        yield Hit(
            node,
            f"`{view.text(node)}` is an operator that gives {gives} of Python{reads}: no graph holds that, so Dynamo"
            " splits it here",
            "call the method of the tensor" + (" outside the compiled code" if reads else ", which Dynamo answers"),
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn

aten = torch.ops.aten


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        if torch.ops.aten.is_non_overlapping_and_dense.default(h):  # ~
            h = h * 2
        h = h / aten.numel(h)  # ~
        return h + torch.ops.aten.size.int(h, 0)  # ~
""",
        run="(Scaled(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        return h * torch.ops.aten.item(h.sum())  # ~ CL610  # ~
""",
        run="(Checked(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = torch.ops.aten.relu.default(self.fc(x))
        if h.is_contiguous():
            h = h * torch.ops.aten.sym_size.int(h, 0)
        return h / h.numel()
""",
        run="(Scaled(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
