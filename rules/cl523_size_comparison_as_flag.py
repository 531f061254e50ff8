"""A flag that compares sizes is no Python bool once the size varies, and torch's operators refuse it.

## What it does
Finds a comparison of sizes, `x.shape[1] > 1` or `mask is None and n > 1`, that is passed to an operator of torch as a
flag: `is_causal`, `keepdim`, `training`, `align_corners`, `descending` and their like.

## Why it costs
The first call compiles: sizes are constants there. When a second size comes, Dynamo makes that dimension symbolic,
and the comparison is a symbolic bool, which operators written in C++ do not take (`must be bool, not SymBool`). The
graph splits at the call, in all layers, from the second size on.

## Write instead
Let Python decide, so that Dynamo guards on the outcome and goes on with a constant:

    is_causal = True if x.shape[1] > 1 else False
    x = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

## Limits
`bool(n > 1)` stays symbolic. `not n == 1` and `n > 1 and flag`, whose value is the flag, are decided while tracing and
compile, and so do a comparison of `x.dim()` and any in arithmetic or in `torch.where`. With sizes that never change
nothing breaks: `enable_gqa` is left out, since it compares numbers of heads. Measured on torch 2.11, 2.13 and 2.14.

## References
torch.compile documentation: "Dynamic Shapes".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_to, last_name
from compilelint.static.values import Scalar, options

HAZARD = "graph-break"
FLAGS = frozenset(
    (
        "is_causal keepdim training train align_corners antialias descending largest sorted unbiased copy"
        " scale_grad_by_freq ceil_mode count_include_pad return_inverse return_counts"
    ).split()
)
BY_POSITION = {"scaled_dot_product_attention": (5, "is_causal"), "dropout": (2, "training")}
"""Flags that are mostly written without their name."""


def flags_of(call: ast.Call, view: View) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of a call that must be Python bools, each with its name."""
    yield from ((k.arg, k.value) for k in call.keywords if k.arg in FLAGS)
    position, name = BY_POSITION.get(view.callee(call).rpartition(".")[2], (0, ""))
    if name and len(call.args) > position:
        argument = view.argument(call, position, name)
        if argument is not None:
            yield name, argument


def compares_sizes(node: ast.expr, view: View, seen: frozenset[str] = frozenset()) -> bool:
    """Whether the value of `node` may be the outcome of a comparison of sizes that nobody asked for its truth."""
    if isinstance(node, ast.Name):
        made = assigned_to(view.function, node.id)
        if made:
            return node.id not in seen and any(compares_sizes(part, view, seen | {node.id}) for part in made)
    if isinstance(node, ast.BoolOp):
        return compares_sizes(node.values[-1], view, seen)  # the operands before it are asked for their truth
    if isinstance(node, ast.Call) and view.callee(node) == "builtins.bool" and node.args:
        return compares_sizes(node.args[0], view, seen)
    return any(option == Scalar("bool", "shape") for option in options(view.kind(node)))


def _has_flags(node: ast.AST, module: ast.Module) -> bool:
    return isinstance(node, ast.Call) and (
        any(k.arg in FLAGS for k in node.keywords) or last_name(node.func) in BY_POSITION
    )


WATCH = Watch(nodes=(ast.Call,), syntax=_has_flags)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call of an operator with such a flag."""
    if not isinstance(node, ast.Call) or not view.callee(node).startswith("torch.") or "__call__" in view.callee(node):
        return
    for name, argument in flags_of(node, view):
        if compares_sizes(argument, view):
            yield Hit(
                node,
                f"`{name}={view.text(argument)}` compares sizes: once one varies, it is no bool that the operator takes"
                ", and the graph splits here",
                f"decide in Python, `True if {view.text(argument)} else False`, which Dynamo guards on",
                "likely",
            )
            return


BAD = (
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 12)
        self.is_causal = True

    def forward(self, x, mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        is_causal = self.is_causal and mask is None and q.shape[1] > 1
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)  # ~
""",
        run="(Attention(), [(torch.ones(2, n, 4),) for n in (5, 6)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def order(x: torch.Tensor):
    long = len(x) >= 4
    if long:
        x = x * 2
    return x.sum(0, keepdim=bool(long))  # ~
""",
        run="(order, [(torch.ones(n, 4),) for n in (5, 6)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 12)
        self.is_causal = True

    def forward(self, x, mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        is_causal = q.shape[1] > 1 and mask is None and self.is_causal
        y = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        y = y + F.scaled_dot_product_attention(q, k, v, is_causal=True if q.shape[1] > 1 else False)
        y = F.dropout(y, 0.1, training=not x.shape[1] == 1)
        y = y - y.mean(-1, keepdim=x.dim() > 2) + y.amax(-1, keepdim=2 < y.ndim)
        return y * (x.shape[1] > 1)


def tokens(count):
    x = torch.ones(2, count, 4)
    torch._dynamo.mark_dynamic(x, 1)
    return x
""",
        run="(Attention(), [(tokens(5),), (tokens(6),)])",
        default="clean",
        fullgraph="clean",
    ),
)
