"""A branch on a tensor's value splits the graph.

## What it does
Reports `if`, `elif`, `case` and the conditions of comprehensions whose outcome depends on what a tensor, or a numpy
array that Dynamo traces as one, holds.

## Why it costs
Which way to go is known only once the tensor has been computed. Dynamo ends the graph before the branch, runs it,
asks the tensor for its truth (a synchronisation on a GPU), and compiles each side as a function of its own (GB0170).
With `fullgraph=True` it is an error. A branch inside a loop, `try` or foreign `with` costs the graph of the whole
frame.

## Write instead
Compute both sides and select, or let the device choose:

    x = torch.where(x.sum() > 0, x + 1, x - 1)
    x = torch.cond(x.sum() > 0, grow, shrink, (x,))

For a check that only raises, `torch._assert_async(ok, "message")` stays in the graph; it raises RuntimeError, later.
For a random skip (layer drop), draw outside the compiled region and pass a Python bool in, or multiply by a 0/1
tensor.

## Limits
Tests on shapes, dtypes, devices, `is None`, `isinstance` and Python values compile and are not reported. `==` with
None or a string compiles too, but not on torch 2.11 (GB0208), for which it is reported. A branch that one element type
alone reaches (`x.dtype == torch.float16 and ...`) is only `possible`; written the other way round it is asked first. A
branch on `.item()` is reported at the read-back. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks", "Dealing with Data-Dependent Errors". GB0170.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import (
    decided,
    decided_by,
    drawn_at_random,
    gated_by_dtype,
    is_array,
    is_plain,
    site_of,
)
from compilelint.static.values import tensor_certainty

HAZARD = "graph-break"
WATCH = Watch(tests=True)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per tested expression; `not`, `and` and `or` have been taken apart."""
    if not isinstance(node, ast.expr):
        return
    if view.torch < (2, 12) and asks_to_equal_a_constant(node, view):
        yield Hit(
            node,
            f"`{view.text(node)}` compares a tensor with what no tensor equals: torch {view.torch[0]}.{view.torch[1]} "
            "splits the graph here",
            "ask `is None` or `isinstance(value, str)`",
        )
        return
    confidence = decided(node, view)
    if confidence is None:
        return
    site, _ = site_of(node, view)
    if isinstance(site, ast.match_case) and isinstance(next(iter(view.parents(node))), ast.MatchValue):
        yield Hit(
            node,
            f"`case {view.text(site.pattern)}` compares a tensor with `{view.text(node)}`: Dynamo splits the graph to"
            " choose a branch",
            remedy(node, site, view),
            confidence,
        )
    elif isinstance(site, (ast.If, ast.comprehension, ast.match_case)):
        yield Hit(
            node,
            f"`{view.text(node)}` is {decided_by(node, view)}: Dynamo splits the graph to choose a branch",
            remedy(node, site, view),
            "possible" if gated_by_dtype(node, view) else confidence,
        )


def asks_to_equal_a_constant(node: ast.expr, view: View) -> bool:
    """`x == None` or `x == "text"` of a tensor."""
    if not (isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)):
        return False
    return is_plain(node.comparators[0], view) and tensor_certainty(view.kind(node.left)) is not None


def remedy(node: ast.expr, site: ast.If | ast.comprehension | ast.match_case, view: View) -> str:
    """What to write, by what the branch is for."""
    if is_array(node, view):
        return "decide before the compiled region, with Python's numbers, and pass the outcome in"
    if isinstance(site, ast.If) and isinstance(site.body[0], ast.Raise) and not site.orelse:
        return 'check on the device, without a branch: `torch._assert_async(ok, "message")`, or check before the region'
    if drawn_at_random(node, view):
        return "draw outside the compiled region and pass a bool in, or multiply by a 0/1 tensor: `x + keep * layer(x)`"
    if isinstance(site, ast.comprehension):
        return "keep every item and weigh it with `torch.where`, or choose outside the compiled region"
    return "select with `torch.where(condition, a, b)`, or use `torch.cond(condition, f, g, (x,))` for costly sides"


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Clamp(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        h = self.proj(x)
        if not torch.isfinite(h).all():  # ~
            h = torch.nan_to_num(h)
        if torch.isinf(h).any() and h.dtype == torch.float16:  # ~
            h = h.clamp(-1e4, 1e4)
        return h * 2
""",
        run="(Clamp(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def validate(scores, low):
    if scores.dim() == 2 and scores.min() < low:  # ~
        raise ValueError("scores below the limit")


def rank(scores):
    validate(scores, -10.0)
    return scores.softmax(-1)
""",
        run="(rank, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, layerdrop=0.5):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.layerdrop = layerdrop

    def forward(self, x):
        for layer in self.layers:
            drop = torch.rand([])
            if self.training and drop < self.layerdrop:  # ~
                continue
            x = layer(x)
        return x
""",
        run="(Encoder(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def positive_rows(x):
    rows = [row * 2 for row in x.unbind(0) if row.sum() > 0]  # ~
    match x.dim():
        case 2 if x.mean() > 0:  # ~
            return torch.stack(rows)
        case _:
            return x
""",
        run="(positive_rows, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def level(x: torch.Tensor):
    x = x * 2
    match x.dim(), x.argmax():
        case 2, 0:  # ~
            return x + 1
        case 1, _:
            return x
    match x.sum():
        case "none" | None:
            return x
        case total:
            return x / total
""",
        run="(level, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=4, gate=None):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.gate = gate
        self.scale = 0.5

    def forward(self, x, mask=None, mode: str = "fast"):
        if x.shape[0] > 1 and x.dtype == torch.float32 and x.is_contiguous() and x.dim() == 2:
            x = x + 1
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        if self.gate and len(x) > 3:
            x = x * self.gate
        if self.training or self.scale > 1 or mode == "slow" or isinstance(x, tuple):
            x = x * self.scale
        if x == None or x.device.type == "cuda":
            return x
        return self.proj(x)
""",
        run="(Block(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def step(x):
    x = torch.where(x.sum() > 0, x + 1, x - 1)
    torch._assert_async(torch.isfinite(x).all(), "not finite")
    keep = (torch.rand(x.shape[0], 1) > 0.1).to(x.dtype)
    rows = [row for row in x.unbind(0) if row.dim() == 1]
    return torch.stack(rows) * keep
""",
        run="(step, [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
