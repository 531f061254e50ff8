"""Reading through a boolean mask splits the graph: how much comes back depends on the data.

## What it does
Reports `x[mask]` with a boolean tensor, or a list of bools, anywhere in the brackets (`x[:, mask]`, `x[mask, :]`),
and updates through one (`x[mask] -= 1`), which read before they write.

## Why it costs
The result has as many rows as the mask has hits. By default Dynamo keeps operators with such output out of the graph
(GB0036): it ends, the host waits for the count on a GPU, and what follows is a new graph with a dynamic shape.

## Write instead
Keep the shape and neutralise what is masked out:

    total = torch.where(mask, x, 0).sum()               # not x[mask].sum()
    x = torch.where(mask, x - 1, x)                     # not x[mask] -= 1
    y = y.masked_scatter(mask, source)                  # not y[mask] = x[mask]

## Limits
Writing compiles: `x[mask] = 0` and `x[mask] = row` are `index_put` with the mask; only a masked read on the
right-hand side breaks. Index tensors of integers compile. A mask of type uint8 is miscompiled or refused rather than
split and not reported. `fullgraph=True` captures masked reads from torch 2.10 on. Measured on torch 2.13.

## References
Operator tag dynamic_output_shape (index.Tensor) in torch's native_functions.yaml. GB0036.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import data, indices, subscripts
from compilelint.static.values import UNKNOWN, Array, Const, Sequence, Tensor, Unknown, Value, options

HAZARD = "graph-break"
CAPTURED = "sizes"
WATCH = Watch(
    nodes=(ast.Subscript, ast.AugAssign, ast.Call),
    callees=lambda name: name == "operator.getitem",
    syntax=lambda node, module: any(True for _ in subscripts(node)),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per read through a mask, the one inside an augmented assignment included."""
    if isinstance(node, ast.Call) and len(node.args) == 2:  # `operator.getitem(x, mask)`
        read = ast.copy_location(ast.Subscript(node.args[0], node.args[1], ast.Load()), node)
        yield from (Hit(node, hit.message, hit.instead, hit.confidence) for hit in check(read, view))
        return
    subscript = node.target if isinstance(node, ast.AugAssign) else node
    if not isinstance(subscript, ast.Subscript):
        return
    owner = data(view.kind(subscript.value))
    if owner is None and view.kind(subscript.value) != UNKNOWN:
        return
    for part in indices(subscript):
        # What is indexed by a tensor is a tensor too, but a name does not make the index one.
        confidence = mask(part, view) if owner is not None or data(view.kind(part)) == "certain" else None
        if confidence is None:
            continue
        update = isinstance(subscript.ctx, ast.Store)
        yield Hit(
            subscript,
            f"`{view.text(subscript)}` is read through a boolean mask"
            + (" before it is updated" if update else ", so its size depends on the data")
            + ": the graph splits here",
            "update at full shape: `x = torch.where(mask, x + 1, x)`"
            if update
            else "keep the shape: `torch.where(mask, x, 0)`, `masked_scatter`, or multiply by the mask",
            confidence if owner == "certain" else owner or "likely",
        )
        return


def mask(part: ast.expr, view: View) -> Confidence | None:
    """How sure it is that an index selects by truth, one answer per element."""
    value = view.kind(part)
    found = [kind for kind in options(value) if isinstance(kind, (Tensor, Array))]
    if found and all(kind.element == "bool" and kind.rank != 0 for kind in found):
        return data(value)
    if isinstance(value, Sequence) and value.form == "list" and value.items:
        return "certain" if all(isinstance(item, Const) and item.type == "bool" for item in value.items) else None
    return "likely" if _called_a_mask(part) and all(map(_can_be_mask, options(value))) else None


def _called_a_mask(node: ast.expr) -> bool:
    """Whether an index is what people call a mask, or the inverse of anything: integers are not inverted to index."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.lower().rpartition("_")[2] in ("mask", "masks")


def _can_be_mask(kind: Value) -> bool:
    if isinstance(kind, (Tensor, Array)):
        return kind.element in ("bool", None) and kind.rank != 0
    return isinstance(kind, Unknown)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self, ignore=-100):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.ignore = ignore

    def forward(self, x, labels: torch.Tensor):
        keep = labels != self.ignore
        logits = self.head(x)
        picked = logits[keep]  # ~
        spread = self.spread(logits)[keep]  # ~
        return picked.mean() + spread.sum() + logits[:, logits.sum(0) > 0].sum()  # ~

    def spread(self, logits):
        return getattr(logits, "exp")()
""",
        run="(Loss(), [(torch.ones(3, 4), torch.tensor([0, -100, 2]))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def shift(edges: torch.Tensor, out: torch.Tensor):
    edges = edges * 2
    edges[edges > 3] -= 1  # ~
    valid = torch.isfinite(out) & ~(out < 0)
    out[~valid] = 0.0
    out[valid] = out[valid] * 2  # ~
    return edges, out
""",
        run="(shift, [(torch.tensor([1, 2, 3]), torch.ones(3))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Fuse(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, hidden, visual_mask: torch.Tensor, padding_mask=None):
        hidden = self.norm(hidden)
        visual = hidden[visual_mask.to(hidden.device)] if padding_mask is None else hidden[padding_mask]  # ~
        return visual + hidden[~visual_mask].sum(0)  # ~
""",
        run="(Fuse(), [(torch.ones(3, 4), torch.tensor([True, False, True]), torch.tensor([True, False, True]))])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self, ignore=-100):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.ignore = ignore
        self.token = nn.Parameter(torch.zeros(3))

    def forward(self, x, labels: torch.Tensor):
        keep = labels != self.ignore
        logits = self.head(x).clone()
        logits[~keep] = 0.0
        logits[~keep, 0] = float("-inf")
        logits[keep] = self.token
        rows = torch.arange(3)
        logits = logits[rows][:, [0, 2]] + logits[labels.clamp(min=0), :2] + logits[..., None, -1]
        names = {True: 1}
        return torch.where(keep[:, None], logits, 0).sum() * names[True]
""",
        run="(Loss(), [(torch.ones(3, 4), torch.tensor([0, -100, 2]))])",
        default="clean",
        fullgraph="clean",
    ),
)
