"""`out=` that is a strided view: Dynamo leaves the call out of the graph.

## What it does
Finds calls of torch functions whose `out=` is a view that does not lie in one piece: a slice or an index behind a whole
dimension, `out=h[:, 1:]`, one with a step, or something transposed, written there or set in this function.

## Why it costs
A graph has no `out=`: Dynamo computes the result and then puts it in place, which it does for tensors that are
contiguous alone. At others the graph splits (GB0242), and in a loop the whole function stays uncompiled.

## Write instead
Assign to the view, which compiles, or give the function a tensor of its own:

    h[:, 1:] = torch.maximum(a, b)           # not torch.maximum(a, b, out=h[:, 1:])

## Limits
A view is contiguous after all where the dimensions in front of the slice have size 1. Sizes that do not fit `out=`
split the graph as well and are not looked for. Measured on torch 2.11, 2.13 and 2.14.

## References
torch.compile documentation: "Common Graph Breaks". GB0242.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_to
from compilelint.static.values import Tensor, options

HAZARD = "graph-break"
TURNED = frozenset({"t", "transpose", "permute", "swapaxes", "swapdims", "movedim", "T", "mT"})


def has_out(node: ast.AST, module: ast.Module) -> bool:
    """Whether a call passes `out`."""
    return isinstance(node, ast.Call) and any(keyword.arg == "out" for keyword in node.keywords)


WATCH = Watch(nodes=(ast.Call,), syntax=has_out)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call."""
    if not isinstance(node, ast.Call) or not view.callee(node).startswith("torch."):
        return
    out = next(keyword.value for keyword in node.keywords if keyword.arg == "out")
    made = assigned_to(view.function, out.id) if isinstance(out, ast.Name) else (out,)
    if made and is_tensor(out, view) and all(is_strided(value, view) for value in made):
        yield Hit(
            node,
            f"`out={view.text(out)}` is a view that does not lie in one piece: Dynamo can't write the result there, and"
            " the graph splits",
            f"assign the result: `{view.text(made[0])} = …`" if made[0] is out else "assign the result to the view",
            "likely",
        )


def is_tensor(node: ast.expr, view: View) -> bool:
    """Whether a value is nothing but a tensor, of several dimensions as far as is known."""
    return all(isinstance(option, Tensor) for option in options(view.kind(node)))


def is_strided(node: ast.expr, view: View) -> bool:
    """Whether an expression makes a view with gaps of a tensor that has several dimensions, as far as is known."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in TURNED
    if isinstance(node, ast.Attribute):
        return node.attr in TURNED
    if not isinstance(node, ast.Subscript):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if any(isinstance(part, ast.Slice) and part.step is not None for part in parts):
        return True
    spans = [isinstance(part, ast.Slice) or is_ellipsis(part) for part in parts]
    cuts = [is_cut(part) for part in parts]
    first = spans.index(True) if True in spans else len(parts)
    one_dimension = any(isinstance(option, Tensor) and option.rank == 1 for option in options(view.kind(node.value)))
    return any(cuts[first + 1 :]) and not one_dimension


def is_cut(part: ast.expr) -> bool:
    """Whether a part of an index takes less than the whole dimension; an index of unknown kind is an int mostly."""
    if isinstance(part, ast.Slice):
        return part.lower is not None or part.upper is not None
    return not is_ellipsis(part) and not (isinstance(part, ast.Constant) and part.value is None)


def is_ellipsis(part: ast.expr) -> bool:
    """Whether a part of an index is `...`."""
    return isinstance(part, ast.Constant) and part.value is Ellipsis


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Pool(nn.Module):
    def forward(self, x):
        out = torch.tanh(x)
        torch.maximum(out[:, 1:], x[:, :-1], out=out[:, 1:])  # ~
        return out
""",
        run="(Pool(), [(torch.ones(4, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def scores(x: torch.Tensor, last: bool):
    table = torch.zeros(x.shape[0], 3, 4)
    if last:
        place = table[..., 1:3]
    else:
        place = table[:, :, :2]
    torch.mul(x, 2.0, out=place)  # ~
    return table


def turned(x: torch.Tensor):
    table = torch.zeros(4, 4)
    torch.add(x, 1.0, out=table.t())  # ~
    return table


@torch.compile
def both(x):
    return scores(x[:, None, :2].expand(-1, 3, -1), True).sum() + turned(x)
""",
        run="(both, [(torch.ones(4, 4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 4))

    def forward(self, x):
        out = torch.tanh(x)
        torch.maximum(out[1:], x[:-1], out=out[1:])
        torch.add(x[0], 1.0, out=out[0])
        torch.mul(x[0, :2], 2.0, out=out[0, :2])
        torch.sub(x, 1.0, out=self.kept)
        out[:, 1:] = torch.maximum(out[:, 1:], x[:, :-1])
        return out + self.kept
""",
        run="(Pool(), [(torch.ones(4, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
