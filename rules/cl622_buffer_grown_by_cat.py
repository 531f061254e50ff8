"""A buffer that compiled code makes longer with `cat` compiles again at every call.

## What it does
Finds `self.cache = torch.cat([self.cache, x])` in compiled code where `cache` is a registered buffer of the module.

## Why it costs
Dynamo takes the shapes of parameters and buffers for fixed. The call makes the buffer longer, so the next call fails
the guard and compiles again: measured on torch 2.13, 8 of 8 calls, then the recompile limit is hit and the function
runs uncompiled. A plain tensor attribute compiles twice, since its size becomes a symbol; both copy the cache each
time.

## Write instead
Allocate it once and write in place:

    self.register_buffer("cache", torch.zeros(max_length, dim))
    self.cache.index_copy_(0, self.position, x)          # `position` a buffer too

or keep the cache outside and pass it in and out.

## References
PyTorch documentation "Dynamic shapes"; config `force_nn_module_property_static_shapes`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import (
    class_node,
    functions_in,
    is_module,
    is_same_object_next_call,
    own_nodes,
    same_place,
)

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Assign,))
JOINING = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.hstack", "torch.vstack"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the assignment by which a buffer gets longer."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return
    target = node.targets[0]
    if not isinstance(target, ast.Attribute) or view.callee(node.value) not in JOINING:
        return
    parts = view.argument(node.value, 0, "tensors")
    joined = parts.elts if isinstance(parts, (ast.List, ast.Tuple)) else []
    if not any(same_place(part, target) for part in joined) or not is_module(view.kind(target.value)):
        return
    if is_same_object_next_call(target, view) and _is_buffer(target, view) and not _is_reset(target, node, view):
        yield Hit(
            node,
            f"`{view.text(target)}` is a buffer that gets longer with each call, and Dynamo keeps the shapes of buffers"
            " fixed: every call compiles again until the limit, then the function runs uncompiled",
            "allocate it for the largest length and write in place (`index_copy_`), or pass the cache in and out",
            "likely" if view.assumed else "certain",
        )


def _is_buffer(target: ast.Attribute, view: View) -> bool:
    """Whether the class registers a buffer of that name."""
    owner = class_node(view.kind(target.value), view)
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "register_buffer"
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == target.attr
        for function in (functions_in(owner) if owner is not None else ())
        for node in own_nodes(function)
    )


def _is_reset(target: ast.Attribute, growth: ast.Assign, view: View) -> bool:
    """Whether the function also sets the buffer some other way, such as cutting it back."""
    return any(
        isinstance(node, ast.Assign) and node is not growth and any(same_place(t, target) for t in node.targets)
        for node in own_nodes(view.function)
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 4))

    def forward(self, x):
        self.keys = torch.cat([self.keys, x])  # ~
        return x @ self.keys.mT
""",
        run="(Cached(), [(torch.ones(1, 4),) for _ in range(4)])",
        default="recompile",
        fullgraph="recompile",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.keys.index_copy_(0, self.position, x)
        self.position += 1
        return x @ self.keys.mT
""",
        run="(Cached(), [(torch.ones(1, 4),) for _ in range(4)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # The window keeps its length.
        code="""\
import torch
from torch import nn


class Window(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4))

    def forward(self, x):
        self.keys = torch.cat([self.keys[1:], x])
        return x @ self.keys.mT
""",
        run="(Window(), [(torch.ones(1, 4),) for _ in range(4)])",
        default="clean",
        fullgraph="clean",
    ),
)
