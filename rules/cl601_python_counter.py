"""A Python number or string that compiled code changes on a module or in a global recompiles on every call.

## What it does

Finds `self.steps += 1`, `self.stats["calls"] += 1`, `SEEN += 1` and `self.log = self.log + "x"` in compiled code,
where the value is an int or a str that lives on a module or in a global.

## Why it costs

Dynamo bakes such a value into the graph and guards on it. The call itself changes the value, so the next call fails
the guard and compiles again, even if nothing reads the counter: eight compilations, then the recompile limit is hit
and the function runs eager from there on (measured on torch 2.13: 8 of 10 calls). Floats are different: they become a
graph input after one recompile. So do ints on plain objects and in closures.

## Write instead

- Keep the counter in a buffer and change it in place: `self.register_buffer("steps", torch.zeros((),
  dtype=torch.long))`, then `self.steps += 1` (measured: one compilation).
- Or count in the code that calls the compiled function.
- Or set `torch._dynamo.config.allow_unspec_int_on_nn_module = True`, which makes ints on modules dynamic.

## Limits

A counter that the same call sets first, or counts back down, keeps its value between calls and is not reported.
Neither is `% 2` and the like, which takes few values.

## References

PyTorch documentation "Dealing with Recompilations"; config `allow_unspec_int_on_nn_module` (torch 2.7 and later).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.state import (
    first_read,
    held,
    is_integer,
    is_text,
    mentions,
    of_module_or_global,
    outlives_call,
    own_nodes,
    same_place,
    without_alias,
    written,
)

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.AugAssign, ast.Assign), syntax=lambda node, module: _stepped(node) is not None)

BAD = (
    Example(
        code="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # ~
        return self.proj(x)
""",
        run="Encoder(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""
import torch
from torch import nn


class Warmup(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.stats = {"seen": 0}

    def forward(self, x):
        h = self.proj(x)
        if self.stats["seen"] > 100:  # ~
            h = h * 0.5
        self.stats["seen"] = self.stats["seen"] + x.shape[0]
        return h
""",
        run="Warmup(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""
import torch

STEP = 0


@torch.compile
def update(weight, grad):
    global STEP
    STEP += 1  # ~
    return weight - 0.1 * grad / (1 + STEP)
""",
        run="update, [(torch.ones(4), torch.ones(4)) for _ in range(3)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)
GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.depth = 0

    def forward(self, x):
        self.calls += 1
        self.depth += 1
        h = self.proj(x)
        self.depth -= 1
        return h
""",
        run="Encoder(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))
        self.used = 0

    def forward(self, x):
        self.used = 0
        total = 0
        for layer in self.layers:
            x = layer(x)
            self.used += 1
            total += 1
        return x / total
""",
        run="Stack(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # A float becomes a graph input: one recompile, then none.
        code="""
import torch
from torch import nn


class Annealed(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.temperature = 2.0

    def forward(self, x):
        self.temperature -= 0.25
        return self.proj(x) / self.temperature
""",
        run="Annealed(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="recompile",
        fullgraph="recompile",
    ),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of a number or string that `node` moves on at every call."""
    target = _stepped(node)
    if target is None:
        return
    place = without_alias(target, view)
    if not (outlives_call(place, view) and of_module_or_global(place, view)):
        return
    value = held(place, view)
    if not (is_integer(value) or is_text(value)) or _restored(target, node, view):
        return
    read = first_read(target, view)
    where = "" if read.lineno == target.lineno else f" (line {target.lineno})"
    yield Hit(
        read,
        f"`{view.text(target)}` is a Python {'int' if is_integer(value) else 'str'} that this code changes{where}:"
        " Dynamo guards on its value, so every call compiles again until the limit, then the function runs eager",
        "count in a buffer changed in place"
        f' (`self.register_buffer("{_last_name(target)}", torch.zeros((), dtype=torch.long))`), or in the calling code',
    )


def _stepped(node: ast.AST) -> ast.expr | None:
    """The target of `x += k` or `x = x + k`."""
    if isinstance(node, ast.AugAssign):
        return node.target if isinstance(node.op, (ast.Add, ast.Sub)) else None
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp)):
        return None
    target, value = node.targets[0], node.value
    if not isinstance(value.op, (ast.Add, ast.Sub)):
        return None
    return target if same_place(value.left, target) or same_place(value.right, target) else None


def _restored(target: ast.expr, step: ast.AST, view: View) -> bool:
    """Whether the function also sets the place from scratch, or steps it back."""
    for statement, value in written(target, view.function):
        if isinstance(statement, ast.AugAssign):
            if isinstance(step, ast.AugAssign) and type(statement.op) is not type(step.op):
                return True
        elif value is None or not mentions(value, target):
            return True
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("reset")
        for node in own_nodes(view.function)
    )


def _last_name(target: ast.expr) -> str:
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id.lower() if isinstance(target, ast.Name) else "calls"
