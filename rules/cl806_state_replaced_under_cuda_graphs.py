"""State that compiled code replaces on each call is overwritten by the next replay of its CUDA graph.

## What it does

In code compiled with `mode="reduce-overhead"` or `"max-autotune"`, finds `self.state = f(self.state, x)`, also for a
registered buffer and for an entry of a dict argument: an attribute that is read and given a new tensor.

## Why it costs

The new tensor is an output of the graph, and the next call gets it as an input: by then its memory belongs to the next
replay, and the call raises "accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run"
(measured on an H200, torch 2.11, for plain attributes, buffers and dict entries, and with `clone()` in the compiled
code). On the CPU and in the default mode the same code works.

## Write instead

Write into the tensor that is there, which keeps its address and the CUDA graph: `self.state.copy_(f(self.state, x))`
with `state` a registered buffer (measured).

## References

PyTorch documentation "CUDAGraph Trees".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.cuda_graphs import recorded
from compilelint.static.facts.state import is_same_object_next_call, own_nodes, same_place
from compilelint.static.values import tensor_certainty

HAZARD = "cudagraph-skip"
WATCH = Watch(nodes=(ast.Assign,), syntax=lambda node, module: isinstance(node, ast.Assign) and _is_state(node))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the assignment of a new tensor to state that this code reads."""
    if not isinstance(node, ast.Assign) or not recorded(view):
        return
    target, value = node.targets[0], node.value
    confidence = tensor_certainty(view.kind(value)) if isinstance(value, (ast.Call, ast.BinOp, ast.Subscript)) else None
    if confidence is None or not _lasts(target, view) or not _is_read(target, view.function):
        return
    yield Hit(
        node,
        f"`{view.text(target)}` becomes an output of the CUDA graph, which the next call reads after its memory was"
        " overwritten: that raises an error",
        f"write into the buffer: `{view.text(target)}.copy_({view.text(value)})`",
        confidence="likely",
    )


def _is_state(node: ast.Assign) -> bool:
    target = node.targets[0]
    if isinstance(target, ast.Subscript):
        return isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
    return isinstance(target, ast.Attribute)


def _lasts(target: ast.expr, view: View) -> bool:
    if isinstance(target, ast.Subscript):
        return isinstance(target.value, ast.Name) and view.handed_in(target.value.id)
    return is_same_object_next_call(target, view)


def _is_read(target: ast.expr, function: ast.AST) -> bool:
    return any(
        isinstance(node, (ast.Attribute, ast.Subscript))
        and isinstance(node.ctx, ast.Load)
        and node.lineno <= target.lineno
        and same_place(node, target)
        for node in own_nodes(function)
    )


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Smooth(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.last = torch.zeros(dim)

    def forward(self, x, cache: dict):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)  # ~
        change = x.mean(0) - self.last
        self.last = x.mean(0)  # ~
        cache["h"] = torch.tanh(cache["h"] + x)  # ~
        return x - self.mean, change


smooth = torch.compile(Smooth(), mode="reduce-overhead")
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Smooth(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))

    def forward(self, x, cache: dict):
        self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))
        self.seen = x.mean(0)
        scaled = {"x": x}
        scaled["x"] = scaled["x"] * 2
        return x - self.mean, scaled["x"]


class Plain(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.mean = torch.zeros(dim)

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


smooth = torch.compile(Smooth(), mode="reduce-overhead")
plain = torch.compile(Plain())
""",
    ),
)
