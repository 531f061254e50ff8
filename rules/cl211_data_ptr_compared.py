"""Computing with a tensor's address gives the compiled function up.

## What it does
Reports `t.data_ptr()` in a comparison or in arithmetic: alignment checks (`t.data_ptr() % 16`), tests for shared
memory (`a.data_ptr() == b.data_ptr()`), also through one variable.

## Why it costs
While tracing there is no memory and no address. Dynamo carries the call along, but any operation on the result fails
in the middle of an expression (GB0088) and the frame runs uncompiled; comparing two addresses breaks (GB5976, from
torch 2.13 on). `fullgraph=True` raises.

## Write instead
Hide the pointer inside a custom operator (`torch.library.custom_op`) that does the check and the launch, or check
before the compiled region. For "is it the same tensor" Python's `a is b` is traced.

## Limits
A `data_ptr()` that is only passed on, to a kernel or a dict, compiles and is not reported. Measured on torch 2.13.

## References
torch/_dynamo/graph_break_registry.json: GB0088, GB5976. PyTorch documentation: "Custom Python Operators".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.state import own_nodes

HAZARD = "frame-skip"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"data_ptr"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per address that is computed with."""
    if not isinstance(node, ast.Call) or view.callee(node) != "torch.Tensor.data_ptr":
        return
    parent = next(iter(view.parents(node)), None)
    if isinstance(parent, ast.Assign):
        yield from _used_later(parent, view)
        return
    if not isinstance(parent, (ast.BinOp, ast.Compare)) or _is_known(parent):
        return
    plain = isinstance(parent, ast.Compare) and all(isinstance(op, (ast.Eq, ast.NotEq)) for op in parent.ops)
    yield Hit(
        node,
        f"`{view.text(parent)}` computes with an address, and there is none while tracing: "
        + ("the graph splits here" if plain else "the whole function runs uncompiled"),
        "check in a custom operator (`torch.library.custom_op`) or before the region; for identity use `is`",
        hazard="graph-break" if plain else None,
    )


def _used_later(assigned: ast.Assign, view: View) -> Iterator[Hit]:
    """The first operation on a variable that holds an address and nothing else."""
    target = assigned.targets[0]
    if not isinstance(target, ast.Name) or assigned_once(view.function, target.id) is not assigned.value:
        return
    for node in own_nodes(view.function):
        sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
        sides += [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if isinstance(node, ast.expr) and any(isinstance(s, ast.Name) and s.id == target.id for s in sides):
            if _is_known(node):
                continue
            yield Hit(
                node,
                f"`{view.text(node)}` computes with an address (line {assigned.lineno}), and there is none while"
                " tracing: the whole function runs uncompiled",
                "check in a custom operator (`torch.library.custom_op`) or before the region; for identity use `is`",
            )
            return


def _is_known(node: ast.expr) -> bool:
    """Whether a comparison of an address has an answer without one: `address is None`, one with itself."""
    if not isinstance(node, ast.Compare):
        return False
    by_identity = all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
    return by_identity or len({ast.dump(side) for side in (node.left, *node.comparators)}) == 1


BAD = (
    Example(
        code="""\
import torch
from torch import nn


def aligned(x: torch.Tensor):
    address = x.data_ptr()
    return x if address % 16 == 0 else x.clone()  # ~


class Aligned(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor):
        if x.data_ptr() % 16 != 0:  # ~
            x = x.clone()
        return self.proj(aligned(x))
""",
        run="(Aligned(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def merge(a: torch.Tensor, b: torch.Tensor):
    a, b = a + 1, b * 2
    if a.data_ptr() == b.data_ptr():  # ~
        return a
    return a + b
""",
        run="(merge, [(torch.ones(2), torch.ones(2))])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch


def launch(address):
    return 0


def merge(a: torch.Tensor, b: torch.Tensor):
    y = a + b
    address = y.data_ptr()
    launch(address)
    if a is b or address is None:
        return y
    return y * 2
""",
        run="(merge, [(torch.ones(2), torch.ones(2))])",
        default="clean",
        fullgraph="clean",
    ),
)
