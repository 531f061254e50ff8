"""An int attribute of a module that compiled code reads and other code moves on (epoch, step) recompiles per value.

## What it does

Finds the first read, in compiled code, of an int attribute of a module that the same file changes as time goes by:
another method counts it up (`self.epoch += 1`), a `set_epoch(epoch)` method stores it, or a loop stores its variable
(`model.epoch = epoch`).

## Why it costs

Dynamo treats an int on a module as a constant and guards on its value. Measured on torch 2.13: a model that multiplies
by `self.epoch` compiles again in each of 8 epochs, then hits the recompile limit and runs uncompiled for good. Floats
don't: they become an input of the graph after one recompile.

## Write instead

- Keep it as a tensor in a buffer and fill it: `self.epoch.fill_(epoch)`.
- Or derive the float that is needed outside (`self.weight = schedule(epoch)`), or pass the int as an argument: an int
  argument becomes dynamic after one recompile.
- Or set `torch._dynamo.config.allow_unspec_int_on_nn_module = True`.

## References

PyTorch documentation "Dealing with Recompilations"; config `allow_unspec_int_on_nn_module` (torch 2.7 and later).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.moving import moved_on, names_moved_on
from compilelint.static.facts.state import (
    class_node,
    first_read,
    held,
    is_integer,
    is_module,
    used_at,
    written,
)

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.Attribute,),
    files=lambda module: bool(names_moved_on(module)),
    syntax=lambda node, module: _is_moved(node, module),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of a module's int that other code of the file moves on between calls."""
    if not isinstance(node, ast.Attribute):
        return
    if not is_module(view.kind(node.value)) or not is_integer(held(node, view)):
        return
    moved = moved_on(view.module)[node.attr]
    owner = class_node(view.kind(node.value), view)
    lines = [line for line, function, cls in moved if cls in (None, owner) and function is not view.function]
    if not lines or first_read(node, view) is not node or any(True for _ in written(node, view.function)):
        return
    yield Hit(
        used_at(node, view),
        f"`{view.text(node)}` is a Python int on a module that line {lines[0]} changes between calls: Dynamo guards on"
        " its value, so each new value compiles again",
        f"keep it in a buffer (`self.{node.attr}.fill_(…)`), or pass it as an argument, where an int becomes dynamic",
        confidence="likely",
    )


def _is_moved(node: ast.AST, module: ast.Module) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in names_moved_on(module)


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Annealed(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def forward(self, x):
        return self.proj(x) / (1 + self.epoch)  # ~


class Trainer:
    def __init__(self):
        self.raw = Annealed()
        self.net = torch.compile(self.raw)

    def __call__(self, x, epoch):
        self.raw.set_epoch(epoch)
        return self.net(x)
""",
        run="Trainer(), [(torch.ones(2, 4), epoch) for epoch in range(4)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


class Growing(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.level = 0

    def advance(self):
        self.level += 1

    def forward(self, x):
        weight = min(self.level, 8) / 8  # ~
        return self.proj(x) * weight


class Trainer:
    def __init__(self):
        self.raw = Growing()
        self.net = torch.compile(self.raw)

    def __call__(self, x):
        out = self.net(x)
        self.raw.advance()
        return out
""",
        run="Trainer(), [(torch.ones(2, 4),) for _ in range(4)]",
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


class Annealed(nn.Module):
    def __init__(self, dim=4, num_steps=8):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.num_steps = num_steps
        self.epoch = 0
        self.register_buffer("weight", torch.ones(()))

    def set_epoch(self, epoch):
        self.epoch = epoch
        self.weight.fill_(1 / (1 + epoch))

    def set_num_steps(self, num_steps):
        self.num_steps = num_steps

    def forward(self, x):
        return self.proj(x) * self.weight / self.num_steps


class Trainer:
    def __init__(self):
        self.raw = Annealed()
        self.net = torch.compile(self.raw)

    def __call__(self, x, epoch):
        self.raw.set_epoch(epoch)
        return self.net(x)
""",
        run="Trainer(), [(torch.ones(2, 4), epoch) for epoch in range(4)]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
