"""An iterator that was made outside can't be advanced in compiled code.

## What it does
Finds `next(...)`, loops and consumers (`list`, `sum`, `zip` and so on) over an iterator or generator that a global,
an attribute or a parameter of the compiled function holds, in code that Dynamo traces.

## Why it costs
An iterator has a position that Dynamo can't look at without moving it, so it doesn't touch one it did not see being
made: `next` breaks (GB4347, before 2.13 GB0160), iterating is refused (GB0811), and a `for` over it leaves no graph
of the function.

## Write instead
Hand in a list or tuple; keep the position as a number. `iter(items)` inside the compiled function is fine.

## Limits
Iterators, generators, `zip`, `map` and `enumerate` that are made in traced code compile, wherever they are passed
there; so do `range`, `dict.keys()`, `itertools.count` and `iter` of a tuple, a range or a tensor.
Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0160, GB0811, GB4347.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import comes_from_outside, last_name
from compilelint.static.project.answers import about_file
from compilelint.static.project.bindings import bound_alone_to
from compilelint.static.values import UNKNOWN, ExternalInstance, Sequence, Value, options

HAZARD = "graph-break"
CONSUMERS = frozenset(f"builtins.{name}" for name in ("next", "list", "tuple", "sum", "set", "zip", "enumerate", "map"))
ENDLESS = frozenset({"itertools.cycle", "itertools.repeat"})
_LOOPS = (ast.For, ast.comprehension)
WATCH = Watch(nodes=(ast.Call, *_LOOPS), callees=CONSUMERS.__contains__)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call or loop that advances an iterator."""
    advanced = node.args if isinstance(node, ast.Call) else [node.iter] if isinstance(node, _LOOPS) else []
    for iterator in advanced:
        if moves(iterator, view) and comes_from_outside(view, iterator):
            yield Hit(
                node if isinstance(node, ast.Call) else iterator,
                f"`{view.text(iterator)}` is an iterator from outside, which Dynamo can't advance: it splits the graph",
                "hand in a list or tuple, or make the iterator inside the compiled function",
            )


def moves(node: ast.expr, view: View) -> bool:
    """Whether `node` is an iterator: by its kind, or, where that is not known, by what the file binds to its name."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    kind = view.kind(node)
    return all(map(is_iterator, options(kind))) or (kind == UNKNOWN and last_name(node) in view.fact(_endless))


@about_file(())
def _endless(module: ast.Module) -> tuple[str, ...]:
    """The names to which the file binds endless iterators alone."""
    return bound_alone_to(module, ENDLESS)


def is_iterator(kind: Value) -> bool:
    """Whether `kind` has a position that moves."""
    if isinstance(kind, ExternalInstance):
        return kind.name in ENDLESS
    return isinstance(kind, Sequence) and kind.form in ("iterator", "generator")


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Scheduled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.rates = iter([0.1, 0.2, 0.3, 0.4])

    def forward(self, x):
        h = self.fc(x)
        return h * next(self.rates)  # ~
""",
        run="(Scheduled(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch

offsets = map(float, [1, 2, 3])


@torch.compile
def shift(x):
    y = torch.tanh(x)
    for offset in offsets:  # ~
        y = y + offset
    return y
""",
        run="(shift, [(torch.ones(4),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


def total(values):
    return sum(values) + sum(x for x in (1, 2))


class Scheduled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.rates = [0.1, 0.2]

    def forward(self, x):
        rates = iter(self.rates)
        for layer, bias in zip(self.layers, (1, 2)):
            x = layer(x) * next(rates) + bias
        device = next(self.parameters()).device
        return x.to(device) * total(i for i in range(3))
""",
        run="(Scheduled(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch

widths = {"a": 1, "b": 2}
names = widths.keys()


@torch.compile
def step(x, rows, sizes):
    for name in names:
        x = x + widths[name]
    return sum(rows, x) + next(sizes)


def run(x):
    return step(x, iter((x, x)), iter(range(3)))
""",
        run="(run, [(torch.ones(4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
