"""A Python loop of hundreds of turns in compiled code is unrolled into one graph that takes long to compile.

## What it does
Finds `for i in range(n)` in compiled code with `n` at least 256 written down or kept in a constant, and tensor
operations in its body.

## Why it costs
Dynamo has no loops in its graph: it traces every turn and writes each one out. Tracing and compiling grow with the
number of turns: measured on torch 2.13 with a body of two operations, 1024 turns took a minute longer to compile than
16, and every later recompile pays that again. A body that is a layer costs many times as much.

## Write instead
- One operation on a stacked tensor, `torch.cumsum`, `torch.vmap`, or a convolution.
- `torch._higher_order_ops.scan` or `while_loop`, which keep the loop as one node.
- Or compile the body and loop in Python around it: `step = torch.compile(step)`.

## References
PyTorch documentation "torch.compile, loops are unrolled" (Dynamo overview); `torch._higher_order_ops.scan`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Const, gives_tensors, options

HAZARD = "placement"
WATCH = Watch(nodes=(ast.For,))
MANY = 256


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the loop that is unrolled hundreds of times."""
    turns = _turns(node.iter, view) if isinstance(node, ast.For) else None
    if turns is None or turns < MANY or not isinstance(node, ast.For):
        return
    works = any(
        isinstance(part, (ast.BinOp, ast.Call)) and gives_tensors(view.kind(part))
        for statement in node.body
        for part in nodes_in(statement)
    )
    if works:
        yield Hit(
            node,
            f"`{view.text(node.iter)}` is unrolled: the graph gets {turns} copies of the loop's body, and takes as much"
            " longer to compile",
            "use one operation on a stacked tensor or `scan`, or compile the body and loop in Python around it",
            "likely",
        )


def _turns(source: ast.expr, view: View) -> int | None:
    """How often `range(…)` turns, where that is known."""
    if not isinstance(source, ast.Call) or view.callee(source) != "builtins.range" or source.keywords:
        return None
    bounds = [option.value for a in source.args for option in options(view.kind(a)) if isinstance(option, Const)]
    if len(bounds) != len(source.args):
        return None
    numbers = [bound for bound in bounds if isinstance(bound, int)]
    return len(range(*numbers)) if numbers and len(numbers) == len(bounds) and 0 not in numbers[2:] else None


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Decay(nn.Module):
    def forward(self, x):
        h = x
        for i in range(512):  # ~
            h = h * 0.9 + x
        return h
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Decay(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.depth = depth

    def forward(self, x):
        h = x
        for i in range(8):
            h = h * 0.9 + x
        for i in range(self.depth):
            h = h + i
        total = 0
        for i in range(1000):
            total += i
        return h * total
""",
        run="(Decay(), [(torch.ones(2, 4),) for _ in range(2)])",
        default="clean",
        fullgraph="clean",
    ),
)
