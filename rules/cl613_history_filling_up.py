"""A history of bounded length compiles again for each length until it is full.

## What it does
Finds a list or deque that outlives the call, to which compiled code adds an entry per call and which keeps the last
few: `self.history.append(h)` followed by `if len(self.history) > n: self.history.pop(0)`, `self.history =
(self.history + [h])[-n:]`, or `deque(maxlen=n)`. It reports where the function first uses it.

## Why it costs
Dynamo guards on the length. Until the history is full each call finds another one and compiles again: measured on torch
2.13, a window of 3 compiles four times. A window of 8 or more hits the recompile limit before it is full, and the
function runs uncompiled from there on. Every reset starts with lengths that are compiled already.

## Write instead
- Keep the history in one tensor of fixed size and roll it: `self.history = self.history.roll(1, 0)`, then
  `self.history[0] = h`, with a buffer for how much of it counts.
- Fill it with copies of the first entry, so that the length never changes.
- Or keep it in the calling code.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import (
    class_node,
    held,
    is_same_object_next_call,
    mentions,
    own_nodes,
    read_before,
    same_place,
    written,
)
from compilelint.static.values import ExternalInstance, Sequence, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Call, ast.Assign), syntax=lambda node, module: _added_to(node) is not None)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that adds to a history which the function, or its `maxlen`, keeps short."""
    place = _added_to(node)
    if place is None or not isinstance(node, (ast.Call, ast.Assign)) or not is_same_object_next_call(place, view):
        return
    kept_short = isinstance(node, ast.Assign) or _is_cut(place, view)
    if _is_short_deque(place, view) or (_is_list(place, view) and kept_short):
        read = read_before(place, node, view)
        yield Hit(
            read or (node.value if isinstance(node, ast.Assign) else node),
            f"`{view.text(place)}` gets longer with each call{f' (line {node.lineno})' if read is not None else ''}"
            " until it is full, and Dynamo guards on its length: each length compiles again",
            "keep the last entries in one tensor of fixed size (`roll` it and write the new one), or fill the history"
            " with copies of the first entry",
            "likely",
        )


def _added_to(node: ast.AST) -> ast.Attribute | None:
    """The attribute to which a call appends, or that is set to its own last entries and one more."""
    if isinstance(node, ast.Call):
        called = node.func
        is_append = isinstance(called, ast.Attribute) and called.attr in ("append", "appendleft")
        place = called.value if is_append and isinstance(called, ast.Attribute) else None
    else:
        place = node.targets[0] if isinstance(node, ast.Assign) and _is_window(node.value, node.targets[0]) else None
    return place if isinstance(place, ast.Attribute) else None


def _is_window(value: ast.expr, place: ast.expr) -> bool:
    """`(place + [x])[-n:]`, `[*place, x][-n:]`, `place[1:] + [x]` and the like."""
    if isinstance(value, ast.Subscript):
        return isinstance(value.slice, ast.Slice) and _is_longer(value.value, place)
    return _is_longer(value, place) and any(
        isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice) and same_place(part.value, place)
        for part in ast.walk(value)
    )


def _is_longer(value: ast.expr, place: ast.expr) -> bool:
    """Whether entries are put beside those of `place`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        listed = any(isinstance(side, (ast.List, ast.Tuple)) for side in (value.left, value.right))
        return listed and mentions(value, place)
    starred = [part for part in getattr(value, "elts", []) if isinstance(part, ast.Starred)]
    is_list = isinstance(value, (ast.List, ast.Tuple)) and len(value.elts) > len(starred)
    return is_list and any(mentions(part, place) for part in starred)


def _is_list(place: ast.expr, view: View) -> bool:
    return all(isinstance(option, Sequence) and option.form == "list" for option in options(held(place, view)))


def _is_short_deque(place: ast.Attribute, view: View) -> bool:
    """Whether a deque is kept at `place` that its class makes with a `maxlen`."""
    value = held(place, view)
    if not (isinstance(value, ExternalInstance) and value.name == "collections.deque"):
        return False
    owner = class_node(view.kind(place.value), view)
    return owner is not None and any(
        isinstance(part, ast.Assign)
        and any(same_place(target, place) for target in part.targets)
        and isinstance(part.value, ast.Call)
        and any(keyword.arg == "maxlen" for keyword in part.value.keywords)
        for part in ast.walk(owner)
    )


def _is_cut(place: ast.expr, view: View) -> bool:
    """Whether the function takes entries out again where there are too many: `if len(place) > n: place.pop(0)`, or
    keeps the last ones: `place = place[-n:]`."""
    if any(
        isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) and same_place(value.value, place)
        for _, value in written(place, view.function)
    ):
        return True
    return any(
        isinstance(branch, ast.If)
        and any(isinstance(part, ast.Call) and ast.unparse(part.func) == "len" for part in ast.walk(branch.test))
        and mentions(branch.test, place)
        and any(_takes_out(part, place) for statement in branch.body for part in ast.walk(statement))
        for branch in own_nodes(view.function)
    )


def _takes_out(node: ast.AST, place: ast.expr) -> bool:
    if isinstance(node, ast.Delete):
        return any(isinstance(target, ast.Subscript) and same_place(target.value, place) for target in node.targets)
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in ("pop", "popleft") and same_place(called.value, place)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Smoothed(nn.Module):
    def __init__(self, window=3):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.window = window
        self.history = []

    def forward(self, x):
        self.history.append(self.proj(x))  # ~
        if len(self.history) > self.window:
            self.history.pop(0)
        return torch.stack(self.history).mean(0)
""",
        run="(Smoothed(), [(torch.ones(2, 4),) for _ in range(5)])",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""\
from collections import deque

import torch
from torch import nn


class Multistep(nn.Module):
    def __init__(self, order=3):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.slopes = deque(maxlen=order)

    def forward(self, x):
        self.slopes.appendleft(self.proj(x))  # ~
        return x + sum(self.slopes) / len(self.slopes)
""",
        run="(Multistep(), [(torch.ones(2, 4),) for _ in range(5)])",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        # Both are read before they get longer, and there is the guard.
        code="""\
import torch
from torch import nn


class Streamed(nn.Module):
    def __init__(self, left=2):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.left = left
        self.past = []
        self.kept = []

    def forward(self, chunk):
        h = self.proj(chunk)
        out = h + torch.cat([*self.past, h], 1).mean(1, keepdim=True)  # ~
        self.past.append(h)
        if len(self.past) > self.left:
            del self.past[0]
        before = len(self.kept)  # ~
        self.kept.append(out.mean())
        self.kept = self.kept[-self.left :]
        return out * before
""",
        run="(Streamed(), [(torch.ones(2, 3, 4),) for _ in range(4)])",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Solver:
    def __init__(self, order=3):
        self.order = order
        self.outputs = []

    def step(self, x, slope):
        self.outputs = (self.outputs + [slope])[-self.order :]  # ~
        if len(self.outputs) > 1:
            slope = 1.5 * slope - 0.5 * self.outputs[-2]
        return x + slope


class Pipeline:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.solver = Solver()
        self.solver.step = torch.compile(self.solver.step)

    def __call__(self, x):
        for _ in range(6):
            x = self.solver.step(x, self.net(x))
        return x
""",
        run="(Pipeline(), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
from collections import deque

import torch
from torch import nn


class Smoothed(nn.Module):
    def __init__(self, window=3):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("history", torch.zeros(window, 2, 4))

    def forward(self, x):
        recent = deque(maxlen=2)
        for _ in range(3):
            x = self.proj(x)
            recent.append(x)
        self.history = self.history.roll(1, 0)
        self.history[0] = x.detach()
        return self.history.mean(0) + sum(recent)
""",
        run="(Smoothed(), [(torch.ones(2, 4),) for _ in range(5)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Windowed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.sizes = [1, 2, 3]

    def forward(self, x):
        last = []
        for size in self.sizes:
            last = (last + [self.proj(x) * size])[-2:]
        return sum(last) + len(self.sizes[-2:] + [4])
""",
        run="(Windowed(), [(torch.ones(2, 4),) for _ in range(3)])",
        default="clean",
        fullgraph="clean",
    ),
)
