"""Turning a tensor into text splits the graph.

## What it does
Reports `str(t)`, `repr(t)`, `ascii(t)` and `"..." % t` for tensors.

## Why it costs
The text needs every value: Dynamo does not trace `str` (GB0059) or `repr` (GB0569) of a tensor, and for the `%`
operator it gives the whole frame up (GB0208, GB0088). On a GPU the host waits as well.

## Write instead
Drop the text from the compiled part, or guard what is for debugging only:

    if not torch.compiler.is_compiling():
        log.debug("mean %s", x.mean())

## Limits
An f-string or `str.format` of a tensor compiles as long as nobody uses the text inside the region; what prints or
logs it is reported for that. Text of shapes, dtypes and Python values compiles. Text made on the way to a `raise` is
not reported. Measured on torch 2.13.

## References
torch/_dynamo/graph_break_registry.json: GB0059, GB0088, GB0208, GB0569.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.tensors import data, on_error_path
from compilelint.static.values import Const, Scalar, options

HAZARD = "graph-break"
TEXTS = frozenset({"builtins.str", "builtins.repr", "builtins.ascii"})
WATCH = Watch(
    nodes=(ast.Call, ast.BinOp),
    callees=TEXTS.__contains__,
    syntax=lambda node, module: isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod),
)
INSTEAD = "drop the text from the compiled part, or guard it with `if not torch.compiler.is_compiling():`"


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per conversion."""
    if isinstance(node, ast.Call):
        if view.callee(node) not in TEXTS or not node.args:
            return
        confidence = data(view.kind(node.args[0]))
        if confidence is not None and not on_error_path(node, view):
            message = f"`{view.text(node)}` needs the tensor's values as text: Dynamo splits the graph here"
            yield Hit(node, message, INSTEAD, confidence)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and is_text(node.left, view):
        values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        found = [confidence for value in values if (confidence := data(view.kind(value)))]
        if found and not on_error_path(node, view):
            message = f"`{view.text(node)}` formats a tensor with `%`: the whole function runs uncompiled"
            yield Hit(node, message, INSTEAD, found[0], "frame-skip")


def is_text(node: ast.expr, view: View) -> bool:
    """Whether `node` is a string."""
    return all(isinstance(kind, (Const, Scalar)) and kind.type == "str" for kind in options(view.kind(node)))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Trace(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        key = str(h.shape) + str(h.mean())  # ~
        return h * len(key)
""",
        run="(Trace(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def describe(x: torch.Tensor):
    text = "mean %s of %d" % (x.mean(), x.dim())  # ~
    return x + 1, text
""",
        run="(describe, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Trace(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, step: int = 3):
        h = self.proj(x)
        if x.dim() != 2:
            raise ValueError("want two dimensions, got %s" % x + str(h))
        label = "%s %d" % (x.shape[0], step) + str(x.dtype) + repr(x.shape) + f"{step % 2}"
        note = f"{h.mean()}"
        return h % 2 * len(label)
""",
        run="(Trace(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
