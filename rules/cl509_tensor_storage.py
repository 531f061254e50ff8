"""Replacing or resizing what a tensor is stored in splits the graph.

## What it does
Finds `y.data = ...` on a tensor computed here, `resize_`, `resize_as_`, `set_(storage)`, `apply_` and `map_`, and
methods of a tensor's storage in code that Dynamo traces.

## Why it costs
A graph knows values, not memory. Dynamo accepts a new `.data` only for tensors that existed before the region
(GB0056), does not trace changes of size (GB0126, GB0127) or functions applied to elements in Python (GB0055), and has
no operator for a storage (GB0156).

## Write instead
`y.copy_(value)` or simply `y = value`; `y = y.reshape(...)` or a tensor of the right size instead of `resize_`;
`torch.where` or operators instead of `apply_`.

## Limits
Reading `.data`, changing it in place (`weight.data.mul_(0.9)`, `weight.data[0] = 0`), assigning the `.data` of a
parameter or an input, `y.set_(other)`, `data_ptr()` as a value and `x.untyped_storage().size()` compile. Measured on
torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0055, GB0056, GB0126, GB0127, GB0128, GB0156.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once, made_here
from compilelint.static.values import tensor_certainty

HAZARD = "graph-break"
OF_TENSOR = frozenset({"resize_", "resize_as_", "apply_", "map_"})
"""Methods that nothing but a tensor has, so that an unknown receiver is taken for one."""
STORAGES = ("untyped_storage", "storage", "_typed_storage")
WATCH = Watch(
    nodes=(ast.Call, ast.Assign, ast.AugAssign),
    callees=lambda name: name.rpartition(".")[2] in OF_TENSOR | {"set_"},
    syntax=lambda node, module: bool(data_targets(node)) or is_method_of_storage(node),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per change of what a tensor is stored in."""
    if isinstance(node, ast.stmt):
        for target in data_targets(node):
            yield from replaced(node, target, view)
    elif isinstance(node, ast.Call) and (resized := resizes(node, view)):
        yield Hit(
            node,
            f"`{view.text(node)}` works on the memory of a tensor, which Dynamo does not trace: the graph splits here",
            "make a tensor of the right size and values with operators, or use `copy_`",
            resized,
        )


def data_targets(node: ast.AST) -> list[ast.Attribute]:
    """The `x.data` that a statement assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target for target in targets if isinstance(target, ast.Attribute) and target.attr == "data"]


def is_method_of_storage(node: ast.AST) -> bool:
    """Whether `node` is spelled `x.storage().method()`."""
    owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr in STORAGES


def replaced(node: ast.stmt, target: ast.Attribute, view: View) -> Iterator[Hit]:
    """`y.data = ...`, where `y` was computed in this function."""
    copied = assigned_once(view.function, target.value.id) if isinstance(target.value, ast.Name) else None
    is_copy = isinstance(copied, ast.Call) and view.callee(copied) in ("?.clone", "?.detach")
    certainty = tensor_certainty(view.kind(target.value)) or ("likely" if is_copy else None)
    if certainty and made_here(view.function, target.value):
        name = view.text(target.value)
        yield Hit(
            node,
            f"`{name}` was computed in compiled code, so its `.data` can't be replaced: Dynamo splits the graph here",
            f"write `{name}.copy_(...)`, or bind the name anew: `{name} = ...`",
            certainty,
        )


def resizes(node: ast.Call, view: View) -> Confidence | None:
    """How sure it is that a call changes the size of a tensor, runs Python per element, or works on a storage."""
    owner, _, name = view.callee(node).rpartition(".")
    if name in OF_TENSOR and owner in ("torch.Tensor", "?") and not is_storage(node.func, view):
        return "likely" if owner == "?" else "certain"
    if name == "set_":
        return "certain" if node.args and is_storage(node.args[0], view) else None
    if name == "resize_" or not is_storage(node.func, view):
        return None
    return None if _is_size_in_bytes(node.func) else "certain"


def _is_size_in_bytes(method: ast.expr) -> bool:
    """Whether this is `x.untyped_storage().size`, which Dynamo answers while it traces."""
    made = method.value if isinstance(method, ast.Attribute) and method.attr == "size" else None
    return isinstance(made, ast.Call) and ast.unparse(made.func).endswith(".untyped_storage")


def is_storage(node: ast.expr, view: View) -> bool:
    """Whether `node` is a storage, or an attribute of one: `x.untyped_storage()`, `x.untyped_storage().nbytes`."""
    made = node.value if isinstance(node, ast.Attribute) else node
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
        return False
    owner, _, name = view.callee(made).rpartition(".")
    return name in STORAGES and owner in ("torch.Tensor", "?")


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Clamped(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        kept = h.clone()
        kept.data = torch.zeros(2, 4)  # ~
        return h + kept
""",
        run="(Clamped(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


@torch.compile
def halves(x):
    y = x + 1
    y.resize_(2, 2)  # ~
    bytes_used = x.untyped_storage().nbytes()  # ~
    return y * bytes_used
""",
        run="(halves, [(torch.ones(8),)])",
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


class Ema(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.fc.weight.data = torch.eye(4)

    def forward(self, x):
        self.fc.weight.data.mul_(1.0)
        self.fc.bias.data[0] = 0
        y = x.clone()
        y.copy_(x.data * 2)
        return self.fc(y).reshape(-1) * x.untyped_storage().size()
""",
        run="(Ema(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
