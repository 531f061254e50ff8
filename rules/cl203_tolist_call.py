"""`.tolist()` splits the graph to turn a tensor into Python numbers.

## What it does
Reports `.tolist()` on tensors and on numpy arrays traced as tensors. A receiver of unknown type is reported as
likely.

## Why it costs
Every element becomes a Python number, so the graph ends, the whole tensor is copied to the host (a wait on a GPU) and
what follows is another graph, whose sizes depend on the list. For integers it is a read-back like `.item()` (GB0033);
a list of floats Dynamo can't represent at all (GB0109), and `fullgraph=True` raises for it in every version.

## Write instead
Iterate or unpack the tensor itself, which is traced row by row, when its length is known:

    for t in times: ...          # not for t in times.tolist()
    a, b = pair.unbind(0)

Split sizes have to be Python ints: make the list before the compiled region and pass it in, or pad to a fixed size.

## Limits
`fullgraph=True` accepts integer lists from torch 2.10 on. Constants are read back too: `torch.arange(2, n).tolist()`
breaks where `list(range(2, n))` does not. A single int that the compiled function is handed in a tensor without
dimensions stays in the graph, so `x.tolist()` of an input of unknown shape is likely only. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0033, GB0109.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.tensors import called_on, data, on_error_path
from compilelint.static.values import UNKNOWN, Tensor, Value, options

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"tolist"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call."""
    value = called_on(node, "tolist", view) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or value is None:
        return
    confidence: Confidence | None = "likely" if value == UNKNOWN else data(value)
    if isinstance(node.func, ast.Attribute) and _is_input(node.func.value, view):
        confidence = confidence and _of_input(node, value, view)
    if confidence is not None and not on_error_path(node, view):
        yield Hit(
            node,
            f"`{view.text(node)}` copies a tensor into Python numbers: Dynamo splits the graph here",
            "iterate or `unbind` the tensor itself; make lists Python needs (split sizes) before the compiled region",
            confidence,
        )


def _is_input(node: ast.expr, view: View) -> bool:
    return isinstance(node, ast.Name) and view.handed_in(node.id) and assigned_once(view.function, node.id) is None


def _of_input(call: ast.Call, value: Value, view: View) -> Confidence | None:
    """How sure a read-back of an input is: a single int that comes in without dimensions stays in the graph."""
    tensors = [option for option in options(value) if isinstance(option, Tensor)]
    if any(tensor.rank or tensor.element in ("float", "bool") for tensor in tensors) or _is_gone_through(call, view):
        return data(value) or "likely"
    return None if tensors and all(tensor.rank == 0 for tensor in tensors) else "likely"


def _is_gone_through(call: ast.Call, view: View) -> bool:
    """Whether code takes the result for a list: it loops over it, unpacks it, takes parts or its length."""
    around = next(view.parents(call), None)
    if isinstance(around, ast.Assign):
        return isinstance(around.targets[0], (ast.Tuple, ast.List))
    if isinstance(around, ast.Call):
        return view.callee(around) in ("builtins.len", "builtins.enumerate", "builtins.zip", "builtins.max")
    return isinstance(around, (ast.For, ast.comprehension, ast.Subscript, ast.Starred))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, lengths):
        parts = torch.split(self.proj(x), lengths.tolist())  # ~ CL610  # ~
        return torch.stack([part.sum(0) for part in parts])
""",
        run="(Packed(), [(torch.ones(5, 4), torch.tensor([2, 3]))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def resize(x: torch.Tensor, scales: torch.Tensor):
    first, second = scales.tolist()  # ~
    axes = torch.arange(1, x.dim()).tolist()  # ~
    return x.sum(axes) * first + second  # ~ CL610
""",
        run="(resize, [(torch.ones(2, 4), torch.tensor([0.5, 2.0]))])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.sizes = torch.tensor([2, 3]).tolist()

    def forward(self, x: torch.Tensor, scales: torch.Tensor):
        parts = torch.split(self.proj(x), self.sizes)
        first, second = scales.unbind(0)
        axes = list(range(1, x.dim()))
        for scale in scales:
            first = first + scale
        return torch.stack([part.sum(0) for part in parts]).sum(axes) * first + second
""",
        run="(Packed(), [(torch.ones(5, 4), torch.tensor([0.5, 2.0]))])",
        default="clean",
        fullgraph="clean",
    ),
)
