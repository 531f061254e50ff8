"""`out=` that is a strided view, or of another shape than the result: Dynamo leaves the call out of the graph.

## What it does
Finds calls of torch functions whose `out=` is a view that does not lie in one piece: a slice or an index behind a whole
dimension, `out=h[:, 1:]`, one with a step, or something transposed, written there or set in this function. And those
whose `out=` was made empty to be filled, as `torch.empty(0)`, or has another number of dimensions than the result.

## Why it costs
A graph has no `out=`: Dynamo computes the result and then puts it in place, which it does for tensors that are
contiguous and have the shape of the result alone. At others the graph splits (GB0242; GB0247, GB0240 for several), and
in a loop the whole function stays uncompiled.

## Write instead
Assign to the view, which compiles, or give the function a tensor of its own:

    h[:, 1:] = torch.maximum(a, b)           # not torch.maximum(a, b, out=h[:, 1:])
    both = torch.cat([a, b])                 # not torch.cat([a, b], out=torch.empty(0))

## Limits
A view is contiguous after all where the dimensions in front of the slice have size 1; what is transposed twice is taken
for contiguous. Of sizes that do not fit only 0
is looked for. Measured on torch 2.11, 2.13 and 2.14.

## References
torch.compile documentation: "Common Graph Breaks". GB0240, GB0242, GB0247.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_to
from compilelint.static.values import Tensor, constant, options

HAZARD = "graph-break"
EMPTY = frozenset({"empty", "zeros", "ones", "new_empty", "new_zeros"})
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
    made = makers_of(out, view)
    if made and is_tensor(out, view) and all(is_strided(value, view) for value in made):
        yield Hit(
            node,
            f"`out={view.text(out)}` is a view that does not lie in one piece: Dynamo can't write the result there, and"
            " the graph splits",
            f"assign the result: `{view.text(made[0])} = …`" if made[0] is out else "assign the result to the view",
            "likely",
        )
        return
    several = isinstance(out, ast.Tuple)
    parts = out.elts if isinstance(out, ast.Tuple) else [out]
    unfit = next((part for part in parts if is_empty(part, view) or (not several and differs(part, node, view))), None)
    if unfit is not None:
        yield Hit(
            node,
            f"`{view.text(unfit)}` in `out=` has another shape than the result: Dynamo can't write it there, and the"
            " graph splits",
            "assign the result, or make the tensor of its shape",
            "certain" if is_empty(unfit, view) else "likely",
        )


def makers_of(out: ast.expr, view: View) -> tuple[ast.expr, ...]:
    """What makes the tensor, as far as it is written in this function; nothing where a variable comes from outside."""
    return assigned_to(view.function, out.id) if isinstance(out, ast.Name) else (out,)


def is_empty(out: ast.expr, view: View) -> bool:
    """Whether a tensor is made without elements, for a function to resize it."""
    made = makers_of(out, view)
    return bool(made) and all(isinstance(value, ast.Call) and _makes_nothing(value, view) for value in made)


def _makes_nothing(call: ast.Call, view: View) -> bool:
    name = view.callee(call).rpartition(".")[2]
    sizes = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], (ast.Tuple, ast.List)) else call.args
    if name in ("tensor", "Tensor", "FloatTensor"):
        return not sizes and (bool(call.args) or name != "tensor")
    return name in EMPTY and bool(sizes) and isinstance(sizes[0], ast.Constant) and sizes[0].value == 0


def differs(out: ast.expr, call: ast.Call, view: View) -> bool:
    """Whether the number of dimensions is known of a tensor made here and of the result, and is not the same."""
    here, there = view.kind(out), view.kind(call)
    return (
        isinstance(here, Tensor)
        and isinstance(there, Tensor)
        and here.sure
        and None not in (here.rank, there.rank)
        and here.rank != there.rank
        and all(isinstance(value, ast.Call) for value in makers_of(out, view))
    )


def is_tensor(node: ast.expr, view: View) -> bool:
    """Whether a value is nothing but a tensor, of several dimensions as far as is known."""
    return all(isinstance(option, Tensor) for option in options(view.kind(node)))


def is_strided(node: ast.expr, view: View) -> bool:
    """Whether an expression makes a view with gaps of a tensor that has several dimensions, as far as is known."""
    turned = node.func if isinstance(node, ast.Call) else node
    if isinstance(turned, ast.Attribute):
        return (
            turned.attr in TURNED and not _has_one_dimension(turned.value, view) and not _is_turned(turned.value, view)
        )
    if not isinstance(node, ast.Subscript):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if any(
        isinstance(part, ast.Slice) and part.step is not None and view.kind(part.step) != constant(1) for part in parts
    ):
        return True
    spans = [isinstance(part, ast.Slice) or is_ellipsis(part) for part in parts]
    cuts = [is_cut(part) for part in parts]
    first = spans.index(True) if True in spans else len(parts)
    return any(cuts[first + 1 :]) and not _has_one_dimension(node.value, view)


def _has_one_dimension(node: ast.expr, view: View) -> bool:
    return any(isinstance(option, Tensor) and option.rank == 1 for option in options(view.kind(node)))


def _is_turned(node: ast.expr, view: View) -> bool:
    """Whether a tensor is the transposed one of another, so that its own may lie in one piece again."""
    return any(
        isinstance(turned := made.func if isinstance(made, ast.Call) else made, ast.Attribute) and turned.attr in TURNED
        for made in makers_of(node, view)
    )


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
    Example(
        code="""\
import torch


@torch.compile
def summary(x):
    both = torch.empty(0)
    torch.cat([x, x], out=both)  # ~
    values = torch.tensor([])
    places = torch.empty(0, dtype=torch.long)
    torch.max(x, dim=0, out=(values, places))  # ~
    scaled = torch.zeros(())
    torch.mul(torch.zeros(2, 3), 2.0, out=scaled)  # ~
    return both.sum() + values.sum() + scaled.sum()
""",
        run="(summary, [(torch.ones(4, 4),)])",
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
        torch.cos(x, out=out[::1])
        back = torch.empty(4, 4).t()
        back = back.t()
        torch.sin(x, out=back)
        torch.exp(x[0], out=torch.empty(4).t())
        out[:, 1:] = torch.maximum(out[:, 1:], x[:, :-1])
        total, sums = torch.tensor(0.0), torch.zeros(4)
        torch.sum(x, dim=(0, 1), out=total)
        torch.sum(x, dim=0, out=sums)
        return out + self.kept + total + sums
""",
        run="(Pool(), [(torch.ones(4, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
