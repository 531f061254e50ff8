"""`not tensor` as a value makes the whole frame run uncompiled.

## What it does
Reports `not t` where the result is kept, returned or passed on, and `t not in (...)`, whose result Python negates the
same way.

## Why it costs
Negating is not a jump that Dynamo could resume from: it reads the tensor's value in the middle of an expression
(GB0033) and, having no place to split, gives the frame up. No graph is left of the function (measured: 0 graphs on
torch 2.13). Right inside `if not t:` Python makes a jump of it, and that is an ordinary break. `fullgraph=True`
raises.

## Write instead
The tensor operation gives a tensor and stays in the graph:

    dead = ~alive                 # bool tensors
    dead = torch.logical_not(x)   # any element type

## Limits
Operands of `not` that are Python values are fine, and `not t.item()` is reported at the read-back. Measured on torch
2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0033.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import decided, site_of

HAZARD = "frame-skip"
WATCH = Watch(tests=True)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per `not` whose operand is a tensor and whose result is more than a jump."""
    if not isinstance(node, ast.expr):
        return
    confidence = decided(node, view)
    if confidence is None:
        return
    site, negated = site_of(node, view)
    if negated and isinstance(site, (ast.BoolOp, ast.UnaryOp)):
        yield Hit(
            node,
            f"`not {view.text(node)}` reads a tensor back mid-expression: the whole function runs uncompiled",
            "negate on the device: `~t` for a bool tensor, `torch.logical_not(t)` for any other",
            confidence,
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        empty = not mask.any()  # ~
        return self.proj(x) * (1 - int(empty))
""",
        run="(Pool(), [(torch.ones(2, 4), torch.ones(2, dtype=torch.bool))])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def usable(ids):
    return ids.dim() == 2 and not (ids < 0).any()  # ~


def embed(ids, table):
    h = table[ids]
    return h * 2 if usable(ids) else h
""",
        run="(embed, [(torch.ones(2, 4, dtype=torch.long), torch.ones(3, 4))])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.causal = causal

    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        full = not self.causal and not x.requires_grad
        given = not (mask is None or x.shape[0] == 0)
        empty = torch.logical_not(mask.any())
        alive = ~mask
        return self.proj(x) * (1.0 - empty.to(x.dtype)) * int(full) * given * alive[:, None]
""",
        run="(Pool(), [(torch.ones(2, 4), torch.ones(2, dtype=torch.bool))])",
        default="clean",
        fullgraph="clean",
    ),
)
