"""An int attribute of a module that compiled code reads and other code moves on (epoch, step) recompiles per value.

## What it does

Finds the first read, in compiled code, of an int attribute of a module that the same file changes as time goes by:
another method counts it up (`self.epoch += 1`), a `set_epoch(epoch)` method stores it, or a loop stores its variable
(`model.epoch = epoch`).

## Why it costs

Dynamo treats an int on a module as a constant and guards on its value. Measured on torch 2.13: a model that
multiplies by `self.epoch` compiles again in each of 8 epochs, then hits the recompile limit and runs eager for good.
Floats don't: they become an input of the graph after one recompile.

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
import re
from collections.abc import Iterator
from functools import lru_cache

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.state import (
    class_node,
    first_read,
    functions_in,
    held,
    is_integer,
    is_module,
    own_nodes,
    own_statements,
    parameters,
    used_at,
    written,
)
from compilelint.static.syntax import statements_in

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Attribute,), syntax=lambda node, module: _is_moved(node, module))
MOVES_ON = re.compile(r"(?:^|_)(?:epoch|step|iter|iteration|tick|frame|update|round)(?:s|_idx|_index|_id|_num|_no)?$")

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


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of a module's int that other code of the file moves on between calls."""
    if not isinstance(node, ast.Attribute):
        return
    moved = _moved(view.module)[node.attr]
    if not is_module(view.kind(node.value)) or not is_integer(held(node, view)):
        return
    owner = class_node(view.kind(node.value))
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
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in _moved(module)


@lru_cache(maxsize=256)
def _moved(module: ast.Module) -> dict[str, list[tuple[int, ast.AST | None, ast.ClassDef | None]]]:
    """Attributes that the file moves on: name -> line, function and, for `self.…`, class of each place that does."""
    found: dict[str, list[tuple[int, ast.AST | None, ast.ClassDef | None]]] = {}
    for cls in (node for node in statements_in(module) if isinstance(node, ast.ClassDef)):
        methods = [node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name != "__init__"]
        moving = [(method, moved) for method in methods if (moved := list(_moved_by_method(method)))]
        called = {name for method in methods for name in _self_calls(method)} if moving else set()
        for method, moved in moving:
            if method.name not in called:
                for attribute in moved:
                    found.setdefault(attribute.attr, []).append((attribute.lineno, method, cls))
    for function in functions_in(module):
        for attribute in _moved_by_loop(function):
            found.setdefault(attribute.attr, []).append((attribute.lineno, function, None))
    return found


def _self_calls(method: ast.FunctionDef) -> Iterator[str]:
    """The names of the methods that a method calls on its own object."""
    for node in own_nodes(method):
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and _is_self(func.value):
            yield func.attr


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _moved_by_method(method: ast.FunctionDef) -> Iterator[ast.Attribute]:
    """`self.x += 1` in a method, or `self.epoch = epoch` in one that takes it and is called set_…."""
    for node in own_statements(method):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
            target: ast.expr = node.target
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and method.name.startswith("set_"):
            target = node.targets[0]
            if node.value.id not in parameters(method):
                continue
        else:
            continue
        if not (isinstance(target, ast.Attribute) and _is_self(target.value)):
            continue
        if isinstance(node, ast.AugAssign) or _is_moment(target.attr):
            yield target


def _moved_by_loop(function: ast.AST) -> Iterator[ast.Attribute]:
    """`model.epoch = epoch` in a loop over `epoch`."""
    for loop in own_statements(function):
        if not (isinstance(loop, ast.For) and isinstance(loop.target, ast.Name)):
            continue
        for node in own_statements(loop):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == loop.target.id:
                yield from (target for target in node.targets if isinstance(target, ast.Attribute))


def _is_moment(name: str) -> bool:
    """Whether a name says that its value moves on (`epoch`, `global_step`), unlike an amount (`num_steps`)."""
    return bool(MOVES_ON.search(name)) and not re.match(r"(?:num|n|max|total|min)_", name)
