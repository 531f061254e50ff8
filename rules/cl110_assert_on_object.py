"""An assert on a list of tensors, a module or another object splits the graph.

## What it does
Reports `assert features`, without a message or with a constant one, where what is asked for its truth is a list, tuple
or dict with tensors, modules or objects in it, a module, or an object of a class of the project.

## Why it costs
Dynamo knows such an assert by its bytecode and writes it into the graph as `torch._assert_async`. What is no constant,
no size and no tensor it tries to make a tensor of, which fails (GB0055, GB0112): the graph ends before the assert,
which Python then runs. In a constructor or a loop no graph is left of the function. `fullgraph=True` raises.

## Write instead
Ask for what is meant, which is known while tracing:

    assert len(features) > 0, "no features"
    assert cache is not None
    if not features:
        raise ValueError("no features")

## Limits
Lists and named tuples of numbers and texts, numbers and texts of a class of their own (not on torch 2.11), functions,
members of enumerations, `assert not extra` and asserts whose message is made up at run time are ordinary tests, which
compile. Measured on torch 2.11, 2.13 and 2.14.

## References
torch/_dynamo/symbolic_convert.py, the handling of assert; GB0055, GB0112.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.enumerations import is_enumeration
from compilelint.static.facts.objects import makes_numbers, makes_values
from compilelint.static.facts.questions import folded
from compilelint.static.values import (
    NONE,
    ExternalInstance,
    Instance,
    Mapping,
    Sequence,
    Tensor,
    Value,
    options,
)

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Assert,))
OBJECTS = ("torch.nn.", "torch.distributions.")
CONTAINERS = frozenset({"ModuleList", "ModuleDict", "Sequential", "ParameterList", "ParameterDict"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per assert whose last condition is an object."""
    if not isinstance(node, ast.Assert) or (node.msg is not None and not folded(node.msg)):
        return
    asked = node.test
    while isinstance(asked, ast.BoolOp):  # Dynamo sees the jump over the message, which the last condition takes
        asked = asked.values[-1]
    kinds = [kind for kind in options(view.kind(asked)) if kind != NONE]
    if kinds and all(is_object(kind, view) for kind in kinds):
        text = view.text(asked)
        instead = f"`assert len({text}) > 0`" if _has_length(kinds[0], view) else f"`assert {text} is not None`"
        yield Hit(
            asked,
            f"this assert asks `{text}` for its truth, of which Dynamo tries to make a tensor: the graph splits here",
            f"ask for what is known while tracing, {instead}, or raise the error yourself behind an `if`",
            "likely",
        )


def _has_length(value: Value, view: View) -> bool:
    """Whether the truth of `value` says how many entries it has."""
    if isinstance(value, Instance):
        methods = (part for owner in view.classes(value) for part in owner.body if isinstance(part, ast.FunctionDef))
        return any(method.name == "__len__" for method in methods)
    return not isinstance(value, ExternalInstance) or value.name.rpartition(".")[2] in CONTAINERS


def is_object(value: Value, view: View) -> bool:
    """Whether Dynamo has neither a constant nor one tensor for `value`; of a container, for some part of it.

    What may be empty is left out: then the assert fails without the compiler too.
    """
    if isinstance(value, Instance):
        classes = view.classes(value)
        if any(map(is_enumeration, classes)):
            return False
        known = any(makes_values(owner) and (view.torch > (2, 11) or not makes_numbers(owner)) for owner in classes)
        return not known or any(_is_kept(part, view) for part in value.attributes.values())
    if isinstance(value, ExternalInstance):
        return value.name.startswith(OBJECTS)
    if isinstance(value, Sequence) and value.form in ("list", "tuple"):
        return any(_is_kept(part, view) for part in ((value.element,) if value.items is None else value.items))
    parts = [value.element, *(entry for _, entry in value.entries)] if isinstance(value, Mapping) else []
    return any(_is_kept(part, view) for part in parts)


def _is_kept(part: Value, view: View) -> bool:
    return all(isinstance(kind, Tensor) or is_object(kind, view) for kind in options(part))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def merged(self, *features):
        assert features, "at least one level"  # ~
        return torch.stack(features).sum(0)

    def forward(self, x):
        assert self.training and self.levels  # ~
        return self.merged(*[level(x) for level in self.levels])
""",
        run="(Pyramid(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Chain:
    def __init__(self, *steps):
        assert steps, "a chain needs steps"  # ~
        self.steps = steps

    def run(self, x):
        for step in self.steps:
            x = torch.tanh(step) * x
        return x


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        chain = Chain(self.proj(x), x)
        assert chain  # ~
        found = {"sum": chain.run(x)}
        assert found, "nothing came out"  # ~
        return found["sum"]
""",
        run="(Flow(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import enum
from typing import NamedTuple, Optional

import torch
from torch import nn


class Named(str, enum.Enum):
    pass


class Mode(Named):
    SUM = "sum"


class Grid(NamedTuple):
    rows: int
    columns: int


class Axis(int):
    pass


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.names = ["low", "high"]
        self.mode = Mode.SUM
        self.extra = []
        self.grid, self.axis = Grid(2, 2), Axis(1)
        self.act = torch.tanh

    def forward(self, *features, bias: Optional[float] = 0.5):
        assert self.levels is not None and len(features) > 0, "at least one level"
        assert self.names and self.mode
        assert self.act
        assert self.grid
        assert self.axis, "no axis"
        assert not self.extra, "not supported"
        assert features, f"{len(self.names)} levels are needed"
        assert features or self.names
        assert bias and features[0].shape
        return self.act(sum(level(feature) for level, feature in zip(self.levels, features))) + bias
""",
        run="(Pyramid(), [(torch.ones(2, 4), torch.ones(2, 4))])",
        default="clean",
        fullgraph="clean",
    ),
)
