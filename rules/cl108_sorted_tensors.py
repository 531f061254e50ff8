"""Sorting tensors with Python's sort splits the graph.

## What it does
Reports `sorted(...)` and `.sort()` of tensors, of objects of the project or of modules, of pairs with one in them
(`sorted(layers.items())`), and with a `key` that gives such; `max` or `min` of them with `default=` or `key=`, of
objects also without; `heapq.nlargest` and `nsmallest`. Of sizes as well, `sorted([x.shape[0], y.shape[0]])`, or of what
is computed from one.

## Why it costs
The order depends on values that exist only once the graph has run, and Python's sort asks for a truth per comparison.
Dynamo sorts constants only (GB0207; GB0059 for iterating a tensor into `sorted`): numbers, texts and tuples of them. It
does not ask an object's `__lt__`, for `max` and `min` neither (GB0059). Those with keyword arguments it folds for
constants and does nothing else with (GB0193), `heapq` it leaves to Python (GB0059). `fullgraph=True` raises. Sizes are
constants on the first call only: when a second size comes, they are symbols, and the sort splits the graph from then
on.

## Write instead
    values, order = torch.stack(items).sort()
    best = torch.stack(items).max()
    first = sorted(jobs, key=lambda job: job.size)[0]  # a number per object: compiles

## Limits
Plain `max(a, b)` and `min(list_of_tensors)` compile to `torch.maximum` and `torch.minimum`, and of sizes to a symbol.
With sizes that never change nothing breaks. Measured on torch 2.13.
Torch 2.14 compiles `max` and `min` with a `default`, and sorts pairs whose first parts differ.

## References
torch/_dynamo/graph_break_registry.json: GB0059, GB0193, GB0207.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.objects import is_object
from compilelint.static.facts.tensors import data
from compilelint.static.values import (
    UNKNOWN,
    Mapping,
    Scalar,
    Sequence,
    Tensor,
    Value,
    element_of,
    gives_tensors,
    join_all,
    options,
    tensor_certainty,
)

HAZARD = "graph-break"
EXTREMES = frozenset({"builtins.max", "builtins.min"})
LARGEST = frozenset({"heapq.nlargest", "heapq.nsmallest"})
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"sorted", "sort", "max", "min", "nlargest", "nsmallest"}))
INSTEAD = "stack them and order on the device: `torch.stack(items).sort()`, `.max()`, `.min()`"
BY_NUMBER = "sort by a number or text of each, `sorted(items, key=lambda item: item.size)`, or outside compiled code"
BY_FIRST = "name what to order by, which compiles: `key=lambda pair: pair[0]`"
CONSTANTS = ("set", "range")
"""What Dynamo makes constants of the sizes in."""
OF_SIZES = "order what does not vary, take plain `max(a, b)` and `min(a, b)`, which compile, or sort before the call"
BY_LOOP = "sort, which compiles by a number or text of each: `sorted(items, key=lambda item: item.size)[-1]`, or loop"


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that has Python compare what Dynamo doesn't."""
    if not isinstance(node, ast.Call):
        return
    compared = values_compared(node, view)
    confidence = next((found for value in compared if (found := of_tensors(value, view))), None)
    text = view.text(node)
    if confidence is not None and all(begins_with_text(value) for value in compared):
        message = f"`{text}` has Python order pairs with a tensor in them, and Dynamo orders constants only: the graph"
        yield Hit(node, f"{message} splits here", BY_FIRST, confidence)
    elif confidence is not None:
        message = f"`{text}` has Python order tensors by value, which Dynamo cannot trace: the graph splits here"
        yield Hit(node, message, INSTEAD, confidence)
    elif any(compares_objects(value, view) for value in compared) or only_objects(picked_from(node, view), view):
        picks = view.callee(node) in EXTREMES
        does = "picks from objects by keyword" if picks and compared else "has Python order objects"
        message = f"`{text}` {does}, which Dynamo does for constants only: the graph splits here"
        yield Hit(node, message, BY_LOOP if picks else BY_NUMBER, "likely")
    elif orders_sizes(node, compared, view):
        message = f"`{text}` has Python order sizes: once one varies, it is no constant, and the graph splits here"
        yield Hit(node, message, OF_SIZES, "likely")


def values_compared(node: ast.Call, view: View) -> tuple[Value, ...]:
    """What must be constants for the call to be traced: the items, or what its key gives for them, or both."""
    callee, keywords = view.callee(node), {keyword.arg for keyword in node.keywords}
    key = (view.handed_back(node),) if "key" in keywords else ()
    if callee == "list.sort" and isinstance(node.func, ast.Attribute):
        return key or (items_of(view.kind(node.func.value)),)
    if callee == "builtins.sorted" and node.args:
        return key or (items_of(view.kind(node.args[0])),)
    if callee in LARGEST and len(node.args) > 1:
        return items_of(view.kind(node.args[1])), *key
    not_traced = {"key"} if view.torch >= (2, 14) else {"key", "default"}
    if callee in EXTREMES and keywords & not_traced and len(node.args) == 1:
        return items_of(view.kind(node.args[0])), *key
    return ()


def orders_sizes(node: ast.Call, compared: tuple[Value, ...], view: View) -> bool:
    """Whether numbers that are compared come from sizes. Of an iterator, `max` and `min` are another rule's, CL529."""
    not_asked = {*CONSTANTS, "iterator", "generator"} if view.callee(node) in EXTREMES else CONSTANTS
    given = options(view.kind(node.args[0])) if node.args else ()
    if any(isinstance(source, Sequence) and source.form in not_asked for source in given):
        return False
    return any(is_size(option, view) for value in compared for option in options(value))


def is_size(value: Value, view: View) -> bool:
    """Whether a value is computed from a size, or is a tuple with one: from torch 2.14 on, as its first item."""
    if isinstance(value, Sequence):
        items = value.items or ()
        return any(is_size(item, view) for item in (items[:1] if view.torch >= (2, 14) else items))
    return isinstance(value, Scalar) and value.origin == "shape"


def picked_from(node: ast.Call, view: View) -> tuple[Value, ...]:
    """What `max` and `min` compare two by two: the arguments, or the items of the only one.

    Numbers and tensors Dynamo compares, constants Python does for it; a single item is compared with nothing.
    """
    if view.callee(node) not in EXTREMES or any(isinstance(argument, ast.Starred) for argument in node.args):
        return ()
    if len(node.args) > 1:
        return tuple(map(view.kind, node.args))
    options_ = options(view.kind(node.args[0])) if node.args else ()
    single = any(isinstance(option, Sequence) and option.items and len(option.items) == 1 for option in options_)
    return () if single else tuple(items_of(option) for option in options_)


def only_objects(values: tuple[Value, ...], view: View) -> bool:
    """Whether one of the values is an object whatever it is."""
    return any(all(compares_objects(option, view) for option in options(value)) for value in values)


def items_of(value: Value) -> Value:
    """What iterating over `value` gives: of a tensor tensors, of a dict its keys, which are not known."""
    return join_all(
        option
        if tensor_certainty(option) == "certain"
        else UNKNOWN
        if isinstance(option, (Mapping, Tensor))  # that Python's sort is handed a tensor must be certain
        else element_of(option)
        for option in options(value)
    )


def of_tensors(value: Value, view: View) -> Confidence | None:
    """How sure it is that a value is a tensor, or a tuple with one in it, which torch 2.14 compares as Python does."""
    sure = data(value)
    for option in options(value) if view.torch < (2, 14) else ():
        if isinstance(option, Sequence) and option.items:
            sure = sure or next((found for item in option.items if (found := data(item))), None)
    return sure


def begins_with_text(value: Value) -> bool:
    """Whether a value is a tuple that begins with a text or number, as the items of a dict do."""
    items = [option.items if isinstance(option, Sequence) else None for option in options(value)]
    return all(parts is not None and parts != () and not gives_tensors(parts[0]) for parts in items)


def compares_objects(value: Value, view: View) -> bool:
    """Whether a value may be an object, or a tuple with one in it, which torch 2.14 compares as Python does."""
    for option in options(value):
        if isinstance(option, Sequence):
            if view.torch < (2, 14) and any(compares_objects(item, view) for item in option.items or ()):
                return True
        elif is_object(option, view):
            return True
    return False


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Beams(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, candidates: list[torch.Tensor]):
        scores = [self.score(c).sum() for c in candidates]
        best = sorted(scores, reverse=True)  # ~
        return best[0] * 2
""",
        run="(Beams(), [([torch.ones(2, 4), torch.zeros(2, 4)],)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def largest(x):
    losses = [row.square().mean() for row in x.unbind(0)]
    return max(losses, default=0) + x  # ~
""",
        run="(largest, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


class Beam:
    def __init__(self, tokens, length):
        self.tokens = tokens
        self.length = length

    def __lt__(self, other):
        return self.length < other.length


def norm(row):
    return row.square().sum()


@torch.compile
def by_norm(x):
    rows = sorted(x.unbind(0), key=norm)  # ~
    return rows[0] * 2


@torch.compile
def strongest(x):
    best = max(range(2), key=lambda i: x[i].sum())  # ~
    return x[best] * 2


@torch.compile
def shortest(x):
    beams = [Beam(x[0], 3), Beam(x[1], 2)]
    beams.sort()  # ~
    return beams[0].tokens * 2


@torch.compile
def longer(x):
    beam = max(Beam(x[0], 3), Beam(x[1], 2))  # ~
    return beam.tokens * 2


@torch.compile
def cheapest(x):
    name, cost = min({"a": 1, "b": 2}.items(), key=lambda entry: entry[1])  # ~ CL529
    return x * cost


def all_of_them(x):
    return by_norm(x), strongest(x), shortest(x), longer(x), cheapest(x)
""",
        run="(all_of_them, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleDict({"b": nn.Linear(4, 4), "a": nn.Linear(4, 4)})

    def forward(self, x, **extra):
        for _, stage in sorted(self.stages.items()):  # ~
            x = stage(x)
        states = {"high": x + 1, "low": x - 1}
        for name, state in sorted(states.items()):  # ~
            x = x + len(name) * state
        return x
""",
        run="(Stages(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Masking(nn.Module):
    def __init__(self):
        super().__init__()
        self.shares = ((1, 0.3), (2, 0.7))

    def forward(self, x):
        parts = []
        for length, share in self.shares:
            parts.append([length, int(x.shape[0] * share)])
        parts = sorted(parts, key=lambda part: part[1])  # ~
        fewest = sorted(x.shape)[0]  # ~
        return x[: parts[0][1]] * parts[0][0] + fewest
""",
        run="(Masking(), [(torch.ones(10, 4),), (torch.ones(20, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
from typing import NamedTuple

import torch
from torch import nn


class Span(NamedTuple):
    start: int
    end: int


class Beams(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)
        self.order = {"b": 1, "a": 0}

    def forward(self, candidates: list[torch.Tensor]):
        scores = [self.score(c).sum() for c in candidates]
        names = sorted(self.order)
        for name, place in sorted(self.order.items()):
            names[place] = name
        longest = max([[1, 2], [1]], key=lambda part: len(part))
        sizes = [c.shape[0] for c in candidates]
        place = sorted(range(len(sizes)), key=lambda i: -i)[0] + sorted({sizes[0], 2})[0]
        first, second = sorted([(1, scores[0]), (0, scores[1])], key=lambda pair: pair[0])
        most = max(scores) + max(scores[0], scores[1]) + max(3, len(names), default=1) if False else min(scores)
        values, _ = torch.stack(scores).sort(descending=True)
        spans = sorted([Span(2, 3), Span(0, 1)])
        most = most + max(spans).start + spans[0].end
        return values[0] + most + first[1] + place + max(sizes[0], sizes[1]) + longest[0]
""",
        run="(Beams(), [([torch.ones(2, 4), torch.zeros(2, 4)],)])",
        default="clean",
        fullgraph="clean",
    ),
)
