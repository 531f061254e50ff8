"""`max` and `min` of an iterator with `key` or `default`, or of pairs, split the graph.

## What it does
Finds `max` and `min` of what a generator, `zip`, `enumerate`, `map`, `filter` or a method of a dict gives, one after
the other, where `key=` or `default=` is passed, or where the items are pairs: `max(scores.items(), key=...)`,
`max((len(part) for part in parts), default=0)`, `min(zip(costs, names))`.

## Why it costs
Dynamo answers `max` and `min` by comparing numbers and tensors two by two. For keywords and for pairs it asks Python,
which it can do with lists of constants only. What is left of the iterator can't be carried over the break either, so
that of a function with a generator in it no graph is left.

## Write instead
Make a list of constants first, or loop:

    most = max([len(part) for part in parts], default=0)
    name, score = max(list(scores.items()), key=lambda item: item[1])

## Limits
Without keywords, numbers compile wherever they come from: `max(scores.values())`, `max(len(part) for part in parts)`.
Torch 2.14 compiles `key` and `default`. Measured on torch 2.11, 2.13 and 2.14.

## References
torch/_dynamo/graph_break_registry.json: GB0059, GB0193.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Hazard
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import tensors_within
from compilelint.static.values import Sequence, Value, gives_tensors, options

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"max", "min"}))
OVER_CONSTANTS = frozenset({"builtins.reversed", "builtins.iter"})
"""Iterators that are constants to Dynamo where they go over one."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that is left to Python and gets no constants."""
    if not isinstance(node, ast.Call) or view.callee(node) not in ("builtins.max", "builtins.min"):
        return
    if len(node.args) != 1:
        return
    source = view.kind(node.args[0])
    iterates = _is_iterator(node.args[0], source, view)
    generator = isinstance(node.args[0], ast.GeneratorExp)
    outcome = "the whole function runs uncompiled" if generator else "the graph splits here"
    hazard: Hazard | None = "frame-skip" if generator else None
    keywords = sorted(k.arg for k in node.keywords if k.arg and not (k.arg == "key" and _is_none(k.value)))
    if keywords and iterates and view.torch < (2, 14) and tensors_within(source) is None:
        yield Hit(
            node,
            f"`{view.text(node)}` has `{'` and `'.join(keywords)}` for an iterator, which Dynamo leaves to Python:"
            f" {outcome}",
            f"make a list of constants first, `{view.text(_of_list(node))}`, or loop",
            hazard=hazard,
        )
    elif not keywords and _gives_pairs(source) and (iterates or gives_tensors(source)):
        yield Hit(
            node,
            f"`{view.text(node)}` compares pairs, which Dynamo leaves to Python: {outcome}",
            "compare numbers only, or make a list of constants first",
            hazard=hazard,
        )


def _of_list(node: ast.Call) -> ast.Call:
    """The same call over a list: `max([len(p) for p in parts], default=0)`."""
    items = node.args[0]
    listed: ast.expr = ast.Call(ast.Name("list", ast.Load()), [items], [])
    if isinstance(items, ast.GeneratorExp):
        listed = ast.ListComp(items.elt, items.generators)
    return ast.Call(node.func, [listed], node.keywords)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_iterator(node: ast.expr, value: Value, view: View) -> bool:
    """Whether it is one in any case."""
    if isinstance(node, ast.Call) and view.callee(node) in OVER_CONSTANTS:
        return False
    return all(isinstance(o, Sequence) and o.form in ("iterator", "generator") for o in options(value))


def _gives_pairs(value: Value) -> bool:
    """Whether the items are tuples in any case."""
    items = [item for o in options(value) if isinstance(o, Sequence) for item in (o.items or (o.element,))]
    return bool(items) and all(isinstance(o, Sequence) and o.form == "tuple" for i in items for o in options(i))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = {"rgb": 3, "depth": 1}
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        name, weight = max(self.weights.items(), key=lambda item: item[1])  # ~
        return self.proj(x) * weight * len(name)
""",
        run="(Fusion(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


@torch.compile
def padded(parts: list[torch.Tensor]):
    longest = max((part.shape[0] for part in parts), default=0)  # ~
    return torch.stack([torch.nn.functional.pad(part, (0, longest - part.shape[0])) for part in parts])
""",
        run="(padded, [([torch.ones(2), torch.ones(3)],)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


@torch.compile
def cheapest(x, costs=(3, 1)):
    cost, place = min((cost, place) for place, cost in enumerate(costs))  # ~
    first, rank = min(zip(costs, (2, 4)))  # ~
    return x[place] * cost + first * rank
""",
        run="(cheapest, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = {"rgb": 3, "depth": 1}
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        most = max(self.weights.values())
        longest = max(len(name) for name in self.weights)
        name, weight = max(list(self.weights.items()), key=lambda item: item[1])
        last = max(reversed([1, 2]), default=0) + max([len(n) for n in self.weights], default=0)
        best = max(self.weights, key=self.weights.get)
        pair = max((most, 1), (longest, 2))
        return self.proj(x) * weight * len(name) + last + len(best) + pair[0] + max(x.sum(), x.mean())
""",
        run="(Fusion(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
