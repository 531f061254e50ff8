"""Keeping the output of a CUDA-graph replay across steps: the next call overwrites it.

## What it does

Finds `outputs.append(step(x))` in a loop, also by way of a variable or a slice, where `step` was compiled with
`mode="reduce-overhead"` or `"max-autotune"` in the same file and the result is not cloned.

## Why it costs

A CUDA graph writes its outputs to the same memory in every replay. What was kept from the step before is overwritten;
reading it raises "accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run" (measured on
an H200, for the output itself and for a slice of it). On the CPU and in the default mode the same code works, so
tests don't show it.

## Write instead

`outputs.append(step(x).clone())`, with the clone outside of the compiled function, or keep something computed from it
(`step(x).argmax(-1)`, which is a new tensor).

## References

PyTorch documentation "CUDAGraph Trees", on outputs that are overwritten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.questions import assigned_once
from compilelint.static.state import functions_in
from compilelint.static.syntax import nodes_in

HAZARD = "cudagraph-skip"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"append", "extend"}), regions=frozenset({"decode-loop", "host"}))
CUDA_GRAPH_MODES = frozenset({"reduce-overhead", "max-autotune"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the call that keeps what the next replay overwrites."""
    if not (isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.func, ast.Attribute)):
        return
    if not any(isinstance(parent, (ast.For, ast.While)) for parent in view.parents(node)):
        return
    kept = node.args[0]
    while isinstance(kept, ast.Subscript):
        kept = kept.value
    made = assigned_once(view.function, kept.id) if isinstance(kept, ast.Name) else kept
    while isinstance(made, ast.Subscript):
        made = made.value
    if isinstance(made, ast.Call) and ast.unparse(made.func) in _replayed(view.module):
        yield Hit(
            node,
            f"`{view.text(node.args[0])}` is memory of the CUDA graph of `{view.text(made.func)}`, and the next call"
            " overwrites it: reading it later raises an error",
            f"keep a copy: `{view.text(node.func)}({view.text(node.args[0])}.clone())`",
            confidence="likely",
        )


@lru_cache(maxsize=256)
def _replayed(module: ast.Module) -> frozenset[str]:
    """How the file spells the functions that it compiles with CUDA graphs: `self.net`, `step`."""
    names: set[str] = set()
    for node in nodes_in(module):
        if isinstance(node, ast.Assign) and _compiles_with_graphs(node.value):
            names.update(ast.unparse(target) for target in node.targets)
    for function in functions_in(module):
        if any(_compiles_with_graphs(decorator) for decorator in function.decorator_list):
            names.add(function.name)
    return frozenset(names)


def _compiles_with_graphs(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] != "compile":
        return False
    modes = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    return any(isinstance(mode, ast.Constant) and mode.value in CUDA_GRAPH_MODES for mode in modes)


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Predictor:
    def __init__(self, net):
        self.net = torch.compile(net, mode="reduce-overhead")

    def rollout(self, x, steps):
        states = []
        for _ in range(steps):
            x = self.net(x)
            states.append(x)  # ~
        return torch.cat(states)


def run(batches):
    step = torch.compile(nn.Linear(4, 4), mode="max-autotune")
    last = []
    for batch in batches:
        out = step(batch)
        last.append(out[:, -1])  # ~
    return last
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
""",
    ),
)
