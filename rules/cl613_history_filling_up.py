"""A history of bounded length compiles again for each length until it is full.

## What it does
Finds a list or deque that outlives the call, to which compiled code adds an entry per call and which keeps the last
few: `self.history.append(h)` followed by `if len(self.history) > n: self.history.pop(0)`, `self.history = (self.history
+ [h])[-n:]`, or `deque(maxlen=n)`. It reports where the function first uses it. And a `deque(maxlen=n)` that starts
full, where it is read after `append`.

## Why it costs
Dynamo guards on the length. Until the history is full each call finds another one and compiles again: measured on torch
2.13, a window of 3 compiles four times. A window of 8 or more hits the recompile limit before it is full, and the
function runs uncompiled from there on. A full `deque(maxlen=n)` keeps, while Dynamo traces, the entry that it drops:
what reads it after `append` computes with one too many (measured on torch 2.11, 2.13 and 2.14). Every reset starts with
lengths that are compiled already.

## Write instead
- Keep the history in one tensor of fixed size and roll it: `self.history = self.history.roll(1, 0)`, then
  `self.history[0] = h`, with a buffer for how much of it counts.
- Fill a list with copies of the first entry, so that the length never changes.
- Or keep it in the calling code.

## Limits
A list that starts full, or that drops its first entry for each new one (`self.history[1:] + [h]`), is as long in
each call and is left alone.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import (
    class_node,
    functions_in,
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
    is_deque = _is_short_deque(place, view)
    if is_deque and _starts_full(place, view):
        yield from _one_too_many(place, node, view)
    elif is_deque or (_is_list(place, view) and kept_short and not _starts_full(place, view)):
        read = read_before(place, node, view)
        yield Hit(
            read or (node.value if isinstance(node, ast.Assign) else node),
            f"`{view.text(place)}` gets longer with each call{f' (line {node.lineno})' if read is not None else ''}"
            " until it is full, and Dynamo guards on its length: each length compiles again",
            "keep the last entries in one tensor of fixed size (`roll` it and write the new one), or fill a list"
            " with copies of the first entry",
            "likely",
        )


def _one_too_many(place: ast.Attribute, append: ast.Call | ast.Assign, view: View) -> Iterator[Hit]:
    """A deque that is full from the start and is read behind the call that adds to it."""
    reads = (node for node in own_nodes(view.function) if isinstance(node, ast.Attribute) and same_place(node, place))
    if any(read.lineno > append.lineno for read in reads):
        yield Hit(
            append,
            f"`{view.text(place)}` is full: while Dynamo traces, it keeps the entry that its `maxlen` drops, and what"
            " reads it from here on sees one too many",
            "drop the entry before adding one (`popleft()`), or keep the last entries in one tensor of fixed size",
            "likely",
            hazard="stale-result",
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
    """`(place + [x])[-n:]`, `[*place, x][-n:]`, `place[-n:] + [x]` and the like.

    `place[1:] + [x]` gives away as many as it gets and is as long as before.
    """
    if isinstance(value, ast.Subscript):
        return isinstance(value.slice, ast.Slice) and _is_longer(value.value, place)
    return _is_longer(value, place) and any(
        isinstance(part, ast.Subscript)
        and isinstance(part.slice, ast.Slice)
        and same_place(part.value, place)
        and not isinstance(part.slice.lower, ast.Constant)
        and not (part.slice.lower is None and isinstance(part.slice.upper, ast.UnaryOp))
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


def _starts_full(place: ast.Attribute, view: View) -> bool:
    """Whether whatever else writes the history fills it: `[start for _ in range(n)]`, `deque([start] * n, n)`."""
    stored = [
        value
        for owner in view.classes(view.kind(place.value))
        for method in functions_in(owner)
        if method is not view.function
        for _, value in written(place, method)
    ]
    return bool(stored) and all(map(_has_entries, stored))


def _has_entries(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).endswith(("deque", "list")) and bool(value.args) and _has_entries(value.args[0])
    if isinstance(value, (ast.List, ast.Tuple)):
        return bool(value.elts)
    is_repeated = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult)
    return is_repeated or isinstance(value, (ast.ListComp, ast.GeneratorExp))


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
    Example(
        code="""\
from collections import deque

import torch
from torch import nn


class Summed(nn.Module):
    def __init__(self, steps=3):
        super().__init__()
        self.recent = deque([torch.zeros(2, 4) for _ in range(steps)], maxlen=steps)

    def forward(self, x):
        self.recent.append(x + 1)  # ~
        return sum(self.recent)
""",
        run="(Summed(), [(torch.full((2, 4), float(n)),) for n in range(1, 6)])",
        default="stale",
        fullgraph="stale",
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
    Example(
        # What starts full stays as long, and what drops an entry for each new one.
        code="""\
import torch
from torch import nn


class Delayed(nn.Module):
    def __init__(self, steps=3):
        super().__init__()
        self.window = [torch.zeros(2, 4) for _ in range(steps)]
        self.line = []
        for _ in range(steps):
            self.line = self.line + [torch.zeros(2, 4)]

    def forward(self, x):
        self.window = (self.window + [x * 2])[-3:]
        self.line = self.line[1:] + [x * 3]
        return sum(self.window) + sum(self.line)
""",
        run="(Delayed(), [(torch.ones(2, 4),) for _ in range(5)])",
        default="clean",
        fullgraph="clean",
    ),
)
