"""`round`, `divmod` and other number builtins on a tensor split the graph.

## What it does
Reports the builtins `round`, `divmod`, `complex`, `hex`, `bin`, `oct` and `chr` with a tensor as argument, and `max`
and `min` of a tensor and a size, such as `max(lengths.max(), x.shape[1])`.

## Why it costs
Dynamo knows `abs`, `max`, `min`, `sum` and `len` of tensors and turns them into operations. The others it does not
know, or not for tensors (GB0059; GB6270 for `round`; `divmod` fails so late that the frame runs uncompiled, GB0088).
The graph ends at the call and `fullgraph=True` raises, although the operator form of the same computation compiles.
`max` of a tensor and a size compiles as long as the size is a constant: once a second size makes it dynamic, the tensor
is read back to be compared (GB0033).

## Write instead
    torch.round(t)             # or t.round(), not round(t)
    t // n, t % n              # not divmod(t, n)
    torch.complex(a, b)        # not complex(a)
    t.clamp(min=x.shape[1])    # not max(t, x.shape[1])

## Limits
On Python numbers and shapes the builtins compile, and so do `max` and `min` of tensors alone or with a constant. `pow`
has a rule of its own, builtin-pow. Measured on torch 2.13.

## References
torch/_dynamo/graph_break_registry.json: GB0033, GB0059, GB0088, GB6270.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.tensors import data, on_error_path
from compilelint.static.values import Scalar

HAZARD = "graph-break"
INSTEAD = {
    "round": "write `t.round()`, with `decimals=` where wanted",
    "divmod": "write `t // n` and `t % n`",
    "complex": "write `torch.complex(real, imaginary)`",
}
BOUNDS = {"max": "min", "min": "max"}
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"round", "divmod", "complex", "hex", "bin", "oct", "chr", *BOUNDS}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call with a tensor among its arguments; for `max` and `min`, beside a size."""
    if not isinstance(node, ast.Call):
        return
    module, _, name = view.callee(node).rpartition(".")
    if module != "builtins" or name not in WATCH.names or on_error_path(node, view):
        return
    found = [confidence for argument in node.args if (confidence := data(view.kind(argument)))]
    if found and name in BOUNDS:
        yield from compared_with_size(node, name, view)
    elif found:
        yield Hit(
            node,
            f"Dynamo does not trace the builtin `{name}` of a tensor: `{view.text(node)}` splits the graph",
            INSTEAD.get(name, "keep to tensor operations, or do this outside the compiled region"),
            "certain" if "certain" in found else "likely",
            "frame-skip" if name == "divmod" else None,
        )


def compared_with_size(node: ast.Call, name: str, view: View) -> Iterator[Hit]:
    """A hit if one argument is a size; which of two tensors is greater, the graph can say."""
    sizes = [argument for argument in node.args if is_size(argument, view)]
    tensors = [argument for argument in node.args if data(view.kind(argument))]
    if sizes and tensors:
        yield Hit(
            node,
            f"`{view.text(node)}` compares the tensor `{view.text(tensors[0])}` with a size: once that is dynamic,"
            " Dynamo reads the tensor back and splits the graph",
            f"write `{view.text(tensors[0])}.clamp({BOUNDS[name]}={view.text(sizes[0])})`",
            "likely",
        )


def is_size(node: ast.expr, view: View) -> bool:
    """A Python number that comes from a shape, or is computed from one."""
    value = view.kind(node)
    return isinstance(value, Scalar) and value.origin == "shape"


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Similarity(nn.Module):
    def __init__(self, k=0.01):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.k = k

    def forward(self, x):
        h = self.proj(x)
        scaled, rest = divmod(h.mean(), self.k)  # ~
        return h * scaled + rest
""",
        run="(Similarity(), [(torch.eye(4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def snap(x: torch.Tensor):
    x = x * 2
    return x + round(x.mean())  # ~
""",
        run="(snap, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def spread(x: torch.Tensor, counts: torch.Tensor):
    width = max(counts.max(), x.shape[0])  # ~
    few = min(len(x) // 2, counts.min())  # ~
    return x * width + few
""",
        run="(spread, [(torch.ones(n, 2), torch.tensor([1, 5])) for n in (2, 4)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Similarity(nn.Module):
    def __init__(self, k=0.01):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.k = k

    def forward(self, x: torch.Tensor):
        h = self.proj(x)
        rows, rest = divmod(x.shape[0], 3)
        half = round(x.shape[-1] / 2) + pow(2, rows) + rest
        low, high = min(h.max(), h.mean()), max(h.min(), 3) + h.max().clamp(min=x.shape[0])
        return h / (self.k * h.max()) ** 2 + abs(h.mean()).round() + sum(h) * half + low + high + torch.pow(h, 2)
""",
        run="(Similarity(), [(torch.eye(4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
