"""A step that only one of eager and compiled code takes gives two results for one model.

## What it does
Finds `if not torch.compiler.is_compiling(): x = x + noise` and `if torch.compiler.is_compiling(): x = x.clamp(…)`
without an `else`, where the branch changes a tensor that the function goes on with.

## Why it costs
Dynamo takes the branch for what it is and leaves the other one out: compiled and eager code compute different things,
by design and without a word. Tests that run eagerly pass, and the numbers change with the deployment. Measured on
torch 2.13.

## Write instead
Keep to logging, checks and shortcuts that give the same values inside such a branch. What the model computes hangs on a
setting of its own: `if self.add_noise:`.

## Limits
Copies, casts and layout (`clone`, `contiguous`, `detach`, `to`) are taken to change nothing. Of an `if` with an `else`
both sides are taken to compute the same in two ways.

## References
PyTorch documentation, `torch.compiler.is_compiling`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import own_nodes
from compilelint.static.values import tensor_certainty

HAZARD = "stale-result"
WATCH = Watch(nodes=(ast.If,), syntax=lambda node, module: _asks_compiler(node) is not None)
SAME_VALUES = frozenset(
    "contiguous clone detach to type type_as float half bfloat16 double cuda cpu requires_grad_ view reshape as_tensor "
    "view_as as_subclass unwrap wait_tensor".split()
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the test whose branch changes a tensor in one of the two worlds."""
    if not isinstance(node, ast.If) or node.orelse:
        return
    when = _asks_compiler(node)
    for statement in node.body:
        changed = _changed(statement)
        if changed is not None and _is_tensor_later(changed, node, view):
            yield Hit(
                node.test,
                f"`{changed.id}` is changed in {'compiled' if when else 'eager'} code only (line {statement.lineno}):"
                " the model computes something else once it is compiled",
                "make it a setting of the model (`if self.add_noise:`), and keep such branches to logging and checks",
                "likely",
            )
            return


def _asks_compiler(node: ast.AST) -> bool | None:
    """Whether a branch is for compiled code; None for one that does not ask."""
    test = node.test if isinstance(node, ast.If) else None
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    call = test.operand if isinstance(test, ast.UnaryOp) else test
    if isinstance(call, ast.Call) and last_name(call.func) in ("is_compiling", "is_dynamo_compiling"):
        return not negated
    return None


def _changed(statement: ast.stmt) -> ast.Name | None:
    """The variable that a statement computes anew from itself: `h = h + 1`, `h *= scale`."""
    if isinstance(statement, ast.AugAssign):
        return statement.target if isinstance(statement.target, ast.Name) else None
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(value, ast.Call) and last_name(value.func) in SAME_VALUES:
        return None
    if not isinstance(value, (ast.BinOp, ast.Call, ast.UnaryOp)):
        return None
    return target if any(isinstance(part, ast.Name) and part.id == target.id for part in ast.walk(value)) else None


def _is_tensor_later(name: ast.Name, branch: ast.If, view: View) -> bool:
    """Whether the function reads the variable behind the branch, as a tensor."""
    return any(
        isinstance(node, ast.Name)
        and node.id == name.id
        and isinstance(node.ctx, ast.Load)
        and node.lineno > (branch.end_lineno or branch.lineno)
        and tensor_certainty(view.kind(node)) is not None
        for node in own_nodes(view.function)
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        if not torch.compiler.is_compiling():  # ~
            h = h + 0.1
        return torch.relu(h)
""",
        run="(Noisy(), [(torch.ones(2, 4),)])",
        default="stale",
        fullgraph="stale",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        if torch.compiler.is_compiling():
            x = x.contiguous()
        h = self.proj(x)
        if not torch.compiler.is_compiling():
            limit = h.abs().max()
            if limit > 1e6:
                raise ValueError("too large")
        if torch.compiler.is_compiling():
            h = torch.relu(h)
        else:
            h = h.clamp(min=0)
        return h
""",
        run="(Checked(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
