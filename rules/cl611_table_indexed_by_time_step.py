"""A table that is indexed by a time step compiles again for each step.

## What it does
Reports `self.alphas_cumprod[timestep]` in compiled code, where `timestep` is handed in, or is left over from a branch
that was taken on it (`self.alphas[prev_t] if prev_t >= 0 else …`), and stands for one step of a schedule.

## Why it costs
Samplers pass the items of a tensor, `for t in timesteps`. Torch selects a row at an offset that must be a number, so
Dynamo reads the value of a 0-d tensor on the CPU while it traces and guards on it, `timestep.item() == 981`: every step
compiles again until the limit of 8, then the function runs uncompiled (measured on torch 2.13). A Python int costs one
recompile and is dynamic then. On the GPU the read-back splits the graph (CL207).

## Write instead
    alpha = self.alphas_cumprod.index_select(0, timestep.reshape(1))     # stays in the graph, any step

or look the row up in the sampling loop and hand it to the compiled code as a tensor.

## Limits
A time step is known by its name and by how it is used. An index with dimensions, whose rows are reshaped to broadcast
over a batch, is gathered and costs nothing.
Torch 2.14 keeps the look-up in the graph; the rule is silent from there on.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import parameters, written
from compilelint.static.facts.tensors import is_time_step
from compilelint.static.values import UNKNOWN, Scalar, Tensor, Value, options

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.Subscript,),
    syntax=lambda node, module: isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute),
)
KEPT_IN_GRAPH_FROM = (2, 14)


RESHAPING = frozenset({"view", "reshape", "unsqueeze", "expand", "flatten"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per look-up in a table that is an attribute."""
    if view.torch >= KEPT_IN_GRAPH_FROM or not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return
    if not isinstance(node.value, ast.Attribute) or not _may_be_table(view.kind(node.value)):
        return
    if not is_time_step(node.slice, view) or not _comes_in(node.slice, view) or _spread_over_batch(node, view):
        return
    yield Hit(
        node,
        f"`{view.text(node.slice)}` changes from call to call: Dynamo guards on the value of a 0-d CPU tensor that"
        " indexes, so every step compiles again (a Python int only once)",
        f"write `{view.text(node.value)}.index_select(0, {view.text(node.slice)}.reshape(1))`, or look the row up in"
        " the sampling loop and pass it in",
        "likely",
    )


def _may_be_table(value: Value) -> bool:
    return value == UNKNOWN or any(isinstance(option, Tensor) for option in options(value))


def _comes_in(index: ast.expr, view: View) -> bool:
    """Whether the index is an input of the code that Dynamo compiles here, and may be a tensor or a number."""
    value = view.kind(index)
    if any(isinstance(option, Tensor) and option.rank not in (None, 0) for option in options(value)):
        return False
    if isinstance(value, Scalar) and value.origin != "argument":
        return False
    assert isinstance(index, ast.Name)
    handed_in = index.id in parameters(view.function) and not any(True for _ in written(index, view.function))
    return handed_in or any(_branches_on(node, index.id) for node in ast.walk(view.function))


def _branches_on(node: ast.AST, name: str) -> bool:
    """Whether Python takes a branch on `name`, after which it is an input of the graph that follows."""
    test = node.test if isinstance(node, (ast.If, ast.IfExp)) else None
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == name


def _spread_over_batch(node: ast.Subscript, view: View) -> bool:
    """Whether the rows are reshaped to broadcast, which a single one does not need: `table[t].view(-1, 1, 1)`."""
    parent = next(iter(view.parents(node)), None)
    return isinstance(parent, ast.Subscript) or (isinstance(parent, ast.Attribute) and parent.attr in RESHAPING)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Scheduler(nn.Module):
    def __init__(self, steps=10):
        super().__init__()
        self.register_buffer("alphas", torch.linspace(0.9, 0.1, steps))

    def forward(self, noise, timestep, x):
        alpha = self.alphas[timestep]  # ~
        return (x - (1 - alpha).sqrt() * noise) / alpha.sqrt()
""",
        run="(Scheduler(), [(torch.ones(2), torch.tensor(step), torch.ones(2)) for step in (8, 6, 4)])",
        default="recompile",
        fullgraph="recompile",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Scheduler(nn.Module):
    def __init__(self, steps=10):
        super().__init__()
        self.register_buffer("alphas", torch.linspace(0.9, 0.1, steps))

    def rows(self, t):
        return self.alphas[t].view(-1, 1)

    def forward(self, noise, timestep, t, x):
        alpha = self.alphas.index_select(0, timestep.reshape(1))
        return (x - (1 - alpha).sqrt() * noise) / alpha.sqrt() * self.rows(t)
""",
        run="(Scheduler(), [(torch.ones(2), torch.tensor(n), torch.tensor([n, n]), torch.ones(2)) for n in (8, 6, 4)])",
        default="clean",
        fullgraph="clean",
    ),
)
