"""A string method of an enumeration's member splits the graph.

## What it does
Finds calls of string methods, `mode.lower()`, `mode.strip()`, `mode.startswith("max")`, on members of enumerations that
are texts too: `class Mode(str, Enum)`, `class Mode(StrEnum)`.

## Why it costs
Dynamo traces the methods of plain strings. A member is an object of a class of the user's to it, and of such it does
not call what C code implements (GB0156): the graph ends, usually over a setting that never changes. `fullgraph=True`
raises.

## Write instead
    self.mode = Mode(mode)                   # in __init__, once
    if self.mode == "max": ...               # a member equals its text
    name = self.mode.value.lower()           # `value` is a plain string

## Limits
Comparisons, `mode.value`, `mode.name`, `str(mode)`, f-strings, `Mode("max")`, `mode in {...}` and methods that the
enumeration defines itself compile. Measured on torch 2.13.

## References
torch/_dynamo/graph_break_registry.json: GB0156.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Instance, Method, Value, options

HAZARD = "graph-break"
TEXT_METHODS = frozenset(name for name in dir(str) if not name.startswith("_"))


def _may_be_of_text(kind: Value) -> bool:
    return isinstance(kind, Method) and isinstance(kind.receiver, Instance) and kind.name in TEXT_METHODS


WATCH = Watch(nodes=(ast.Call,), names=TEXT_METHODS, kinds=_may_be_of_text)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call of a string method on what may be a member."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    for method in options(view.kind(node.func)):
        if isinstance(method, Method) and _is_member_of_text_enum(method.receiver, view):
            yield Hit(
                node,
                f"`{view.text(node.func.value)}` is a member of an enumeration, whose `{method.name}` Dynamo does not"
                " trace: the graph splits here",
                f"ask the plain string, `{view.text(node.func.value)}.value.{method.name}(...)`, compare the member"
                " itself, or do this once in `__init__`",
                "likely",
            )
            return


def _is_member_of_text_enum(value: Value, view: View) -> bool:
    bases = {ast.unparse(base).rpartition(".")[2] for owner in view.classes(value) for base in owner.bases}
    return "StrEnum" in bases or ("str" in bases and any(base.endswith("Enum") for base in bases))


BAD = (
    Example(
        code="""\
import enum

import torch
from torch import nn


class Reduction(str, enum.Enum):
    MEAN = "mean"
    SUM = "sum"


class Loss(nn.Module):
    def __init__(self, reduction: Reduction = Reduction.MEAN):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.reduction = reduction

    def forward(self, x):
        x = self.proj(x)
        return x.mean() if self.reduction.lower() == "mean" else x.sum()  # ~
""",
        run="(Loss(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
from enum import Enum

import torch


class Name(str, Enum):
    def __str__(self):
        return self.value


class Mode(Name):
    FAST = "fast"
    EXACT = "exact"


def looked_up(option, known):
    if isinstance(option, str):
        option = option.strip()  # ~
    return known(option)


def scaled(x: torch.Tensor, mode: Mode | str = Mode.FAST):
    return x * 2 if looked_up(mode, Mode) == Mode.FAST else x
""",
        run="(scaled, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import enum

import torch
from torch import nn


class Reduction(str, enum.Enum):
    MEAN = "mean"
    SUM = "sum"

    def title(self):
        return self.value


def chosen(reduction: Reduction | str = Reduction.SUM):
    if not isinstance(reduction, Reduction):
        reduction = Reduction(reduction.lower())
    return reduction


class Loss(nn.Module):
    def __init__(self, reduction="mean", name: str = "L1"):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.reduction = Reduction(reduction.lower())
        self.name = name

    def forward(self, x):
        x = self.proj(x)
        if chosen() == "max":
            return x
        if self.reduction == "mean" or self.reduction in (Reduction.SUM,) and self.name.lower() == "l2":
            x = x * len(f"{self.reduction}" + str(self.reduction) + self.reduction.title())
        return x.mean() if self.reduction.value.upper() == "MEAN" else x.sum()
""",
        run="(Loss(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
