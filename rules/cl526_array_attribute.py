"""`dtype`, `flags` or `base` of a numpy array ends what is compiled of a function.

## What it does
Finds reads of `.dtype`, `.flags` and `.base` of numpy arrays and numpy numbers in code that Dynamo traces.

## Why it costs
Inside a graph a numpy array is a torch tensor in disguise, which has no numpy dtype to give (GB0157). Dynamo can not go
on behind such an attribute: the graph ends before it and the rest of the function runs uncompiled; `fullgraph=True` is
an error. It makes no difference whether the array was made in the region, came in as an argument or lies in an
attribute.

## Write instead
Ask torch, whose dtypes are constants of the graph, or name the type:

    rows = torch.from_numpy(table).to(x.dtype)
    weights = weights.astype(np.float32)             # not weights.astype(other.dtype)

Or read the dtype before the compiled code, and pass it in.

## Limits
`shape`, `ndim`, `size`, `itemsize`, `nbytes`, `strides`, `T`, `real` and `imag` compile; `np.dtype("float32")` and
`tensor.dtype` as well. Code under `isinstance(x, np.ndarray)` is reported only where `x` is known to be one anyway.
Measured on torch 2.13.

## References
torch.compiler FAQ, "Does NumPy work with torch.compile?". GB0157.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Array, Value, options

HAZARD = "graph-break"
READ = frozenset({"dtype", "flags", "base"})
WATCH = Watch(
    nodes=(ast.Attribute,),
    syntax=lambda node, module: isinstance(node, ast.Attribute) and node.attr in READ,
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per attribute read of what is an array and nothing else."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    if not all(isinstance(option, Array) for option in options(view.kind(node.value))):
        return
    if declared_tensor(node.value, view):
        return
    if all(isinstance(option, Array) for value in tested(node.value, view) for option in options(value)):
        yield Hit(
            node,
            f"`{view.text(node)}` is an attribute that an array does not have inside a graph: Dynamo ends the graph"
            " here and leaves the rest of this function uncompiled",
            "name the type (`np.float32`), ask a torch tensor for its dtype, or read it before the compiled code",
            "likely",
        )


def declared_tensor(owner: ast.expr, view: View) -> bool:
    """Whether `owner` is a parameter that is annotated as a tensor, whatever one caller was taken to pass."""
    return isinstance(owner, ast.Name) and any(
        part.arg == owner.id and part.annotation is not None and "Tensor" in ast.unparse(part.annotation)
        for part in ast.walk(view.function)
        if isinstance(part, ast.arg)
    )


def tested(owner: ast.expr, view: View) -> Iterator[Value]:
    """What `owner` was known to be where the function asks for its class: behind the question anything is an array."""
    wanted = ast.unparse(owner)
    for part in ast.walk(view.function):
        asks = isinstance(part, ast.Call) and view.callee(part) == "builtins.isinstance"
        if isinstance(part, ast.Call) and asks and part.args and ast.unparse(part.args[0]) == wanted:
            yield view.kind(part.args[0])


BAD = (
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.table = np.linspace(0.0, 1.0, 4)

    def forward(self, x):
        scale = 2.0 if self.table.dtype == np.float64 else 1.0  # ~
        return self.fc(x) * scale
""",
        run="(Lookup(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import numpy as np
import torch


def rounded(x: torch.Tensor):
    values = x.detach().numpy()
    return torch.from_numpy(np.round(values, 2).astype(values.dtype))  # ~
""",
        run="(rounded, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


def kind_of(value):
    return value.dtype.kind  # ~


class Labels(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        steps = np.arange(x.shape[-1])
        return self.fc(x) + (1 if kind_of(steps) == "i" else 0)
""",
        run="(Labels(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


def upcast(t: torch.Tensor):
    return t if t.dtype in (torch.float32, torch.float64) else t.float()


def corners(boxes):
    return upcast(boxes if isinstance(boxes, torch.Tensor) else np.stack(boxes))


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.table = np.linspace(0.0, 1.0, 4)
        self.kind = self.table.dtype.kind

    def forward(self, x, other=None):
        if isinstance(other, np.ndarray) and other.dtype == np.float64:
            x = x * 2
        rows = torch.from_numpy(self.table.astype(np.float32)).to(x.dtype)
        size = self.table.itemsize * self.table.ndim + np.dtype("float32").itemsize
        return corners(self.fc(x)) + rows * size + (self.kind == "f")
""",
        run="(Lookup(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
