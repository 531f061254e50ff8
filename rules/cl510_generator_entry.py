"""A function that yields is never compiled.

## What it does
Finds functions that contain `yield` where they are what is compiled: decorated with `torch.compile`, handed to it, or
the `forward` of a module.

## Why it costs
Calling a generator function runs none of its body; the body runs when somebody asks for the next value, outside what
`torch.compile` wraps. Dynamo skips such a frame silently: no graph, and no break in the log either. `fullgraph=True`
raises (GB0003).

## Write instead
Compile what the body calls for one step, or collect the results and return a list:

    def forward(self, x):
        losses = []
        for stage in self.stages:
            x = torch.relu(stage(x))
            losses.append(x.mean())
        return losses

## Limits
Generators and generator expressions that are made and consumed inside a compiled function compile, as do functions
under `contextlib.contextmanager`. A public generator that nothing here compiles is taken for one of those.
Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0003.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "frame-skip"
WATCH = Watch(nodes=(ast.Yield, ast.YieldFrom))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per generator function where a region starts, at its `def`."""
    function = view.function
    if not view.entry or view.assumed or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    yield Hit(
        function,
        f"`{view.qualname}` yields, and a generator is never compiled: there is no graph and no warning",
        "return a list, or compile the function that the body calls for one step",
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):  # ~
        for stage in self.stages:
            x = torch.relu(stage(x))
            yield x.mean()


def losses(model, x):
    return list(model(x))
""",
    ),
)

GOOD = (
    Example(
        code="""\
import contextlib

import torch
from torch import nn


@contextlib.contextmanager
def scaled(factor):
    yield factor * 2


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def outputs(self, x):
        for stage in self.stages:
            x = torch.relu(stage(x))
            yield x

    def forward(self, x):
        with scaled(0.5) as factor:
            total = sum(h.mean() for h in self.outputs(x))
        return total * factor
""",
        run="(Stages(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
