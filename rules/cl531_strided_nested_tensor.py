"""Nested tensors of the strided layout, the default one, are not compiled.

## What it does
Finds `torch.nested.nested_tensor` and `torch.nested.as_nested_tensor` without `layout=torch.jagged` in code that Dynamo
traces.

## Why it costs
torch.compile has no nested tensors of the strided layout: the operator that makes one does not run on the tensors that
Dynamo traces with (GB0090). The graph splits there, and what goes on with such a tensor runs uncompiled as a whole,
since Dynamo cannot take it into a graph (GB0016).

## Write instead
    torch.nested.nested_tensor(sequences, layout=torch.jagged)
    torch.nested.nested_tensor_from_jagged(values, offsets)

or pad: `torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)`.

## Limits
Nested tensors that come in from outside are not told apart by their layout. Measured on torch 2.11, 2.13 and 2.14.

## References
torch documentation: "torch.nested". GB0016, GB0090.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import External

HAZARD = "graph-break"
MAKERS = frozenset({"torch.nested.nested_tensor", "torch.nested.as_nested_tensor"})
STRIDED = External("torch.strided")
WATCH = Watch(nodes=(ast.Call,), callees=MAKERS.__contains__)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per nested tensor that is made with the strided layout."""
    if not isinstance(node, ast.Call) or view.callee(node) not in MAKERS:
        return
    if any(keyword.arg is None for keyword in node.keywords):
        return
    # The position is that of `as_nested_tensor`; the other one takes keywords alone.
    layout = view.argument(node, 3, "layout")
    if layout is None or view.kind(layout) == STRIDED:
        yield Hit(
            node,
            f"`{view.text(node)}` makes a nested tensor of the strided layout, which torch.compile does not have: the"
            " graph splits here",
            "pass `layout=torch.jagged`, or pad the sequences",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Unpad(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff = nn.Linear(4, 4)

    def pack(self, parts):
        return torch.nested.as_nested_tensor(list(parts))  # ~

    def forward(self, a, b):
        packed = self.pack((a * 2, b))
        return self.ff(torch.nested.to_padded_tensor(packed, 0.0))
""",
        run="(Unpad(), [(torch.ones(2, 4), torch.ones(3, 4))])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


@torch.compile
def summed(x):
    nested = torch.nested.nested_tensor([x * 2, x[:1]], layout=torch.strided)  # ~
    return nested.to_padded_tensor(0.0).sum() + x
""",
        run="(summed, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Unpad(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff = nn.Linear(4, 4)

    def forward(self, a, b, offsets):
        packed = torch.nested.as_nested_tensor([a * 2, b], layout=torch.jagged)
        packed = packed + torch.nested.as_nested_tensor([a, b], None, None, torch.jagged).sum()
        ragged = torch.nested.nested_tensor_from_jagged(b, offsets)
        return self.ff(packed).sum() + self.ff(ragged).to_padded_tensor(0.0).sum()
""",
        run="(Unpad(), [(torch.ones(2, 4), torch.ones(3, 4), torch.tensor([0, 1, 3]))])",
        default="clean",
        fullgraph="clean",
    ),
)
