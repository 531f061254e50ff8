"""A Python number or string that compiled code changes on a module or in a global recompiles on every call.

## What it does

Finds `self.steps += 1`, `self.stats["calls"] += 1`, `SEEN += 1` and `self.log = self.log + "x"` in compiled code,
where the value is an int or a str that lives on a module or in a global. Where no number becomes a symbol, as under
`dynamic=False`, floats and what lives on plain objects count as well.

## Why it costs

Dynamo bakes such a value into the graph and guards on it. The call itself changes the value, so the next call fails the
guard and compiles again, even if nothing reads the counter: eight compilations, then the recompile limit is hit and the
function runs uncompiled from there on (measured on torch 2.13: 8 of 10 calls). Floats are different: they become a
graph input after one recompile. So do ints on plain objects and in closures. Under `dynamic=False`, or without
`torch._dynamo.config.automatic_dynamic_shapes`, none of them does.

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
from functools import lru_cache

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.kept_numbers import stay_constant
from compilelint.static.facts.state import (
    first_read,
    functions_in,
    held,
    is_integer,
    is_same_object_next_call,
    is_text,
    mentions,
    of_module_or_global,
    outlives_call,
    own_nodes,
    own_statements,
    root_of,
    same_place,
    used_at,
    without_alias,
    written,
)
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Value, options

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.AugAssign, ast.Assign, ast.Attribute),
    syntax=lambda node, module: _stepped(node) is not None or _stepped_by_caller(node, module) is not None,
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of a number or string that `node`, or the method that calls this one, moves on each time."""
    target = node if isinstance(node, ast.Attribute) else _stepped(node)
    if target is None:
        return
    place = without_alias(target, view)
    value = held(place, view)
    if not outlives_call(place, view) or not _is_constant(place, value, view):
        return
    found = _moved_and_read(node, target, view)
    if found is None:
        return
    step, read = found
    where = "" if read.lineno == step.lineno else f" (line {step.lineno})"
    yield Hit(
        used_at(read, view),
        f"`{view.text(target)}` is a Python {_sort(value)} that this code changes{where}:"
        " Dynamo guards on its value, so every call compiles again until the limit, then the function runs uncompiled",
        "count in a buffer changed in place"
        f' (`self.register_buffer("{_last_name(target)}", torch.zeros((), dtype=torch.long))`), or in the calling code',
    )


def _is_constant(place: ast.expr, value: Value, view: View) -> bool:
    """Whether Dynamo keeps what it finds there as a constant each time."""
    if of_module_or_global(place, view) and (is_integer(value) or is_text(value)):
        return True
    return stay_constant(options(value), view) and is_same_object_next_call(place, view)


def _sort(value: Value) -> str:
    return "int" if is_integer(value) else "str" if is_text(value) else "float"


def _moved_and_read(node: ast.AST, target: ast.expr, view: View) -> tuple[ast.expr, ast.expr] | None:
    """Where `target` is moved on, and where it is read first: in this method, or in the one that `node` is in."""
    if isinstance(node, ast.Attribute):
        step = _stepped_by_caller(node, view.module)
        return None if step is None or first_read(node, view) is not node else (step, node)
    if _restored(target, node, view):
        return None
    read = first_read(target, view)
    if any(True for _ in _read_before(target, read.lineno, view.function, view.module)):
        return None
    return target, read


def _stepped_by_caller(node: ast.AST, module: ast.Module) -> ast.expr | None:
    """Where a method of the same class moves on what `node` reads, after it has called the method that `node` is in."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)):
        return None
    return _steps_after_reads(module).get(node)


@lru_cache(maxsize=256)
def _steps_after_reads(module: ast.Module) -> dict[ast.AST, ast.expr]:
    """By attribute that some method reads, where the method that called this one moves it on."""
    found: dict[ast.AST, ast.expr] = {}
    for method in functions_in(module):
        for node in own_statements(method) if method.name != "__init__" else ():
            step = _stepped(node)
            if isinstance(step, ast.Attribute):
                found.update((read, step) for read in _read_before(step, step.lineno, method, module))
    return found


def _read_before(place: ast.expr, line: int, method: ast.AST, module: ast.Module) -> Iterator[ast.Attribute]:
    """The reads of `place` in methods of the same class that `method` calls on its object before `line`."""
    if not isinstance(place, ast.Attribute) or not isinstance(root := root_of(place), ast.Name) or root.id != "self":
        return
    methods = _methods_beside(method, module)
    for call in own_nodes(method):
        called = call.func if isinstance(call, ast.Call) and call.lineno < line else None
        if isinstance(called, ast.Attribute) and same_place(called.value, root) and called.attr in methods:
            inner = own_nodes(methods[called.attr])
            yield from (part for part in inner if isinstance(part, ast.Attribute) and same_place(part, place))


def _methods_beside(method: ast.AST, module: ast.Module) -> dict[str, ast.FunctionDef]:
    """The methods of the class that a method stands in, by name."""
    owners = (node for node in nodes_in(module) if isinstance(node, ast.ClassDef) and method in node.body)
    return {part.name: part for owner in owners for part in owner.body if isinstance(part, ast.FunctionDef)}


def _stepped(node: ast.AST) -> ast.expr | None:
    """The target of `x += k`, `x = x + k` or `x = (x + k) % n`."""
    if isinstance(node, ast.AugAssign):
        return node.target if isinstance(node.op, (ast.Add, ast.Sub)) else None
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp)):
        return None
    target, value = node.targets[0], node.value
    if (
        isinstance(value.op, ast.Mod)
        and isinstance(value.left, ast.BinOp)
        and not isinstance(value.right, ast.Constant)
    ):
        value = value.left  # the place in a ring; `% 2` takes few values
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
    Example(
        code="""
import torch
from torch import nn


class State:
    def __init__(self):
        self.offset = 0


class Streamed(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.state = State()

    def positions(self, x):
        return torch.arange(x.shape[0]) + self.state.offset  # ~

    def forward(self, x):
        h = self.proj(x) + self.positions(x)[:, None]
        self.state.offset += x.shape[0]
        return h
""",
        run="Streamed(), [(torch.ones(2, 4),) for _ in range(4)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""
import torch
from torch import nn


class Window(nn.Module):
    def __init__(self, size=8, dim=4):
        super().__init__()
        self.register_buffer("kept", torch.zeros(size, dim))
        self.size, self.head = size, 0

    def push(self, x):
        self.kept[self.head] = x.mean(0)  # ~
        self.head = (self.head + 1) % self.size

    def forward(self, x):
        self.push(x)
        return x + self.kept.mean(0)
""",
        run="Window(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        # Under `dynamic=False` a number on a plain object is a constant too.
        code="""
import torch
from torch import nn


class Ring:
    def __init__(self, rows):
        self.rows = torch.zeros(rows, 4)
        self.filled = 0
        self.mass = 0.5

    def put(self, row, slot):
        self.rows.index_copy_(0, slot, row)
        self.filled += row.shape[0]  # ~
        self.mass = self.mass + 0.5  # ~
        return self.rows


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, ring, slot):
        h = self.proj(x)
        return h + ring.put(h, slot).mean(0)


@torch.no_grad()
def decode(x):
    step = torch.compile(Step(), dynamic=False)
    ring = Ring(16)
    slot = torch.arange(1)
    for _ in range(4):
        x = step(x, ring, slot)
        slot = slot + 1
    return x
""",
        run="decode, [(torch.ones(1, 4),)]",
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
