"""A function marked `assume_constant_result` that reads changing state answers once and for all.

## What it does

Finds, in compiled code, a call of a project function decorated with `torch.compiler.assume_constant_result` that reads
an attribute or a global which other functions change.

## Why it costs

Dynamo calls such a function once, while it traces, and puts what it returned into the graph. It sets no guard on what
the function read, so the compiled code goes on with the first answer when the state has changed. No error is raised
and nothing compiles again, in default mode and with `fullgraph=True`.

## Write instead

- Take the decorator away: Dynamo traces the function and guards on the attributes and globals that it reads.
- Or hand the value in as an argument, as a tensor if it changes often.
- For what does change but must be frozen, call `torch.compiler.reset()` after the change.

## Limits

Only changes written in the file of the calling code are seen. A function whose state is set in `__init__` alone is
constant and not reported. Measured on torch 2.13.

## References

PyTorch documentation, `torch.compiler.assume_constant_result`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.changing import changing_reads
from compilelint.static.facts.questions import last_decorator_names
from compilelint.static.values import Function, options

HAZARD = "stale-result"
WATCH = Watch(nodes=(ast.Call,), kinds=lambda kind: isinstance(kind, Function) and _is_assumed(kind.ref.node))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call, naming the first changing thing that the function reads."""
    if not isinstance(node, ast.Call):
        return
    for function in _assumed_constant(view, node):
        changing = next(changing_reads(function, view.module), None)
        if changing is not None:
            yield Hit(
                node,
                f"`{function.name}` is assumed constant but reads `{changing}`, which changes: the graph keeps the"
                " first answer",
                "take `assume_constant_result` away, or pass the value in as an argument",
                confidence="likely",
            )


def _assumed_constant(view: View, call: ast.Call) -> Iterator[ast.FunctionDef]:
    for option in options(view.kind(call.func)):
        function = view.definition(option) if isinstance(option, Function) else None
        if isinstance(function, ast.FunctionDef) and _is_assumed(function):
            yield function


def _is_assumed(function: ast.AST) -> bool:
    return "assume_constant_result" in last_decorator_names(function)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = 1.0
        self.proj = nn.Linear(4, 4)

    def set_temperature(self, temperature):
        self.temperature = temperature

    @torch.compiler.assume_constant_result
    def scale(self):
        return 1.0 / self.temperature

    def forward(self, x):
        return self.proj(x) * self.scale()  # ~


class Sampler:
    def __init__(self):
        self.head = Head()
        self.compiled = torch.compile(self.head)

    def __call__(self, x, temperature):
        self.head.set_temperature(temperature)
        return self.compiled(x)
""",
        run="(Sampler(), [(torch.ones(2, 4), temperature) for temperature in (1.0, 2.0)])",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn

LIMITS = {"clip": 1.0}


@torch.compiler.assume_constant_result
def clip():
    return LIMITS["clip"]


class Layer(nn.Module):
    def forward(self, x):
        return x.clamp(max=clip())  # ~


class App:
    def __init__(self):
        self.layer = torch.compile(Layer())

    def __call__(self, x, limit):
        LIMITS["clip"] = limit
        return self.layer(x)
""",
        run="(App(), [(torch.full((2,), 9.0), limit) for limit in (1.0, 2.0)])",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
    Example(
        code="""\
import torch

STEPS = {"done": 1}


@torch.compiler.assume_constant_result
def done():
    return STEPS["done"]


@torch.compile
def warm_up(x):
    return x * done()  # ~


def step(x):
    STEPS["done"] += 1
    return warm_up(x)
""",
        run="(step, [(torch.ones(2),), (torch.ones(2),)])",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn

WIDTHS = {"small": 4, "large": 8}


@torch.compiler.assume_constant_result
def width(name):
    return WIDTHS[name]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = 10_000.0
        self.temperature = 1.0

    @torch.compiler.assume_constant_result
    def frequencies(self):
        return self.base ** -0.5

    def scale(self):
        return 1.0 / self.temperature

    def forward(self, x):
        return x * self.frequencies() * width("small") * self.scale()


class Sampler:
    def __init__(self):
        self.layer = Layer()
        self.compiled = torch.compile(self.layer)

    def __call__(self, x, temperature):
        self.layer.temperature = temperature
        return self.compiled(x)
""",
        run="(Sampler(), [(torch.ones(2, 4), temperature) for temperature in (1.0, 1.0)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
