"""A number, a flag or a list that driving code passes with another value next time compiles the function again.

## What it does
Finds, in a compiled function, the first use of a parameter for which the code that calls it passes a number that a loop
turns or that is read back from a tensor, a flag that is on in one call and off in another, lists and dicts that differ
in length, keys or constants or that a loop makes longer, several functions, and functions that carry another number
with them (`partial`, closures). A parameter that is handed on to another function is followed there.

## Why it costs
The first call bakes the value into the graph and guards on it, `guidance == 1.0`. A number becomes an input when it is
found changed, which costs one more compilation of the whole function (one for each value with `dynamic=False`, none
with `dynamic=True`). A float that goes into `F.dropout`, `math.exp` and other operations that keep numbers as they are
costs one for each value whatever `dynamic` says. A flag costs one for its other side, a list or dict one for each
length and each set of keys, up to the recompile limit. What costs one compilation in all is reported as possible only:
a warm-up with both values hides it. Measured on torch 2.13.

## Write instead
Pass the number as a tensor, or compile with `dynamic=True`:

    for t in torch.linspace(0, 1, steps):      # not for i in range(steps): model(x, i / steps)
        x = model(x, t)

Decide about flags and lists outside: one compiled callable for each, or all of the results and a choice among them.

## Limits
Only calls in the project are seen, and not loops over up to three values that are written down. A number that pins a
loop or picks from a list compiles again for each value, see CL606.

## References
PyTorch documentation "Dynamic shapes" and "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, Passing, View, Watch
from compilelint.static.facts.collections_passed import is_collection, reads_entries
from compilelint.static.facts.kept_numbers import keeper_of, stay_constant
from compilelint.static.facts.number_uses import is_list_of_settings
from compilelint.static.facts.state import first_use, own_nodes, same_place
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Const,
    External,
    Function,
    Mapping,
    Scalar,
    Sequence,
    Value,
    options,
)

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Name,), entered=True)
FEW = 2
"""Of so many functions each is compiled once, and that was it."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first use of a parameter that is another number, flag or collection in another call."""
    passed = view.passed(node.id) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ()
    if not passed or not isinstance(node, ast.Name) or first_use(node, view) is not node or _unrolls(node, view):
        return
    found = [(passing, way) for passing in passed if (way := _variation(passing, node, view)) is not None]
    if not found:
        return
    passing, (what, again, more_than_once) = max(found, key=lambda pair: pair[1][2])
    yield Hit(
        node,
        f"`{node.id}` is {what} in other calls ({view.where(passing.place)}): Dynamo guards on it, so this function"
        f" compiles again {again}",
        "pass a number as a tensor or compile with `dynamic=True`; decide about flags and lists outside of the compiled"
        " function",
        "likely" if more_than_once else "possible",
    )


def _unrolls(node: ast.Name, view: View) -> bool:
    """Whether it is the bound of a loop, which CL606 speaks about."""
    around = next(view.parents(node), None)
    return isinstance(around, ast.Call) and ast.unparse(around.func) == "range"


def _bounds_loop(node: ast.Name, view: View) -> bool:
    """Whether a `range(…)` of this function is given the variable, so that it is an int and pinned to its value."""
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Name)
        and part.func.id == "range"
        and any(same_place(argument, node) for argument in part.args)
        for part in own_nodes(view.function)
    )


_AS_INPUT = "with it as an input"
Variation = tuple[str, str, bool]
"""How values differ and how often that compiles, in words, and whether that is more than once."""


def _variation(passing: Passing, node: ast.Name, view: View) -> Variation | None:
    """How the values of several calls differ."""
    values = passing.values
    if passing.varies and all(value == UNKNOWN for value in values):
        values = (view.kind(node),)
    kinds = [option for value in values for option in options(value)]
    if passing.grows and not reads_entries(node, view):
        return "longer", "for each length", True
    if 0 in passing.sizes and is_collection(passing, node, view):
        return None  # CL634
    if len(set(kinds)) > FEW and all(map(_is_function, kinds)):
        return "another function", "for each", True
    if passing.carried:
        constant = stay_constant(passing.carried, view)
        return "a function with another number in it", "for each new one" if constant else _AS_INPUT, constant
    if passing.varies and UNKNOWN in kinds and _bounds_loop(node, view):
        return "another number", "for each new one, which a loop here is unrolled by", True
    kept = keeper_of([node], view)
    if all(map(_is_number, kinds)):
        return _of_numbers(passing, kinds, view, kept=kept is not None)
    if kept is not None and passing.varies and all(kind == UNKNOWN or _is_number(kind) for kind in kinds):
        of_functional = view.callee(kept).startswith("torch.nn.functional.")  # of which none takes a tensor there
        return _of_numbers(passing, kinds, view, kept=True) if of_functional else None
    if all(isinstance(kind, (Const, Scalar)) and kind.type == "bool" for kind in kinds):
        both = {Const(True), Const(False)} <= set(kinds) or (passing.varies and Scalar("bool") in kinds)
        return ("the other flag", "for the other side", False) if both else None
    if passing.varies and all(map(is_list_of_settings, kinds)):
        return "a list of other values", "for each length and set of values", True
    if all(isinstance(kind, Sequence) for kind in kinds):
        return _of_sequences([kind for kind in kinds if isinstance(kind, Sequence)])
    if all(isinstance(kind, Mapping) for kind in kinds):
        return _of_mappings([kind for kind in kinds if isinstance(kind, Mapping)])
    return None


def _is_function(kind: Value) -> bool:
    """A function of a library or at module level: one that is made anew each time has the same code."""
    return isinstance(kind, External) or (isinstance(kind, Function) and kind.closure is None)


def _of_numbers(passing: Passing, kinds: list[Value], view: View, *, kept: bool) -> Variation | None:
    read_back = any(isinstance(kind, Scalar) and kind.origin == "tensor" for kind in kinds)
    several = len({kind for kind in kinds if isinstance(kind, Const)}) > 1
    if (view.options.get("dynamic") is True and not kept) or not (passing.varies or read_back or several):
        return None
    if kept:
        return "another number", "for each new one, which an operation here takes as it is", True
    constant = stay_constant(kinds, view)
    return "another number", "for each new one" if constant else _AS_INPUT, constant


def _is_number(kind: Value) -> bool:
    if isinstance(kind, Scalar):
        return kind.type in ("int", "float", "number") and kind.origin != "shape"
    return isinstance(kind, Const) and kind.type in ("int", "float")


def _of_sequences(kinds: list[Sequence]) -> Variation | None:
    items = [kind.items for kind in kinds if kind.items is not None and kind.form in ("list", "tuple")]
    if len(items) < len(kinds):
        return None
    others = {tuple(part if isinstance(part, Const) else UNKNOWN for part in parts) for parts in items}
    if len({len(part) for part in items}) > 1:
        return "longer or shorter", "for each length", len(others) > 2
    return ("a list of other values", "for others", len(others) > 2) if len(others) > 1 else None


def _of_mappings(kinds: list[Mapping]) -> Variation | None:
    if any(kind.element != UNKNOWN for kind in kinds):
        return None
    keys = {frozenset(key for key, _ in kind.entries) for kind in kinds}
    if len(keys) > 1:
        return "a dict with other keys", "for each set of keys", len(keys) > 2
    missing = {frozenset(key for key, value in kind.entries if value == NONE) for kind in kinds}
    return ("a dict with None in other places", "for each", len(missing) > 2) if len(missing) > 1 else None


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def guide(self, x, weight):
        return x + weight * (self.net(x) - x)  # ~

    def forward(self, x, weight):
        return self.guide(x, weight)


def tap(x, layers):
    return [x * i for i in layers]  # ~


class Sampler:
    def __init__(self):
        self.net = torch.compile(Denoiser().requires_grad_(False), dynamic=False)
        self.tap = torch.compile(tap)

    def first(self, x):
        return self.tap(x, [0])

    def both(self, x):
        return self.tap(x, layers=[0, 1]), self.tap(x, layers=[1, 2, 3])

    def __call__(self, x):
        for i in range(4):
            x = self.net(x, 1.0 + i)
        return self.first(x), self.both(x)
""",
        run="(Sampler(), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""\
import torch
import torch.nn.functional as F


@torch.compile
def mix(x, past, parts):
    x = x * 2
    for p in past:  # ~
        x = x + 0.1 * p
    for part in parts.values():  # ~
        x = x + part
    return x


@torch.compile
def activate(x, function):
    return function(x)  # ~


@torch.compile(dynamic=True)
def corrupt(x, rate):
    return F.dropout(x, p=rate / 2)  # ~


def run(x):
    past, parts = (), {}
    for i in range(4):
        x = corrupt(x, 0.1 * i)
        x = mix(x, past, parts)
        past = (*past, x)
        parts[f"p{i}"] = x
    return [activate(x, function) for function in (torch.relu, torch.tanh, torch.sin, torch.cos)]
""",
        run="(run, [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # What a function carries with it is a number too.
        code="""\
from functools import partial

import torch


@torch.compile(dynamic=False)
def shaped(x, shape):
    return shape(x) + 1  # ~


def scaled(x, by):
    return x * by


def pull(by):
    def towards(x):
        return x - by * x

    return towards


def sample(x):
    for i in range(3):
        x = shaped(x, partial(scaled, by=0.5 + i))
    for by in (0.1, 0.3, 0.5, 0.7):
        x = shaped(x, pull(by))
    return x
""",
        run="(sample, [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x, t, weight=1.5, keep=False, layers=(0, 1)):
        h = x + weight * t * (self.net(x) - x)
        return h * len(layers) if keep else h


def make(steps=4):
    net = torch.compile(Denoiser().requires_grad_(False))
    free = torch.compile(lambda x, scale: x * scale, dynamic=True)

    def sample(x, weight=1.5):
        for t in torch.linspace(0, 1, steps):
            x = net(x, t, weight, False, (0, 1))
        for i in range(2, steps):
            x = free(x, i)
        return net(x, t, keep=False, layers=(0, 1))

    return sample
""",
        run="(make(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        # One more compilation in all, with the number as an input: possible only.
        code="""\
import torch


@torch.compile
def step(x, scale, keep):
    return x * scale if keep else x


def run(x):
    for i in range(4):
        x = step(x, 0.5 + i, True)
    return step(x, 0.5, False)
""",
        run="(run, [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # Without `dynamic=False` such a number becomes an input, and a tensor never is anything else.
        code="""\
import torch


@torch.compile
def shaped(x, shape):
    return shape(x) + 1


@torch.compile(dynamic=False)
def fixed(x, shape):
    return shape(x) + 1


def pull(by, bias=0.5):
    def towards(x):
        return x - by * x + bias

    return towards


def sample(x):
    for i in range(4):
        x = shaped(x, pull(0.5 + i))
    for by in torch.linspace(0, 1, 4):
        x = fixed(x, pull(by))
    return x
""",
        run="(sample, [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)
