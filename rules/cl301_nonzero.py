"""`nonzero`, `argwhere` and one-argument `where` split the graph: how much they return depends on the data.

## What it does
Reports `torch.nonzero`, `torch.argwhere`, `torch.where(condition)` with nothing to choose from, the methods of these
names, and numpy's `nonzero`, `flatnonzero`, `argwhere` and `where`.

## Why it costs
The shape of the result is the number of hits, known only after the kernel has run. By default Dynamo keeps such
operators out of the graph (`capture_dynamic_output_shape_ops` is off, GB0036): graph, operator, graph. On a GPU the
host waits to learn the size, and every later shape is dynamic.

## Write instead
Keep the full shape and mask, or fix the number of results:

    y = torch.where(condition, x, 0)                            # three arguments
    index = torch.nonzero_static(condition, size=n, fill_value=0)
    count = condition.sum()                                     # not len(condition.nonzero())

## Limits
`fullgraph=True` captures these from torch 2.10 on; a branch or view on the unknown size then raises. A receiver of
unknown type is reported as likely. Measured on torch 2.13.

## References
Operator tag dynamic_output_shape in torch's native_functions.yaml. GB0036.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import data
from compilelint.static.values import UNKNOWN

HAZARD = "graph-break"
CAPTURED = "sizes"
NAMES = frozenset({"nonzero", "argwhere", "where", "flatnonzero"})
WATCH = Watch(nodes=(ast.Call,), names=NAMES)
INSTEAD = (
    "mask at full shape with three-argument `torch.where`, count with `.sum()`, or fix the size with "
    "`torch.nonzero_static(condition, size=n)`"
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call."""
    if not isinstance(node, ast.Call):
        return
    confidence = counts_hits(node, view)
    if confidence is not None:
        yield Hit(
            node,
            f"how many rows `{view.text(node)}` returns depends on the data: the graph splits here",
            INSTEAD,
            confidence,
        )


def counts_hits(node: ast.Call, view: View) -> Confidence | None:
    """How sure it is that the call returns positions of what is not zero."""
    owner, _, name = view.callee(node).rpartition(".")
    if name == "where" and (len(node.args) + len(node.keywords) != 1 or _is_spread(node)):
        return None
    if owner in ("torch", "numpy"):
        return "certain"
    if name == "where" or not isinstance(node.func, ast.Attribute):
        return None
    receiver = view.kind(node.func.value)
    if receiver == UNKNOWN:
        return "likely" if name == "nonzero" else None
    return data(receiver)


def _is_spread(call: ast.Call) -> bool:
    """Whether a call is written with `*choice` or `**choice`, which may be more than one argument."""
    return any(isinstance(argument, ast.Starred) for argument in call.args) or any(
        keyword.arg is None for keyword in call.keywords
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, experts=2):
        super().__init__()
        self.gate = nn.Linear(4, experts)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(experts))

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.where(chosen == number)[0]  # ~
            out.index_add_(0, rows, expert(x[rows]))
        return out
""",
        run="(Experts(), [(torch.ones(3, 4),)])",
        default="skip",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def first_eos(ids: torch.Tensor, eos: int = 2):
    ids = ids + 1
    hits = (ids == eos).nonzero(as_tuple=True)[0]  # ~
    return hits.shape[0] + ids, torch.argwhere(ids)  # ~
""",
        run="(first_eos, [(torch.ones(2, 4, dtype=torch.long),)])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, experts=2):
        super().__init__()
        self.gate = nn.Linear(4, experts)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(experts))

    def forward(self, x: torch.Tensor):
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            out = torch.where((chosen == number)[:, None], expert(x), out)
        first = torch.nonzero_static(chosen == 0, size=2, fill_value=0)
        choice = (out > 0, out, -out)
        return torch.where(*choice) + first.sum() + torch.count_nonzero(chosen)
""",
        run="(Experts(), [(torch.ones(3, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
