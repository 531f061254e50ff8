"""`.item()` splits the graph to turn a tensor into a Python number.

## What it does
Reports `.item()` on tensors and on numpy arrays, which Dynamo traces as tensors, also where the method is kept or
looked up first (`read = t.item`, `getattr(t, "item")()`, `map(torch.Tensor.item, rows)`). A receiver of unknown type is
reported as likely: nothing else commonly has a method of that name.

## Why it costs
By default Dynamo does not let Python numbers that depend on data into a graph (`capture_scalar_outputs` is off): it
ends the graph, fetches the value, which on a GPU waits for everything queued so far, and goes on in a new graph
(GB0124). The number then is an input of the next one. In a loop or `try` the whole frame stays uncompiled.

## Write instead
Most numbers need not leave the device:

    x = x * x.sum()                    # not x.sum().item()
    x = torch.where(t > 0, a, b)       # not if t.item() > 0

Read back once, after the compiled part, what is only for logging. `torch._dynamo.config.capture_scalar_outputs =
True` keeps the call in the graph as an unknown number, but a CUDA graph is then cut there, and branching on the
number is an error.

## Limits
`fullgraph=True` turns scalar capture on from torch 2.10 and accepts a plain read-back; torch 2.9 and older raise.
Calls that only run on the way to a `raise` are not reported. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0124; GB0033 for numpy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import called_on, data, mapped, on_error_path
from compilelint.static.values import UNKNOWN

HAZARD = "graph-break"
CAPTURED = "numbers"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"item", "map"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call."""
    if not isinstance(node, ast.Call):
        return
    value, each = called_on(node, "item", view), mapped(node, view)
    confidence: Confidence | None = each[1] if each is not None and each[0] == "torch.Tensor.item" else None
    if value is not None:
        confidence = "likely" if value == UNKNOWN else data(value)
    if confidence is not None and not on_error_path(node, view):
        yield Hit(
            node,
            f"`{view.text(node)}` reads a tensor back into Python: Dynamo splits the graph here",
            "keep it a tensor: arithmetic, `torch.where`, `clamp` take 0-d tensors; or read it after the compiled part",
            confidence,
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Normalise(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        h = self.proj(x)
        peak = h.abs().max().item()  # ~
        return h / peak  # ~ CL610
""",
        run="(Normalise(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def lengths(batch):
    return [row.sum().item() for row in batch]  # ~


def weigh(x, batch):
    x = x + 1
    total = 0
    for length in lengths(batch):
        total = total + length
    return x * total
""",
        run="(weigh, [(torch.ones(2, 4), torch.ones(3, 2))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def gate(x: torch.Tensor):
    if x.mean().item() > 0:  # ~ CL610  # ~
        return x * 2
    return x
""",
        run="(gate, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        # The same method, looked up first or by way of its class.
        code="""\
import torch


def spread(x: torch.Tensor):
    x = x * 2
    low = x.min().item
    high = getattr(x.max(), "item")
    rows = sum(map(torch.Tensor.item, x))  # ~
    return x + rows + torch.Tensor.item(x.sum()) - low() * high()  # ~ CL610  # ~
""",
        run="(spread, [(torch.ones(4),)])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Normalise(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.limit = torch.tensor(3.0).item()
        self.names = {"a": 1}

    def forward(self, x: torch.Tensor):
        h = self.proj(x)
        if x.shape[0] > 100:
            raise ValueError(f"too large: {h.max().item()}")
        for name, value in self.names.items():
            h = h + value
        return h / h.abs().max() * self.limit * h.numel()
""",
        run="(Normalise(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
