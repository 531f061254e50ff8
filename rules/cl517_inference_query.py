"""Asking whether inference mode is on splits the graph.

## What it does
Finds `torch.is_inference_mode_enabled()` and `x.is_inference()` in code that Dynamo traces.

## Why it costs
Compiled code does not track inference tensors, so there is no answer to give while tracing, and torch says that it
will not add one (GB0045, GB0046).

## Write instead
`torch.is_grad_enabled()` answers what such code mostly wants to know, and compiles with a guard. Pass a flag
otherwise.

## Limits
`with torch.inference_mode():` compiles. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0045, GB0046.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
QUERIES = frozenset(
    {"torch.is_inference_mode_enabled", "torch.is_inference", "torch.Tensor.is_inference", "?.is_inference"}
)
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"is_inference_mode_enabled", "is_inference"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per question."""
    if not isinstance(node, ast.Call) or view.callee(node) not in QUERIES:
        return
    yield Hit(
        node,
        f"`{view.text(node)}` has no answer while Dynamo traces: the graph splits here",
        "ask `torch.is_grad_enabled()`, or pass a flag",
        "likely" if view.callee(node).startswith("?") else "certain",
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        if torch.is_inference_mode_enabled() or x.is_inference():  # ~
            h = h.detach()
        return torch.relu(h)
""",
        run="(Cached(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        with torch.inference_mode():
            h = self.fc(x)
        return h if torch.is_grad_enabled() else h + 1
""",
        run="(Cached(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
