"""Keeping the output of a CUDA-graph replay across steps: the next call overwrites it.

## What it does

Finds `outputs.append(step(x))`, `outputs[i] = step(x)` and `yield step(x)` in a loop and `[step(x) for x in batches]`,
also by way of a variable or a slice, where `step` was compiled with `mode="reduce-overhead"` or `"max-autotune"` in the
same file and the result is not cloned.

## Why it costs

A CUDA graph writes its outputs to the same memory in every replay. What was kept from the step before is overwritten.
Reading what the first two calls gave, which warm up and record, raises "accessing tensor output of CUDAGraphs that has
been overwritten by a subsequent run"; what later calls gave holds, without an error, the numbers of the last one
(measured on an H200, for lists, dicts, generators, comprehensions and for slices). On the CPU and in the default mode
the same code works, so tests don't show it.

## Write instead

`outputs.append(step(x).clone())`, with the clone outside of the compiled function, or keep something computed from it
(`step(x).argmax(-1)`, which is a new tensor).

## Limits

Only `possible` where nothing in the file says that the code runs without gradients: a backward pass that may still
come, as of parameters that require gradients, keeps outputs alive.

## References

PyTorch documentation "CUDAGraph Trees", on outputs that are overwritten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.cuda_graphs import is_replay, replayed, without_gradients
from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.state import without_index
from compilelint.static.values import Mapping, Sequence

HAZARD = "cudagraph-skip"
WATCH = Watch(
    nodes=(ast.Call, ast.Assign, ast.ListComp, ast.DictComp, ast.Yield),
    files=lambda module: bool(replayed(module)),
    regions=frozenset({"decode-loop", "host"}),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield what keeps a value that the next replay overwrites."""
    kept = _kept(node, view)
    made = _replay(kept, view) if kept is not None else None
    if kept is not None and made is not None:
        yield Hit(
            node if isinstance(node, ast.Call) else kept,
            f"`{view.text(kept)}` is memory of the CUDA graph of `{view.text(made.func)}`, and the next call overwrites"
            " it: what is kept of the first two calls raises an error, of later ones it holds the last call's numbers",
            f"keep a copy: `{view.text(kept)}.clone()`",
            confidence="likely" if without_gradients(view.module) else "possible",
        )


def _kept(node: ast.AST, view: View) -> ast.expr | None:
    """What goes into a list or dict, or out of a generator, turn by turn."""
    if isinstance(node, ast.ListComp):
        return node.elt
    if isinstance(node, ast.DictComp):
        return node.value
    if not any(isinstance(parent, (ast.For, ast.While)) for parent in view.parents(node)):
        return None
    if isinstance(node, ast.Yield):
        return node.value
    if isinstance(node, ast.Call):
        is_append = isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend", "put")
        return node.args[0] if is_append and len(node.args) == 1 else None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return node.value if isinstance(view.kind(node.targets[0].value), (Mapping, Sequence)) else None
    return None


def _replay(kept: ast.expr, view: View) -> ast.Call | None:
    """The replay that returned what is kept, or what it is a part of."""
    part = without_index(kept)
    made = assigned_once(view.function, part.id) if isinstance(part, ast.Name) else part
    made = without_index(made) if made is not None else None
    return made if isinstance(made, ast.Call) and is_replay(made, view.function, view.module) else None


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Predictor:
    def __init__(self, net):
        self.net = torch.compile(net, mode="reduce-overhead")

    @torch.no_grad()
    def encode(self, frames):
        states = []
        for frame in frames:
            out = self.net(frame)
            states.append(out)  # ~
        return torch.cat(states)


def run(batches):
    step = torch.compile(nn.Linear(4, 4), mode="max-autotune")
    last = []
    for batch in batches:
        out = step(batch)
        last.append(out[:, -1])  # ~
    named = {}
    for i, batch in enumerate(batches):
        named[i] = step(batch)  # ~
    return last, named, [step(batch) for batch in batches]  # ~


def stream(batches):
    step = torch.compile(nn.Linear(4, 4), mode="max-autotune")
    for batch in batches:
        yield step(batch)  # ~
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Predictor:
    def __init__(self, net):
        self.net = torch.compile(net, mode="reduce-overhead")
        self.plain = torch.compile(net)

    def rollout(self, x, steps):
        states, tokens, plain = [], [], []
        for _ in range(steps):
            out = self.net(x)
            x = out.clone()
            states.append(x)
            tokens.append(out.argmax(-1))
            plain.append(self.plain(x))
        return torch.cat(states), tokens, plain

    def fill(self, x, steps):
        filled = torch.empty(steps, 4)
        for i in range(steps):
            filled[i] = self.net(x)
        return filled, [self.net(x).cpu() for _ in range(steps)]
""",
    ),
)
