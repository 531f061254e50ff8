"""Computing with a number of Python's `random`, or indexing with one, is not traced.

## What it does
Finds arithmetic between Python numbers of which one was drawn by `random.uniform`, `randint` or `randrange` in code
that Dynamo traces, or by an own `random.Random`, and places where such a number is an index, a bound of a slice, or a
size.

## Why it costs
Dynamo draws these numbers before the graph starts and hands them in. As a factor or a summand of a tensor they cost
nothing. But they are data of the graph and no Python numbers: for `random.randint(0, 3) + 1`, `1 - p` or `-p` Dynamo
has no rule, and the whole function stays uncompiled. So it does where one is the key of a dict, and the bound of a
slice, there without an error under `fullgraph=True`. As another index or a size the number is needed to go on, and the
graph splits (GB0033).

## Write instead
Draw outside the compiled code and pass the number in, let the bounds of the draw contain the arithmetic, or draw with
torch:

    gain = random.uniform(1.0, 1.5)          # rather than 1 + random.uniform(0.0, 0.5)
    start = torch.randint(0, width - 4, ())  # and torch.index_select for what it selects

## Limits
Only in files that import `random`. Where the graph breaks between the draw and its use, the number is a plain one
again, and the finding is wrong. Measured on torch 2.11, 2.13 and 2.14.

## References
torch.compile documentation: "Common Graph Breaks". GB0033, GB0124.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.drawn_numbers import is_computed
from compilelint.static.facts.questions import is_drawn
from compilelint.static.values import Mapping, options

HAZARD = "frame-skip"
SIZED = frozenset("narrow roll rot90 select zeros ones empty rand randn topk expand repeat".split())
INSTEAD = "draw outside the compiled code and pass the number in, or draw with torch on the tensor's device"


def draws(module: ast.Module) -> bool:
    """Whether a file imports `random`, at its head as everybody does: no body is looked through for it."""
    return any(
        (isinstance(statement, ast.Import) and any(alias.name == "random" for alias in statement.names))
        or (isinstance(statement, ast.ImportFrom) and statement.module == "random")
        for statement in module.body
    )


def may_need_number(node: ast.AST, module: ast.Module) -> bool:
    """Whether a node computes, indexes, or calls something that takes a size or an index."""
    return not isinstance(node, ast.Call) or (isinstance(node.func, ast.Attribute) and node.func.attr in SIZED)


WATCH = Watch(
    nodes=(ast.BinOp, ast.UnaryOp, ast.AugAssign, ast.Subscript, ast.Call), syntax=may_need_number, files=draws
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per operation, and per place that needs the number."""
    if is_computed(node, view):
        assert isinstance(node, (ast.expr, ast.AugAssign))
        yield Hit(
            node,
            f"`{view.text(node)}` computes with a number drawn at random, which is data in the graph: Dynamo has no"
            " rule for that, and the whole function runs uncompiled",
            INSTEAD,
            "likely",
        )
        return
    needed = [place for place in places(node) if not isinstance(place, ast.Call) and is_drawn(view.kind(place))]
    computed = any(is_computed(part, view) for place in places(node) for part in ast.walk(place))
    if needed and not computed and isinstance(node, ast.expr):
        splits = not ends_function(node, needed[0], view)
        yield Hit(
            node,
            f"`{view.text(needed[0])}` was drawn at random and is data in the graph, and `{view.text(node)}` needs the"
            f" number: {'the graph splits here' if splits else 'the whole function runs uncompiled'}",
            INSTEAD,
            "likely",
            hazard="graph-break" if splits else None,
        )


def ends_function(node: ast.expr, needed: ast.expr, view: View) -> bool:
    """Whether Dynamo gives up the function at an index: at the bound of a slice, and at the key of a dict."""
    if not isinstance(node, ast.Subscript):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return needed not in parts or any(isinstance(option, Mapping) for option in options(view.kind(node.value)))


def places(node: ast.AST) -> list[ast.expr]:
    """The expressions in an index or a call of which Python has to know the number."""
    if isinstance(node, ast.Call):
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    if not isinstance(node, ast.Subscript):
        return []
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    bounds = [bound for part in parts if isinstance(part, ast.Slice) for bound in (part.lower, part.upper, part.step)]
    return [part for part in (*parts, *bounds) if part is not None and not isinstance(part, ast.Slice)]


BAD = (
    Example(
        code="""\
import random

import torch
from torch import nn


class Jitter(nn.Module):
    def __init__(self, strength=0.5):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.strength = strength

    def forward(self, x):
        gain = 1 + random.uniform(0.0, self.strength)  # ~
        return self.fc(x) * gain
""",
        run="(Jitter(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import random

import torch
from torch import nn


def blend(a, b, share):
    return a * share + b * (1 - share)  # ~


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x):
        return blend(self.first(x), self.second(x), random.uniform(0.0, 1.0))
""",
        run="(Mixed(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
from random import randint

import torch
from torch import nn


class Cropped(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.width = width

    def forward(self, x):
        start = randint(0, 4)
        return torch.tanh(x)[:, start : start + self.width]  # ~


class Turned(nn.Module):
    def forward(self, x):
        steps = randint(0, 2)
        steps += 1  # ~
        return torch.rot90(torch.tanh(x), steps, (0, 1))


class Rolled(nn.Module):
    def forward(self, x):
        steps = randint(0, 3)
        return torch.roll(torch.tanh(x), steps, 0)  # ~
""",
        run="(Rolled(), [(torch.ones(4, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import random

import torch
from torch import nn


class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.weights = [0.5, 1.0, 2.0]

    def forward(self, x):
        choice = random.randrange(3)
        return torch.tanh(x) * self.weights[choice]  # ~


class Stepped(nn.Module):
    def forward(self, x):
        n = random.randint(1, 2)
        gain = {1: 0.5, 2: 1.0}[n]  # ~
        return torch.tanh(x).repeat(n, 1) * gain  # ~


class Noisy(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        self.random = random.Random(seed)

    def forward(self, x):
        share = self.random.random()  # ~ CL405
        return torch.tanh(x) * (1 - share)  # ~
""",
        run="(Routed(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import random

import torch
from torch import nn


class Cut(nn.Module):
    def forward(self, x):
        end = random.randint(1, 3)
        return torch.tanh(x)[:end]  # ~
""",
        run="(Cut(), [(torch.ones(4, 4),)])",
        default="skip",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import random

import torch
from torch import nn

OFFSET = random.randint(1, 3)


class Jitter(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.shift = random.randint(0, 3)

    def forward(self, x):
        gain = random.uniform(0.9, 1.1)
        low, high = min(gain, 1.0), abs(gain)
        y = self.fc(x) * gain * (self.shift + 1) + low
        return y[: OFFSET + 1] - high * (1 - torch.full((), gain))
""",
        run="(Jitter(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import random

import torch
from torch import nn


class Augment(nn.Module):
    def forward(self, x, gain):
        return torch.tanh(x) * (1 - gain)


def train(model, batches):
    for batch in batches:
        model(batch, 1 - random.uniform(0.0, 0.5))
""",
        run="(Augment(), [(torch.ones(2, 4), 0.5)])",
        default="clean",
        fullgraph="clean",
    ),
)
