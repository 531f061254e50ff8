"""A size that is put into a name or key pins it: each size compiles the function again.

## What it does
Finds, in compiled code, a size of a tensor in a text that picks something: `getattr(self, f"layer_{x.shape[0]}")`,
`self.tables[f"{n}"]`, `setattr(self, f"mask_{n}", mask)`.

## Why it costs
A text is a constant to Dynamo. The size in it is pinned to its value, `x.size(0) == 3`, and takes no part in dynamic
shapes any more: measured on torch 2.13, 3 sizes compile 3 times instead of twice, and so on to the recompile limit.

## Write instead
Pick outside of the compiled code and pass what was picked, or index a stacked tensor with the size:
`self.table[n]` with a tensor of all tables.

## Limits
Few sizes are fine: each is compiled once. A text that only goes into an error message pins nothing. `str(n)` of a size
that has become a symbol is a graph break of its own (GB0059).

## References
PyTorch documentation "Dynamic shapes".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once
from compilelint.static.values import Scalar, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Call, ast.Subscript))
PICKING = frozenset({"builtins.getattr", "builtins.setattr", "builtins.hasattr"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the name or key with a size in it."""
    name: ast.expr | None = None
    if isinstance(node, ast.Call):
        if view.callee(node) in PICKING and len(node.args) >= 2:
            name = node.args[1]
    elif isinstance(node, ast.Subscript):
        name = node.slice
    size = _size_in(name, view) if name is not None else None
    if size is not None and isinstance(node, ast.expr):
        yield Hit(
            node,
            f"`{view.text(size)}` is part of a name here: Dynamo pins the size to its value, so every other size"
            " compiles again",
            "pick outside of the compiled code, or index one stacked tensor with the size",
            "likely",
        )


def _size_in(name: ast.expr, view: View) -> ast.expr | None:
    """The size that a text is made of; None if `name` is no such text."""
    made = assigned_once(view.function, name.id) if isinstance(name, ast.Name) else name
    parts = made.values if isinstance(made, ast.JoinedStr) else []
    sizes = [part.value for part in parts if isinstance(part, ast.FormattedValue) and _is_size(part.value, view)]
    return sizes[0] if sizes else None


def _is_size(node: ast.expr, view: View) -> bool:
    return all(isinstance(option, Scalar) and option.origin == "shape" for option in options(view.kind(node)))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Picked(nn.Module):
    def __init__(self):
        super().__init__()
        self.level_2, self.level_3, self.level_4 = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.heads = nn.ModuleDict({str(n): nn.Linear(4, 4) for n in range(8)})

    def forward(self, x):
        n = x.shape[0]
        h = getattr(self, f"level_{n}")(x)  # ~
        return self.heads[f"{n}"](h)  # ~
""",
        run="(Picked(), [(torch.ones(n, 4),) for n in (2, 3, 4)])",
        default="recompile",
        fullgraph="recompile",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Picked(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.level_0, self.level_1 = nn.Linear(4, 4), nn.Linear(4, 4)
        self.depth = depth
        self.heads = nn.ModuleDict({"2": nn.Linear(4, 4)})

    def forward(self, x):
        if x.shape[-1] != 4:
            raise ValueError(f"expected 4 columns, not {x.shape[-1]}")
        for level in range(self.depth):
            x = getattr(self, f"level_{level}")(x)
        return self.heads[str(self.depth)](x)
""",
        run="(Picked(), [(torch.ones(n, 4),) for n in (2, 2)])",
        default="clean",
        fullgraph="clean",
    ),
)
