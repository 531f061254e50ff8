"""A `while` on a tensor's value leaves the loop outside the graph.

## What it does
Reports `while` loops whose condition depends on what a tensor holds.

## Why it costs
How often the body runs is data. Dynamo ends the graph at the condition (GB0170), and each turn asks the tensor for
its truth again: one host-device synchronisation per turn on a GPU. Compiled code comes back after the test as a
function called anew, so a loop of n turns is n graph launches at best; a break in the body drops the frame
altogether.

## Write instead
Run a fixed number of turns and mask the ones that are not wanted, or move the loop into the graph:

    for _ in range(self.max_steps):
        x = torch.where(done, x, self.step(x))

    from torch._higher_order_ops.while_loop import while_loop
    (x,) = while_loop(lambda x: x.sum() < 100, lambda x: (x + 1,), (x,))

Or keep the loop in plain Python and compile the body.

## Limits
`while True:` with `if tensor: break` is reported by branch-on-tensor. Counters that are Python ints are unrolled and
not reported. Measured on torch 2.13.

## References
torch documentation: "while_loop", "Dealing with Data-Dependent Errors". GB0170, GB7000.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import decided, decided_by, site_of

HAZARD = "graph-break"
WATCH = Watch(tests=True)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per part of a loop's condition that a tensor decides."""
    if not isinstance(node, ast.expr):
        return
    confidence = decided(node, view)
    if confidence is not None and isinstance(site_of(node, view)[0], ast.While):
        yield Hit(
            node,
            f"`{view.text(node)}` is {decided_by(node, view)}: the graph ends at this loop, and each turn reads it"
            " back",
            "loop a fixed number of times and mask with `torch.where`, use `torch._higher_order_ops.while_loop`, or"
            " compile the body alone",
            confidence,
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Relax(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor):
        error = x.abs().max()
        while error > 0.1:  # ~
            x = x * 0.5
            error = x.abs().max()
        return self.proj(x)
""",
        run="(Relax(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def settled(x, limit):
    return (x > limit).all()


def grow(x: torch.Tensor, limit: float = 20.0):
    turns = 0
    while turns < 5 and not settled(x, limit):  # ~
        x = x + 10
        turns += 1
    return x
""",
        run="(grow, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Pyramid(nn.Module):
    def __init__(self, levels=3):
        super().__init__()
        self.levels = levels
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor):
        level = 0
        while level < self.levels:
            done = x.abs().max() < 0.1
            x = torch.where(done, x, self.proj(x))
            level += 1
        while x.shape[0] < 4:
            x = torch.cat([x, x])
        return x
""",
        run="(Pyramid(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch._higher_order_ops.while_loop import while_loop


def grow(x):
    return while_loop(lambda x: x.sum() < 100, lambda x: (x + 1,), (x,))[0]
""",
        run="(grow, [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
