"""A numpy array of objects or texts is made by Python, not by the graph.

## What it does
Finds, in code that Dynamo traces, calls of numpy that make an array of what is no number: `dtype=object` (or `"O"`,
`str`) in `np.array`, `np.empty`, `np.zeros`, `np.full` and the like, `.astype(object)`, and `np.array(names)` of a list
of texts.

## Why it costs
Inside a graph a numpy array is a torch tensor, and there are none of objects or texts (GB0055, GB0087, GB0250). The
graph ends at the call, and once more at every later use of the array, which Dynamo can't turn into a tensor (GB0185).
`fullgraph=True` raises.

## Write instead
A list, a tuple or a dict, which Dynamo follows entry by entry:

    parts = [None] * count                     # not np.empty(count, dtype=object)
    names = ("left", "right")                  # not np.array(["left", "right"])

## Limits
Arrays of numbers and flags compile. Measured on torch 2.13.

## References
torch.compiler FAQ, "Does NumPy work with torch.compile?". GB0055, GB0087, GB0185, GB0250.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Array, Const, External, Scalar, Sequence, options

HAZARD = "graph-break"
MAKERS = {
    **dict.fromkeys(("array", "asarray", "ascontiguousarray", "empty", "zeros", "ones"), 1),
    **dict.fromkeys(("full", "empty_like", "zeros_like", "ones_like"), 2),
    "full_like": 2,
}
"""Functions of numpy that make an array, with the position of its type."""
OF_LIST = frozenset({"array", "asarray"})
WATCH = Watch(nodes=(ast.Call,), names=frozenset(MAKERS) | {"astype"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per array that is made."""
    if not isinstance(node, ast.Call):
        return
    home, _, name = view.callee(node).rpartition(".")
    if home == "numpy" and name in MAKERS:
        wanted = view.argument(node, MAKERS[name], "dtype")
    elif name == "astype" and isinstance(node.func, ast.Attribute):
        arrays = all(isinstance(option, Array) for option in options(view.kind(node.func.value)))
        wanted = view.argument(node, 0, "dtype") if arrays else None
    else:
        return
    given = node.args[0] if name in OF_LIST and node.args and wanted is None else None
    if (wanted is not None and _of_no_numbers(wanted, view)) or (given is not None and _holds_texts(given, view)):
        yield Hit(
            node,
            f"`{view.text(node)}` is an array of what is no number, which no graph can hold: Dynamo splits the graph"
            " here, and wherever the array is used",
            "use a list, a tuple or a dict, which Dynamo follows entry by entry",
        )


def _of_no_numbers(wanted: ast.expr, view: View) -> bool:
    """Whether a dtype is that of objects or texts."""
    if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str):
        return wanted.value in ("O", "object", "str") or wanted.value.lstrip("<>=|")[:1] in ("U", "S")
    return view.kind(wanted) in (
        External("builtins.object"),
        External("builtins.str"),
        External("numpy.object_"),
        External("numpy.str_"),
    )


def _holds_texts(given: ast.expr, view: View) -> bool:
    """Whether a list or tuple holds texts and nothing else."""
    return all(
        isinstance(option, Sequence)
        and bool(option.items)
        and all(isinstance(item, (Const, Scalar)) and item.type == "str" for item in option.items or ())
        for option in options(view.kind(given))
    )


BAD = (
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        kept = np.empty(2, dtype=object)  # ~
        names = np.array(["left", "right"])  # ~
        return h * 2
""",
        run="(Stages(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def rows(x: torch.Tensor):
    table = (x * 2).numpy().astype(object)  # ~
    return x + 1
""",
        run="(rows, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.names = np.array(["left", "right"])

    def forward(self, x):
        h = self.proj(x)
        kept = [None] * 2
        kept[0] = h
        table = np.full((4,), 0.5, dtype=np.float32) + np.zeros(4, dtype="float32")
        flags = np.array([True, False, True, True], dtype=bool)
        return h * torch.from_numpy(table.astype(np.float32)) * torch.from_numpy(flags) * len(kept)
""",
        run="(Stages(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
