"""Defining a class inside compiled code splits the graph.

## What it does
Finds `class` statements, `dataclasses.make_dataclass` and `types.SimpleNamespace(...)` in code that Dynamo traces.

## Why it costs
Running a class body builds a new type on every call; Dynamo does not trace that (GB8977, before 2.10 GB0075), nor the
making of a `SimpleNamespace` (GB0147). A new type per call would also fail the guards that check types, and compile
again each time.

## Write instead
Define the class at module level. A `torch.autograd.Function` takes what varies as arguments of `apply`.

## Limits
`collections.namedtuple(...)`, `enum.Enum(...)` and `type(name, bases, {})` with constants compile. Measured on torch
2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0075, GB0147, GB0156, GB8977.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
MAKERS = frozenset(
    {"dataclasses.make_dataclass", "types.SimpleNamespace", "argparse.Namespace", "pydantic.create_model"}
)
WATCH = Watch(nodes=(ast.ClassDef, ast.Call), callees=MAKERS.__contains__)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per class that is made."""
    if isinstance(node, ast.ClassDef):
        yield Hit(
            node,
            f"class `{node.name}` is made anew on each call, which Dynamo does not trace: the graph splits here",
            f"define `{node.name}` at module level and pass in what it closes over",
        )
    elif isinstance(node, ast.Call) and view.callee(node) in MAKERS:
        yield Hit(
            node,
            f"`{view.text(node)}` makes an object that Dynamo does not trace: the graph splits here",
            "use a dataclass or a named tuple that is defined at module level",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, sharpness=5.0):
        super().__init__()
        self.sharpness = sharpness
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)

        class Settings:  # ~
            sharpness = 2.0

        return torch.sigmoid(h * Settings.sharpness)
""",
        run="(Gate(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
from types import SimpleNamespace

import torch


@torch.compile
def statistics(x):
    found = SimpleNamespace(mean=x.mean(), peak=x.amax())  # ~
    return found.mean + found.peak
""",
        run="(statistics, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import collections
from dataclasses import dataclass

import torch


@dataclass
class Statistics:
    mean: torch.Tensor
    peak: torch.Tensor


@torch.compile
def statistics(x):
    pair = collections.namedtuple("Pair", "low high")(x.amin(), x.amax())
    found = Statistics(mean=x.mean(), peak=pair.high)
    return found.mean + found.peak + pair.low
""",
        run="(statistics, [(torch.ones(4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
