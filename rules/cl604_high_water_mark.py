"""A Python int that compiled code raises to the largest size seen recompiles for every new maximum.

## What it does

Finds `if n > self.known: self.known = n; …` and `self.known = max(self.known, n)` in compiled code, where `known` is
a Python int on a module: the usual shape of tables (rotary, positions, masks) that are extended when a longer input
shows up.

## Why it costs

Dynamo guards on the value of an int attribute of a module. Each new maximum changes it, so the next call compiles
again, on top of what the new input size costs: measured on torch 2.13, sizes 3, 4, 5, 6, 7, 8 compile six times, and
two times when the same test reads the size from the table tensor instead.

## Write instead

- Build the table for the largest size in `__init__` and slice it: `self.table[:n]`.
- Or compare with the table itself, `if n > self.table.shape[0]`: sizes of tensors become dynamic, Python ints on
  modules don't.

## Limits

A mark that starts at a number above 1, a size to begin with, is reported as possible only: up to that size nothing
compiles again.

## References

PyTorch documentation "Dealing with Recompilations"; config `allow_unspec_int_on_nn_module`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.starting import starts_with
from compilelint.static.facts.state import (
    held,
    is_integer,
    of_module_or_global,
    outlives_call,
    same_place,
    written,
)
from compilelint.static.values import UNKNOWN, Scalar, join_all, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.If, ast.Assign), syntax=lambda node, module: any(True for _ in _marks(node)))
ORDERINGS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.NotEq)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the test or the `max` that reads the mark which the same statement raises."""
    for place, reported in _marks(node):
        if not (outlives_call(place, view) and of_module_or_global(place, view) and _is_size(place, reported, view)):
            continue
        yield Hit(
            reported,
            f"`{view.text(place)}` is a Python int, raised here to the largest size seen: Dynamo guards on its value,"
            " so every new maximum compiles again",
            "build the table for the largest size in `__init__`, or compare with the table's own `.shape`",
            confidence="possible" if _has_room(place, view) else "likely",
        )


def _has_room(place: ast.expr, view: View) -> bool:
    """Whether the mark starts at a size: up to that no input raises it, and nothing compiles again."""
    first = starts_with(place, view)
    return isinstance(first, ast.Constant) and isinstance(first.value, int) and first.value > 1


def _is_size(place: ast.expr, reported: ast.expr, view: View) -> bool:
    """Whether an int is kept at `place`, or nothing is known but that it is compared with a size."""
    known = [option for option in options(held(place, view)) if option != UNKNOWN]
    if known or not isinstance(reported, ast.Compare):
        return is_integer(join_all(known))
    sides = [view.kind(side) for side in (reported.left, *reported.comparators)]
    return any(isinstance(side, Scalar) and side.type == "int" and side.origin == "shape" for side in sides)


def _marks(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each place that the statement tests and sets to what it was tested against, with the expression to report."""
    if isinstance(node, ast.If):
        tests = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
        for test in tests:
            if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ORDERINGS)):
                continue
            left, right = test.left, test.comparators[0]
            for place, other in ((left, right), (right, left)):
                if isinstance(place, ast.Attribute) and _is_set(place, other, node):
                    yield place, test
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
        target = node.targets[0]
        is_mark = isinstance(target, ast.Attribute) and any(same_place(arg, target) for arg in node.value.args)
        if is_mark and node.value.func.id in ("max", "min"):
            yield target, node.value


def _is_set(place: ast.expr, other: ast.expr, branch: ast.If) -> bool:
    """Whether the branch sets `place` to `other`, or to something computed from it."""
    body = ast.Module(branch.body, [])
    return any(
        value is not None and any(isinstance(part, type(other)) and same_place(part, other) for part in ast.walk(value))
        for _, value in written(place, body)
        if not isinstance(other, ast.Constant)
    )


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.dim = dim
        self.known = 0
        self.table = torch.zeros(0, dim)

    def extend(self, n):
        if n > self.known:  # ~
            self.known = n
            self.table = torch.outer(torch.arange(n).float(), torch.ones(self.dim))

    def forward(self, x):
        self.extend(x.shape[0])
        return x * self.table[: x.shape[0]]
""",
        run="Rotary(), [(torch.ones(n, 4),) for n in (3, 5, 6, 7)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""
import torch
from torch import nn


class Padder(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.longest = 1

    def forward(self, x):
        self.longest = max(self.longest, x.shape[0])  # ~
        return nn.functional.pad(self.proj(x), (0, 0, 0, self.longest - x.shape[0]))
""",
        run="Padder(), [(torch.ones(n, 4),) for n in (3, 5, 6, 7)]",
        default="recompile",
        fullgraph="recompile",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim=4, longest=64):
        super().__init__()
        self.longest = longest
        self.register_buffer("table", torch.outer(torch.arange(longest).float(), torch.ones(dim)))

    def forward(self, x):
        n = x.shape[0]
        if n > self.longest:
            raise ValueError(f"at most {self.longest} rows")
        if n > self.table.shape[0]:
            self.table = torch.outer(torch.arange(n).float(), torch.ones(x.shape[1]))
        return x * self.table[:n]
""",
        run="Rotary(), [(torch.ones(5, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.dim = dim
        self.known = 64
        self.table = torch.ones(64, dim)

    def extend(self, n):
        if n > self.known:
            self.known = n
            self.table = torch.ones(n, self.dim)

    def forward(self, x):
        self.extend(x.shape[0])
        return x * self.table[: x.shape[0]]
""",
        run="Rotary(), [(torch.ones(n, 4),) for n in (5, 5, 5)]",
        default="clean",
        fullgraph="clean",
    ),
)
