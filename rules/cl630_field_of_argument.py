"""A number or text in an object made for each call compiles the function again for each value that is baked in.

## What it does
Finds, in a compiled function, the read of an attribute of an argument for which the code that calls it makes an object
each time, a dataclass, a named tuple or another, with another value in that attribute: a text, a list of settings, a
number that a loop is unrolled by or that picks from a list, a float for an operation that keeps numbers as they are.
The same of an entry of a dict that is written down for each call, and of an object that is put on the model between two
calls, `net.processor = Reweight(token)`, where any int counts. Under `dynamic=False` any number does.

## Why it costs
Dynamo looks into the object and guards on what the function reads there, `plan.kind == 'prefill'`. A new text, or
number that has to be a constant, compiles the function again, up to the recompile limit of 8, and so does any int of an
object that a module keeps. Other numbers become inputs after one, none does under `dynamic=False`. What the function
does not read costs nothing. Measured on torch 2.13.

## Write instead
Keep in the object what the graph can take, tensors, and decide about the rest outside of the compiled function:

    step = prefill if plan.kind == "prefill" else decode        # one compiled function for each

For the bound of a loop, compile what the loop calls, or use one operation with a mask up to the longest.

## Limits
Only calls in the project are seen. A text out of two is not reported: it costs one compilation for each.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.kept_numbers import keeper_of, stay_constant
from compilelint.static.facts.number_uses import computed_with, is_list_of_settings, needed_as_constant, spellings
from compilelint.static.facts.state import (
    first_read,
    is_integer,
    is_text,
    of_module_or_global,
    own_nodes,
    same_place,
    used_at,
)
from compilelint.static.values import UNKNOWN, Scalar, options

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.Attribute, ast.Subscript),
    syntax=lambda node, module: isinstance(node, (ast.Attribute, ast.Subscript)) and _may_be_field(node.value),
    entered=True,
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield where an attribute that differs from call to call is read, or has to be a constant."""
    if not isinstance(node, (ast.Attribute, ast.Subscript)) or not isinstance(node.ctx, ast.Load):
        return
    place = view.made_with(node)
    use = _baked_in(node, view) if place is not None else None
    if place is None or use is None:
        return
    where, why = use
    yield Hit(
        where,
        f"`{view.text(node)}` is another value in each new object ({view.where(place)}): {why}, so this function"
        " compiles again for each",
        f"decide about `{view.text(node)}` outside of the compiled function, or pass a tensor",
        "likely",
    )


def _may_be_field(owner: ast.expr) -> bool:
    return isinstance(owner, (ast.Name, ast.Attribute))


def _baked_in(node: ast.Attribute | ast.Subscript, view: View) -> tuple[ast.expr, str] | None:
    """Where and why the value becomes a constant of the graph; None if it does not."""
    if first_read(node, view) is not node:
        return None
    value, places = view.kind(node), spellings(node, view)
    if stay_constant(options(value), view):
        return computed_with(node, places, view) or node, "no number becomes a symbol here"
    if is_text(value) or (value == UNKNOWN and _compared_with_text(places, view)):
        return used_at(node, view), "Dynamo guards on a text"
    if all(map(is_list_of_settings, options(value))):
        return used_at(node, view), "Dynamo guards on what is in a list"
    if (is_integer(value) or (value == UNKNOWN and _compared_with_int(places, view))) and of_module_or_global(
        node, view
    ):
        return used_at(node, view), "Dynamo keeps the ints of what a module holds as they are"
    if is_integer(value) or value == UNKNOWN:
        return next(needed_as_constant(places, view), None)
    if all(isinstance(option, Scalar) and option.type in ("float", "number") for option in options(value)):
        keeper = keeper_of(places, view)
        return (keeper, "this operation takes a number as it is") if keeper is not None else None
    return None


def _compared_with_text(places: list[ast.expr], view: View) -> bool:
    return any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in _compared(places, view))


def _compared_with_int(places: list[ast.expr], view: View) -> bool:
    return any(is_integer(view.kind(side)) for side in _compared(places, view))


def _compared(places: list[ast.expr], view: View) -> Iterator[ast.expr]:
    """What stands on the sides of comparisons with one of some places."""
    for part in own_nodes(view.function):
        sides = (part.left, *part.comparators) if isinstance(part, ast.Compare) else ()
        if any(same_place(side, place) for side in sides for place in places):
            yield from sides


BAD = (
    Example(
        code="""\
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Plan:
    kind: str
    width: int
    rate: float = 0.5


class Spans(NamedTuple):
    starts: torch.Tensor
    longest: int


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, plan):
        x = F.dropout(self.proj(x) * plan.width, plan.rate)  # ~
        if plan.kind == "prefill":  # ~
            return x.cumsum(0)
        return x if plan.kind == "mixed" else x * 2


def pool(x, spans):
    total = torch.zeros_like(x)
    for step in range(spans.longest):  # ~
        total = total + x * step
    return total + spans.starts.sum()


class Server:
    def __init__(self):
        self.attention = torch.compile(Attention())
        self.pool = torch.compile(pool)

    def plans(self, count):
        for i in range(count):
            yield Plan("prefill" if i == 0 else "mixed" if i % 2 else "decode", width=i, rate=i / 10)

    def serve(self, x, count):
        for plan in self.plans(count):
            x = self.attention(x, plan)
        return x

    def spread(self, x, lengths):
        starts = torch.tensor([0, *lengths]).cumsum(0)
        return self.pool(x, Spans(starts, max(lengths)))

    def __call__(self, x, lengths):
        return self.serve(x, len(lengths)) + self.spread(x, lengths)
""",
        run="(Server(), [(torch.ones(2, 4), list(range(2, n))) for n in range(5, 8)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # Under `dynamic=False` no number becomes an input.
        code="""\
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Request:
    temperature: float
    top: int


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 8)

    def forward(self, x, request):
        y = self.proj(x) / request.temperature  # ~
        return torch.topk(y, request.top)[0].sum(-1, keepdim=True) + x  # ~


class Server:
    def __init__(self):
        self.head = torch.compile(Head().requires_grad_(False), dynamic=False)

    def __call__(self, x, temperatures):
        for i, temperature in enumerate(temperatures):
            x = self.head(x, Request(temperature, i + 1))
        return x
""",
        run="(Server(), [(torch.ones(2, 4), [0.1, 0.2, 0.3, 0.4])])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # An object that is put on the model between two calls: any int in it is a constant.
        code="""\
import torch
from torch import nn


class Steering:
    def __init__(self, layer, gain):
        self.layer = layer
        self.gain = gain

    def apply(self, x, i):
        return x * self.gain if i == self.layer else x  # ~


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.steering = None

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if self.steering is not None:
                x = self.steering.apply(x, i)
        return x


class Probe:
    def __init__(self):
        self.tower = Tower().requires_grad_(False)
        self.compiled = torch.compile(self.tower)

    def __call__(self, x, layer):
        self.tower.steering = Steering(layer, 2.0)
        return self.compiled(x)
""",
        run="(Probe(), [(torch.ones(2, 4), n) for n in range(4)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # A dict is looked into as an object is.
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, meta):
        x = F.dropout(self.proj(x), meta["rate"])  # ~
        if meta["phase"] == "decode":  # ~
            x = x * 2
        count = meta["count"]
        for i in range(count):  # ~
            x = x + i
        return x / len(meta["marks"]) + meta["slots"].sum()  # ~


class Runner:
    def __init__(self):
        self.block = torch.compile(Block().requires_grad_(False))

    def __call__(self, x, batches):
        for step, batch in enumerate(batches):
            meta = {"phase": batch["phase"], "count": len(batch["ids"]), "slots": torch.arange(4), "rate": step / 10}
            meta["marks"] = [i % 2 for i in range(len(batch["ids"]))]
            x = self.block(x, meta)
        return x


def batches():
    phases = ("prefill", "decode", "mixed", "decode")
    return [{"phase": phase, "ids": list(range(2 + n))} for n, phase in enumerate(phases)]
""",
        run="(Runner(), [(torch.ones(2, 4), batches())])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # What differs in the new object is a tensor.
        code="""\
import torch
from torch import nn


class Steering:
    def __init__(self, direction, layer=1):
        self.direction = direction
        self.layer = layer

    def apply(self, x, i):
        return x + self.direction if i == self.layer else x


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.steering = Steering(torch.zeros(4))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = self.steering.apply(layer(x), i)
        return x


class Probe:
    def __init__(self):
        self.tower = Tower().requires_grad_(False)
        self.compiled = torch.compile(self.tower)

    def __call__(self, x, scale):
        self.tower.steering = Steering(torch.ones(4) * scale)
        return self.compiled(x)
""",
        run="(Probe(), [(torch.ones(2, 4), n) for n in range(4)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        code="""\
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Plan:
    kind: str
    starts: torch.Tensor
    tag: str
    longest: int = 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, plan):
        x = self.proj(x) + plan.starts.sum()
        for step in range(plan.longest):
            x = x * (step + 1)
        return x.cumsum(0) if plan.kind == "prefill" else x * 2


class Server:
    def __init__(self, kind="prefill"):
        self.attention = torch.compile(Attention().requires_grad_(False))
        self.kind = kind

    def __call__(self, x, lengths):
        for i, length in enumerate(lengths):
            x = self.attention(x, Plan(self.kind, torch.arange(4) * length, f"request {i}"))
        return x
""",
        run="(Server(), [(torch.ones(2, 4), [2, 3, 4, 5]) for _ in range(2)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        # Tensors, settings that stay, and a number that may be a symbol.
        code="""\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, meta):
        x = self.proj(x) + meta["slots"][: meta["count"]].sum()
        if meta["phase"] == "decode":
            x = x * meta["scale"]
        return x


class Runner:
    def __init__(self, phase="decode"):
        self.block = torch.compile(Block().requires_grad_(False), dynamic=True)
        self.phase = phase

    def __call__(self, x, steps):
        for step in range(2, steps):
            meta = {"phase": self.phase, "count": step, "slots": torch.arange(8) * step, "scale": 0.5, "tag": str(step)}
            x = self.block(x, meta)
        return x
""",
        run="(Runner(), [(torch.ones(2, 4), 6)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
