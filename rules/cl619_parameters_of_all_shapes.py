"""A compiled function that a loop over a model's parameters calls compiles again for each shape among them.

## What it does
Finds the first read of an argument of a compiled function that the driving loop takes from `model.parameters()`,
`named_parameters()` or an optimizer's `group["params"]`, alone or in a list of one, or from a list or dict that
the class fills with them.

## Why it costs
Dynamo takes the shape of an `nn.Parameter` for fixed (`torch._dynamo.config.force_parameter_static_shapes`): it does
not make sizes symbols, however many shapes it has seen. Each new shape compiles the function again, and behind eight of
them the recompile limit is hit and the rest runs uncompiled for good. Measured on torch 2.13.

## Write instead
- Pass the plain tensor, `p.data` or `p.detach()`: its sizes become symbols with the second shape.
- Or group the parameters by shape and stack each group, one call per group.
- Or set `torch._dynamo.config.force_parameter_static_shapes = False`, or compile the whole step.

## References
PyTorch documentation "Dynamic shapes"; config `force_parameter_static_shapes`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import first_read

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Name,), entered=True)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of an argument that runs through a model's parameters."""
    passed = view.passed(node.id) if isinstance(node, ast.Name) else ()
    passing = next((passing for passing in passed if passing.of_model), None)
    if passing is None or not isinstance(node, ast.Name) or first_read(node, view) is not node:
        return
    if view.options.get("dynamic") is not True:
        yield Hit(
            node,
            f"`{node.id}` is each parameter of a model in turn ({view.where(passing.place)}): Dynamo keeps"
            " the shape of a parameter fixed, so this function compiles again for each shape",
            f"pass `{node.id}.detach()`, whose sizes become symbols, or stack parameters of one shape",
            "likely",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


@torch.compile
def shrunk(weight):
    return weight / weight.norm().clamp(min=1.0)  # ~


def make():
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 6), nn.Linear(6, 3))

    def norms(x):
        total = x.sum()
        for weight in model.parameters():
            total = total + shrunk(weight).sum()
        return total

    return norms
""",
        run="(make(), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # The parameters are kept in dicts, by shape and by name.
        code="""\
import torch
from torch import nn


@torch.compile
def orthogonalise(xs, lr):
    return [x - lr * x / (x.norm() + 1e-7) for x in xs]  # ~


@torch.compile
def shrink(p, by):
    return p * by  # ~


@torch.compile
def adam(p, state, lr):
    state.mean = state.mean * 0.9 + p  # ~
    return p - lr * state.mean


class State:
    def __init__(self, p):
        self.mean = torch.zeros_like(p)


class Optimizer:
    def __init__(self, model):
        self.groups = {}
        for p in model.parameters():
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.slots = {name: (p, State(p)) for name, p in model.named_parameters()}

    @torch.no_grad()
    def step(self):
        for shape, group in self.groups.items():
            for p, new in zip(group, orthogonalise(group, 0.1)):
                p.copy_(new)
            for p in group:
                p.copy_(shrink(p, 0.9))
        for name, (p, state) in self.slots.items():
            p.copy_(adam(p, state, 0.1))


def train():
    model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.Linear(6, 3, bias=False), nn.Linear(3, 5, bias=False))
    Optimizer(model).step()
""",
        run="(train, [()])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # The shapes of plain tensors become symbols.
        code="""\
import torch
from torch import nn


@torch.compile
def shrunk(weight):
    return weight / weight.norm().clamp(min=1.0)


def make():
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 6), nn.Linear(6, 3))

    def norms(x):
        total = x.sum()
        for weight in model.parameters():
            total = total + shrunk(weight.detach()).sum()
        return total

    return norms
""",
        run="(make(), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # What is kept by name are statistics of one shape, and settings.
        code="""\
import torch
from torch import nn


@torch.compile
def decay(mean, by):
    return mean * by


class Meter:
    def __init__(self, model):
        self.names = [name for name, _ in model.named_parameters()]
        self.means = {name: torch.zeros(2) for name in ("loss", "norm")}
        self.rates = {}
        for name in self.means:
            self.rates[name] = 0.9

    def step(self):
        for name, mean in self.means.items():
            self.means[name] = decay(mean, self.rates[name])


def train():
    meter = Meter(nn.Linear(2, 2))
    for _ in range(3):
        meter.step()
""",
        run="(train, [()])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
