"""A number read back from a tensor and used on the spot compiles what follows again when it changes.

## What it does
Reports a comparison or an arithmetic operation whose operand is read back from a tensor there and then,
`scores.max().item() > 0.5`, `hits.sum().item() / n`, `int(lengths.max()) + 1`, and a branch on a variable that holds
such a number: `busiest = counts.max().item()`, later `if busiest > self.capacity`.

## Why it costs
The read-back splits the graph and has a finding of its own. The part behind it starts with the number as an input, and
as soon as it computes with it, Dynamo guards on the value: `___stack0 == 3`. The next value fails the guard and
compiles the rest of the function once more, with the number as a symbol; where a constant is needed (a flag such as
`requires_grad_(score > 0.5)`, a probability, `range(n)`) it compiles for every value. Measured on torch 2.13. A number
that is only returned or stored costs nothing more.

## Write instead
Compute with the tensor, and read the result back in the code that calls the model:

    accuracy = hits.sum() / keep.sum().clamp(min=1)          # stays in the graph
    scale = torch.where(scores.max() > 0.5, 0.5, 1.0)        # instead of a Python comparison

## Limits
In a loop, a `try` or a `with` of the same function no graph is left that could compile again. Under `fullgraph=True`
(torch 2.10 on) the number stays in the graph. Sizes and counts are CL609's.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.tensors import data, on_error_path, site_of, written_constant
from compilelint.static.values import Scalar, options

HAZARD = "recompile"
CAPTURED = "numbers"
WATCH = Watch(nodes=(ast.Compare, ast.BinOp), syntax=lambda node, module: _may_read_back(node))
CASTS = frozenset({"builtins.int", "builtins.float"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit for each outermost operation with a number that is read back inside it."""
    if not isinstance(node, (ast.Compare, ast.BinOp)) or _within_operation(node, view) or _left_uncompiled(node, view):
        return
    branched_on = isinstance(node, ast.Compare) and site_of(node, view)[0] is not None
    read = next((part for part in _operands(node) if _reads_back(part, view, branched_on)), None)
    if read is not None and not on_error_path(node, view):
        yield Hit(
            node,
            f"`{view.text(node)}` computes with a number that was read back: Dynamo guards on its value behind the"
            " break, so what follows compiles again when it changes",
            "compute with the tensor, `torch.where` instead of a comparison, and read the result back outside",
            "likely",
        )


def _may_read_back(node: ast.AST) -> bool:
    """Whether an operand is a call or, in a comparison, a variable."""
    sort = (ast.Call, ast.Name) if isinstance(node, ast.Compare) else ast.Call
    return isinstance(node, ast.expr) and any(isinstance(part, sort) for part in _operands(node))


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """The operands of an operation from left to right, those of operations nested in it included."""
    pending = [node]
    while (
        pending
    ):  # generated code adds hundreds of terms: generators in one another would pass each term up to the top
        part = pending.pop()
        if isinstance(part, ast.BinOp):
            pending += (part.right, part.left)
        elif isinstance(part, ast.Compare):
            pending += (*reversed(part.comparators), part.left)
        elif isinstance(part, ast.UnaryOp):
            pending.append(part.operand)
        else:
            yield part


def _reads_back(node: ast.expr, view: View, branched_on: bool) -> bool:
    """Whether `node` is a call that makes a Python number of a tensor, or a variable for one that is `branched_on`."""
    value = view.kind(node)
    if isinstance(node, ast.Name) and branched_on:
        node = assigned_once(view.function, node.id) or node
    if not isinstance(node, ast.Call):
        return False
    if not all(isinstance(option, Scalar) and option.origin == "tensor" for option in options(value)):
        return False
    if view.callee(node) in CASTS:
        read = node.args[0] if node.args else None
        return read is not None and data(view.kind(read)) is not None and not written_constant(read, view)
    return isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not written_constant(node, view)


def _within_operation(node: ast.AST, view: View) -> bool:
    return isinstance(next(iter(view.parents(node)), None), (ast.Compare, ast.BinOp, ast.UnaryOp))


def _left_uncompiled(node: ast.AST, view: View) -> bool:
    """Whether the break leaves no graph of this function that could be compiled again."""
    uncompiled = (ast.For, ast.While, ast.Try, ast.With, ast.comprehension, ast.Lambda)
    return any(isinstance(parent, uncompiled) for parent in view.parents(node))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        closed = h.max().item() < 0.5  # ~ CL201  # ~
        return torch.dropout(h, 0.5, closed)
""",
        run="(Gate(), [(torch.full((2, 4), float(n)),) for n in range(3)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


def accuracy(logits, target: torch.Tensor):
    hits = logits.argmax(-1) == target
    return int(hits.sum()) / target.shape[0]  # ~ CL202  # ~


class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, target: torch.Tensor):
        h = self.proj(x)
        return h.sum() * accuracy(h, target)
""",
        run="(Scored(), [(torch.ones(3, 4), torch.tensor([0, 1, n])) for n in range(3)])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, capacity=4):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.capacity = capacity

    def forward(self, x):
        load = (self.proj(x) > 0).sum(0)
        busiest = load.max().item()  # ~ CL201
        if busiest > self.capacity:  # ~
            x = x * 0.5
        return x + load
""",
        run="(Router(), [(torch.ones(n, 4),) for n in (2, 3, 9)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, target: torch.Tensor):
        h = self.proj(x)
        hits = (h.argmax(-1) == target).sum()
        scale = torch.where(h.max() > 0.5, 0.5, 1.0)
        return h.sum() * scale, hits / max(int(x.shape[0]) - 1, 1)
""",
        run="(Scored(), [(torch.ones(3, 4), torch.tensor([0, 1, n])) for n in range(3)])",
        default="clean",
        fullgraph="clean",
    ),
)
