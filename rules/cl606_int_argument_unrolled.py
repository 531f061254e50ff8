"""An int argument that a Python loop or a list needs as a constant compiles one graph per value.

## What it does

Finds, in a function that is compiled as such, an int argument used as the bound of `range(…)`, as the index of a
list or an `nn.ModuleList`, as the length of `[x] * n`, as the end of `while len(found) < n`, or as the number of
`chunk(n)`. Where driving code is seen to pass several, also in functions that it is handed on to, as the key of a dict,
and as the window of pooling and `unfold`, the classes of `one_hot`, the steps of `linspace` and other numbers that
torch needs as constants.

## Why it costs

An int argument normally becomes a symbol after one recompile, and then fits every value. A loop can only be unrolled,
and a Python list only be indexed, with a constant: Dynamo pins the argument with a guard `n == 3`. Measured on torch
2.13: 8 values compile 8 times, then the recompile limit is hit and the function runs uncompiled. Sizes, slices of
tensors, `arange(n)`, `topk(n)` and arithmetic are fine.

## Write instead

- Compile what the loop calls, not the loop: `self.step = torch.compile(step)`, and loop in Python around it.
- Replace the loop by one operation on a slice: `rows[start:end].sum(0)`, whose bounds may be symbols.
- Index a stacked tensor, `self.table[n]`, instead of a list.

## Limits

Few values are fine: each is compiled once. An argument with a default value is taken for a setting that never changes,
unless code that calls the compiled function is seen to pass another one each time.

## References

PyTorch documentation "Dynamic shapes", on specialization of ints.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.number_uses import is_list
from compilelint.static.facts.pinned_numbers import OF_NUMBERS, pinned_arguments
from compilelint.static.facts.state import first_read, is_integer, same_place
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import NONE, UNKNOWN, Const, Mapping, Scalar, Value, options

HAZARD = "recompile"
CHUNK = frozenset({"torch.chunk", "torch.Tensor.chunk"})
WATCH = Watch(
    nodes=(ast.Call, ast.Subscript, ast.BinOp, ast.Dict, ast.While),
    callees=OF_NUMBERS.__contains__,
    syntax=lambda node, module: _may_need_constant(node),
)
FEW = 2
"""So many values are compiled once each, and that was it."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the place that pins an int argument of the region to its value."""
    asked = node.test if isinstance(node, ast.While) else node
    if view.assumed or not isinstance(asked, ast.expr):
        return
    for number, use in _constants_needed(node, view):
        names = _arguments_in(number, view)
        if names:
            yield Hit(
                asked,
                f"`{view.text(asked)}` needs a constant: Dynamo pins `{names[0]}` to its value {use}, so every new"
                " value compiles again",
                "compile what the loop calls instead of the loop, or use one operation on a slice or a stacked tensor",
                confidence="likely",
            )


def _may_need_constant(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "range"
    if isinstance(node, ast.While):
        return any(True for _ in _ends_of(node))
    if isinstance(node, ast.Dict):
        return any(isinstance(key, ast.Name) for key in node.keys)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List)
    return isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Constant, ast.Tuple))


def _constants_needed(node: ast.AST, view: View) -> Iterator[tuple[ast.expr, str]]:
    """Each expression that has to be a Python constant here, and what for."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            yield from ((argument, "to unroll the loop") for argument in node.args)
        elif view.callee(node) in CHUNK:
            yield from ((part, "to know how many parts there are") for part in pinned_arguments(node, view, OF_NUMBERS))
        else:
            numbers = pinned_arguments(node, view, OF_NUMBERS)
            yield from ((part, "since torch makes no symbol of it here") for part in numbers if _is_driven(part, view))
    elif isinstance(node, ast.While):
        yield from ((end, "to unroll the loop") for count, end in _ends_of(node) if _is_count(count, view))
    elif isinstance(node, ast.Subscript):
        if isinstance(node.ctx, ast.Load) and is_list(view.kind(node.value)):
            parts = [node.slice.lower, node.slice.upper] if isinstance(node.slice, ast.Slice) else [node.slice]
            yield from ((part, "to pick from the list") for part in parts if part is not None)
        elif _is_dict(view.kind(node.value)) and _is_several(node.slice, view):
            yield node.slice, "to be a key"
    elif isinstance(node, ast.Dict):
        yield from ((key, "to be a key") for key in node.keys if key is not None and _is_several(key, view))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List):
        yield node.right, "to know how long the list is"


def _ends_of(loop: ast.While) -> Iterator[tuple[ast.expr, ast.expr]]:
    """A count, and what a loop compares it with to go on: `i` and `n` of `while i < n` where it counts `i`, or
    `len(found)` and `n` of `while len(found) < n`."""
    test = loop.test
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Lt, ast.LtE))):
        return
    count, end = test.left, test.comparators[0]
    of_list = isinstance(count, ast.Call) and isinstance(count.func, ast.Name) and count.func.id == "len"
    if of_list or any(
        isinstance(part, ast.AugAssign) and same_place(part.target, count) and isinstance(part.value, ast.Constant)
        for part in nodes_in(loop)
    ):
        yield count, end


def _is_count(node: ast.expr, view: View) -> bool:
    return is_integer(view.kind(node)) or (isinstance(node, ast.Call) and view.callee(node) == "builtins.len")


def _is_driven(number: ast.expr, view: View) -> bool:
    """Whether driving code is seen to pass several numbers for a parameter, or what the number is computed from."""
    return any(isinstance(part, ast.Name) and _several(part, view) for part in ast.walk(number))


def _arguments_in(number: ast.expr, view: View) -> list[str]:
    """The arguments that the whole expression is computed from; empty if anything else is in it.

    Those of the region's outermost function that have no default, unless all calls are seen to pass the same, and those
    of which driving code passes several.
    """
    if not isinstance(view.function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    arguments = view.function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = {a.arg for a in positional[: len(positional) - len(arguments.defaults)]}
    required |= {a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default}
    found = []
    for part in ast.walk(number):
        if isinstance(part, ast.Name):
            given = view.entry and part.id in required and _may_be_int(view.kind(part)) and not _is_settled(part, view)
            if not (given or _several(part, view)) or _rebound(part.id, view):
                return []
            found.append(part.id)
        elif not isinstance(part, (ast.BinOp, ast.operator, ast.Constant, ast.expr_context)):
            return []
    return found


def _is_several(key: ast.expr, view: View) -> bool:
    """Whether driving code is seen to pass several ints for what is a key here first: what nothing is known of may be a
    text."""
    if not isinstance(key, ast.Name) or first_read(key, view) is not key:
        return False
    return _several(key, view) and all(is_integer(value) for given in view.passed(key.id) for value in given.values)


def _is_dict(value: Value) -> bool:
    return all(isinstance(option, Mapping) for option in options(value))


def _several(name: ast.Name, view: View) -> bool:
    """Whether driving code passes another number, or what may be one, in each of its calls."""
    for passing in view.passed(name.id):
        kinds = [option for value in passing.values for option in options(value)]
        if passing.varies and all(kind == NONE or _may_be_int(kind) or is_integer(kind) for kind in kinds):
            return True
        if len({kind for kind in kinds if isinstance(kind, Const) and is_integer(kind)}) > FEW:
            return True
    return False


def _is_settled(name: ast.Name, view: View) -> bool:
    """Whether the calls of the compiled function are in the project, and each passes the same number every time."""
    passings = view.passed(name.id)
    return bool(passings) and not any(passing.varies or passing.carried for passing in passings)


def _may_be_int(value: Value) -> bool:
    """An int whose value nothing fixes, or a bare parameter that nothing says anything about."""
    return value == UNKNOWN or (isinstance(value, Scalar) and value.origin == "argument")


def _rebound(name: str, view: View) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in nodes_in(view.function)
    )


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Accumulate(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, rows, start, end):
        total = self.proj(rows[start])
        for i in range(start + 1, end):  # ~
            total = total + self.proj(rows[i])
        return total
""",
        run="Accumulate(), [(torch.ones(16, 4), s, s + 3) for s in range(1, 6)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(dim, dim) for _ in range(5))

    def forward(self, x, task: int):
        return self.heads[task](x)  # ~
""",
        run="Heads(), [(torch.ones(2, 4), task) for task in range(5)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""
import torch
from torch import nn


def in_chunks(layer, x, size=None):
    if size is None:  # ~ CL627
        return layer(x)
    return torch.cat([layer(x[i : i + size]) for i in range(0, x.shape[0], size)])  # ~


class Tower(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, size=None):
        return in_chunks(self.proj, x, size)


def tune(x, sizes):
    tower = torch.compile(Tower())
    return [tower(x, size=size) for size in sizes]
""",
        run="tune, [(torch.ones(12, 4), (2, 3, 4, 6))]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""\
import torch

RATES = {0: 1.0, 1: 0.5, 2: 0.25, 3: 0.125}


def logged(x, step):
    return {step: x.mean()}  # ~


@torch.compile
def train_step(x, step):
    loss = x * RATES[step]  # ~
    return {step: loss}, logged(x, step)


def train(x):
    for step in range(4):
        train_step(x, step)
""",
        run="(train, [(torch.ones(2),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # A loop that ends at a number, and operators that need one as a constant.
        code="""
import torch
import torch.nn.functional as F


@torch.compile
def draft(x, budget):
    found = []
    while len(found) < budget:  # ~
        x = x.tanh()
        found.append(x)
    return torch.stack(found)


@torch.compile
def blurred(x, radius):
    return F.avg_pool2d(x, (2 * radius + 1, 2 * radius + 1), stride=1)  # ~


def sweep(x):
    return [draft(x, n).sum() + blurred(x, n).sum() for n in range(2, 6)]
""",
        run="sweep, [(torch.ones(1, 16, 16),)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # Numbers that torch makes symbols of, and a window that stays.
        code="""
import torch
import torch.nn.functional as F


@torch.compile
def shifted(x, n, window=3):
    rows = F.avg_pool1d(x.roll(n, 0).tril(n), window, stride=1)
    return rows.topk(n).values.sum() + F.pad(rows, (n, 0)).sum()


def sweep(x):
    return [shifted(x, n) for n in range(2, 6)]
""",
        run="sweep, [(torch.ones(16, 16),)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, dim=4, depth=3):
        super().__init__()
        self.depth = depth
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x, steps=2):
        for i in range(self.depth):
            x = self.layers[i](x)
        for _ in range(steps):
            x = torch.relu(x)
        rows = []
        for i in range(x.shape[0]):
            rows.append(x[i] * i)
        return torch.stack(rows)
""",
        run="Stack(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # Bounds of a slice and arithmetic: one recompile makes the ints symbols.
        code="""
import torch
from torch import nn


class Accumulate(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, rows, start: int, end: int):
        return self.proj(rows[start:end]).sum(0) / (end - start) + torch.arange(end).sum()
""",
        run="Accumulate(), [(torch.ones(16, 4), s, s + 3) for s in range(2, 6)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        # A setting of an optimizer's group: the calls are known, and pass one number.
        code="""
import torch


@torch.compile
def orthogonal(g, steps):
    for _ in range(steps):
        g = 1.5 * g - 0.5 * g @ g.mT @ g
    return g


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, steps=5):
        super().__init__(params, {"lr": lr, "steps": steps})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(orthogonal(p.grad, group["steps"]), alpha=-group["lr"])


def train(x):
    weight = torch.nn.Parameter(torch.eye(4))
    optimizer = Muon([weight])
    for _ in range(3):
        (x @ weight).sum().backward()
        optimizer.step()
    return weight
""",
        run="train, [(torch.ones(2, 4),)]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
