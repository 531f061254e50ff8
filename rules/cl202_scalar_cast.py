"""`int(t)`, `float(t)` and `bool(t)` split the graph to turn a tensor into a Python number.

## What it does
Reports `int`, `float`, `bool` and `operator.index` of a tensor or of a numpy array, the methods behind them
(`t.__int__()`), and `map(int, ...)` over tensors.

## Why it costs
The cast is `.item()` by another name (GB0124): the graph ends, the value is fetched, on a GPU after waiting for all
that is queued, and a new graph begins. `int(lengths.max())` for a size is the common case.

## Write instead
Cast the type and stay on the device (`t.long()`, `t.float()`), take sizes from shapes or pass them in as ints:

    mask = torch.arange(x.shape[1], device=x.device) < lengths[:, None]   # not x[:, : int(lengths.max())]

## Limits
Casts of shapes, Python numbers, of numpy functions of Python numbers (`int(np.ceil(n / 2))`) and of a numpy number
that the model keeps (`int(self.width)`, computed in `__init__`) compile. `int(np.prod(shape))` does not, as numpy's
reductions become part of the graph: `math.prod(shape)` is a number. Around `.item()` only the item call is reported.
`fullgraph=True` accepts the cast from torch 2.10 on, but not a branch on its result. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0124; GB0033 for numpy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import parameters
from compilelint.static.facts.tensors import data, is_array, kept_number, mapped, on_error_path, python_number

HAZARD = "graph-break"
CAPTURED = "numbers"
CASTS = frozenset({"builtins.int", "builtins.float", "builtins.bool", "operator.index"})
METHODS = frozenset(
    {"torch.Tensor.__int__", "torch.Tensor.__float__", "torch.Tensor.__bool__", "torch.Tensor.__index__"}
)
WATCH = Watch(
    nodes=(ast.Call,),
    names=frozenset({"int", "float", "bool", "index", "map", "__int__", "__float__", "__bool__", "__index__"}),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per cast."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    confidence = None
    if callee in CASTS and len(node.args) == 1:
        confidence = None if _kept(node.args[0], view) else data(view.kind(node.args[0]))
    elif callee in METHODS and isinstance(node.func, ast.Attribute):
        confidence = data(view.kind(node.func.value))
    elif (each := mapped(node, view)) is not None and each[0] in CASTS:
        callee, confidence = each
    if confidence is not None and not on_error_path(node, view):
        flag = callee.endswith(("bool", "__bool__"))
        of_numpy = bool(node.args) and is_array(node.args[0], view)
        what = "a NumPy value, which Dynamo holds as a tensor," if of_numpy else "a tensor"
        yield Hit(
            node,
            f"`{view.text(node)}` reads {what} back into a Python {'bool' if flag else 'number'}: Dynamo splits the"
            " graph here",
            "keep a bool tensor (`t != 0`) and select with `torch.where`"
            if flag
            else python_number(node)
            if of_numpy
            else "cast on the device (`t.long()`, `t.float()`), or take the number from a shape or an argument",
            confidence,
        )


def _kept(node: ast.expr, view: View) -> bool:
    """Whether `node` is a numpy number that the model or the file keeps; an argument may be one just computed."""
    return kept_number(node, view) and not (isinstance(node, ast.Name) and node.id in parameters(view.function))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Pad(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, lengths: torch.Tensor):
        width = int(lengths.max())  # ~
        return self.proj(x)[:, :width]  # ~ CL610
""",
        run="(Pad(), [(torch.ones(2, 3, 4), torch.tensor([2, 1]))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def weight(values: torch.Tensor):
    total = values.numpy().sum()
    return float(total)  # ~


def scale(x: torch.Tensor):
    quiet = bool((x > 2).any())  # ~
    return (x + 1) * weight(x) + quiet
""",
        run="(scale, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def spread(x: torch.Tensor):
    low, high = list(map(float, (x.min(), x.max())))  # ~
    return (x - low) / (high - low)
""",
        run="(spread, [(torch.arange(4.0),)])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import math

import numpy as np
import torch
from torch import nn


class Pad(nn.Module):
    def __init__(self, ratio="0.5"):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.ratio = float(ratio)
        self.cells = np.prod([3, 4])

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, flag=True):
        x = x.view(-1, int(self.cells)).view(-1, *x.shape[1:])
        width = int(x.shape[1] * self.ratio) + int(np.ceil(x.shape[1] / 2))
        mask = torch.arange(x.shape[1]) < lengths[:, None]
        gain = float("inf") if not bool(flag) else float(math.sqrt(x.size(-1)))
        return self.proj(x)[:, :width] * gain * mask[:, :width, None].float()
""",
        run="(Pad(), [(torch.ones(2, 3, 4), torch.tensor([2, 1]))])",
        default="clean",
        fullgraph="clean",
    ),
)
