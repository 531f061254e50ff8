"""A Python number or string that compiled code changes on a module or in a global recompiles on every call.

## What it does

Finds `self.steps += 1`, `self.stats["calls"] += 1`, `SEEN += 1` and `self.log = self.log + "x"` in compiled code, where
the value is an int or a str that lives on a module, on an object that a module keeps (`self.stats.push(x)`), or in a
global. Where no number becomes a symbol, as under `dynamic=False`, floats and what lives on other plain objects count
as well.

## Why it costs

Dynamo bakes such a value into the graph and guards on it. The call itself changes the value, so the next call fails the
guard and compiles again, even if nothing reads the counter: eight compilations, then the recompile limit is hit and the
function runs uncompiled from there on (measured on torch 2.13: 8 of 10 calls). Floats are different: they become a
graph input after one recompile. So do ints in closures and on plain objects that no module keeps. Under
`dynamic=False`, or without `torch._dynamo.config.automatic_dynamic_shapes`, none of them does.

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
from compilelint.static.facts.counting import (
    is_restored,
    names_stepped_after_reads,
    read_by_methods,
    stepped,
    steps_after_reads,
)
from compilelint.static.facts.kept_numbers import stay_constant
from compilelint.static.facts.starting import starts_at_bound
from compilelint.static.facts.state import (
    first_read,
    held,
    is_integer,
    is_module,
    is_same_object_next_call,
    is_text,
    of_module_or_global,
    outlives_call,
    root_of,
    used_at,
    without_alias,
)
from compilelint.static.values import Value, options

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.AugAssign, ast.Assign, ast.Attribute),
    syntax=lambda node, module: stepped(node) is not None or _stepped_by_caller(node, module) is not None,
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of a number or string that `node`, or the method that calls this one, moves on each time."""
    target = node if isinstance(node, ast.Attribute) else stepped(node)
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
        "likely" if _is_of_plain_object(place, view) else "certain",
    )


def _is_of_plain_object(place: ast.expr, view: View) -> bool:
    """Whether `self` is no module here: what its module does with it between calls is not all seen."""
    root = root_of(place)
    return isinstance(root, ast.Name) and root.id == "self" and not is_module(view.kind(root))


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
    if is_restored(target, node, view) or starts_at_bound(target, node, view):
        return None
    read = first_read(target, view)
    if any(True for _ in read_by_methods(target, read.lineno, view.function, view.module)):
        return None
    return target, read


def _stepped_by_caller(node: ast.AST, module: ast.Module) -> ast.expr | None:
    """Where a method of the same class moves on what `node` reads, after it has called the method that `node` is in."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)):
        return None
    return steps_after_reads(module).get(node) if node.attr in names_stepped_after_reads(module) else None


def _last_name(target: ast.expr) -> str:
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id.lower() if isinstance(target, ast.Name) else "calls"


BAD = (
    Example(
        # An object that the module keeps counts for it.
        code="""
import torch
from torch import nn


class Meter:
    def __init__(self):
        self.seen = 0

    def update(self, x):
        self.seen += x.shape[0]  # ~


class Encoder(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.meters = [Meter()]

    def forward(self, x):
        for meter in self.meters:
            meter.update(x)
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
        self.warm = self.steps = dim

    def forward(self, x):
        self.calls += 1
        if self.warm < self.steps:
            self.warm += 1
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
