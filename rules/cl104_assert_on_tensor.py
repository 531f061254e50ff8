"""An assert on a tensor splits the graph unless it is plain.

## What it does
Reports `assert` statements on tensor values in the forms that Dynamo does not keep in the graph: with a message that
is made up at run time, with `not`, with a tensor before `and` or `or`, with a chained comparison. From Python 3.12 on
also a plain one that ends the body of a `for` loop, alone or within an `if`.

## Why it costs
`assert t` and `assert t, "text"` become an assertion inside the graph and cost nothing. Dynamo knows them by their
bytecode, a single jump over a constant message. Any other form is an ordinary branch on a tensor: the graph ends
there (GB0170), or Dynamo does not find a text it can keep (GB0171). At the end of a `for` loop Python 3.12 and newer
turn the jump round; a branch on a tensor within a loop leaves the whole function to Python.

## Write instead
A constant message, the comparison turned round, one assert per condition:

    assert torch.isfinite(x).all(), "not finite"
    assert (x > 0).all()
    assert (x < 1).all()

or `torch._assert_async(ok, "message")`, which python -O does not drop.

## Limits
A message held in a variable is not a constant to Dynamo and is reported. Adding strings, or an f-string without
fields, is folded by Python and is fine. Asserts on shapes and numbers never break; for lists and objects see CL110.
Measured on torch 2.13 under Python 3.11 and 3.12; the Python that counts is the one that compilelint runs on.

## References
torch/_dynamo/symbolic_convert.py, the handling of assert; GB0170, GB0171.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from compilelint.model import Rewrite, Safety
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import folded
from compilelint.static.facts.tensors import decided, site_of
from compilelint.static.flagging.rewrites import replace
from compilelint.static.values import Tensor

HAZARD = "graph-break"
WATCH = Watch(tests=True)
NEGATED = "a `not` around it"
PYTHON = sys.version_info[:2]


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per tensor that an assert reads back instead of keeping."""
    if not isinstance(node, ast.expr):
        return
    confidence = decided(node, view)
    if confidence is None:
        return
    site, negated = site_of(node, view)
    if not isinstance(site, ast.Assert):
        return
    why = what_is_odd(node, site, negated)
    if why is None and PYTHON >= (3, 12) and ends_loop(site, view):
        yield Hit(
            node,
            f"this assert on the tensor `{view.text(node)}` ends the body of the loop, where Dynamo takes it for a"
            " branch from Python 3.12 on: the whole function runs uncompiled",
            "put it before another statement of the loop; or `torch._assert_async(condition, text)`",
            confidence,
            "frame-skip",
        )
    if why is not None:
        yield Hit(
            node,
            f"this assert on the tensor `{view.text(node)}` has {why}: it splits the graph",
            'write `assert condition, "constant text"`, one tensor each and without `not`; or `torch._assert_async`',
            confidence,
            rewrite=without_not(node, site, view) if why == NEGATED else None,
        )


def without_not(node: ast.expr, site: ast.Assert, view: View) -> Rewrite | None:
    """`assert not t` as `assert torch.logical_not(t)`, where the `not` is the whole test and one tensor its operand.

    Safe if `t` is what a function of torch gives, and so a tensor for every caller.
    """
    negation = site.test
    if not isinstance(negation, ast.UnaryOp) or negation.operand is not node or not isinstance(view.kind(node), Tensor):
        return None
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        return None
    root: ast.expr = node
    while isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute) and not from_torch(root, view):
        root = root.func.value
    safety: Safety = "safe" if isinstance(root, ast.Call) and from_torch(root, view) else "unsafe"
    title = "negate with `torch.logical_not`, which stays in the graph"
    return replace(negation, "torch.logical_not({part})", node, view, title, safety)


def from_torch(call: ast.Call, view: View) -> bool:
    """Whether this is `torch.isnan(…)` and the like: a function of the package, not a method."""
    return (
        isinstance(view.kind(call), Tensor)
        and not view.callee(call).startswith("torch.Tensor.")
        and (
            isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == "torch"
        )
    )


def what_is_odd(node: ast.expr, site: ast.Assert, negated: bool) -> str | None:
    """Why the assert is more than one jump over a constant message; None if it is not."""
    if site.msg is not None and not folded(site.msg):
        return "a message that is not a constant"
    if negated:
        return NEGATED
    last = site.test
    while isinstance(last, ast.BoolOp):
        last = last.values[-1]
    if node is not last:
        return "more conditions behind it"
    return "a chained comparison" if isinstance(node, ast.Compare) and len(node.ops) > 1 else None


def ends_loop(site: ast.Assert, view: View) -> bool:
    """Whether the next thing after an assert that holds is the next turn of a `for` loop."""
    below: ast.AST = site
    for parent in view.parents(site):
        if isinstance(parent, ast.For):
            return below is parent.body[-1]
        if not isinstance(parent, ast.If) or below not in (parent.body[-1], *parent.orelse[-1:]):
            return False
        below = parent
    return False


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.classes = classes
        self.proj = nn.Linear(4, classes)

    def forward(self, x: torch.Tensor, labels: torch.Tensor):
        assert labels.max() < self.classes, f"a label is not below {self.classes}"  # ~
        return self.proj(x)[:, 0] * labels
""",
        run="(Head(), [(torch.ones(2, 4), torch.tensor([0, 1]))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def normalise(weights: torch.Tensor):
    assert not torch.isnan(weights).any(), "nan"  # ~
    assert (weights >= 0).all() and weights.sum() > 0  # ~
    return weights / weights.sum()
""",
        run="(normalise, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def logits(x: torch.Tensor):
    assert not torch.isnan(x).any(), "nan"  # ~
    return x.log_softmax(-1)
""",
        run="(logits, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.classes = classes
        self.proj = nn.Linear(4, classes)

    def forward(self, x: torch.Tensor, labels: torch.Tensor):
        assert x.shape[0] == labels.shape[0], f"{x.shape[0]} rows, {labels.shape[0]} labels"
        assert not self.proj.bias is None and x.dim() == 2, "shape"
        assert labels.max() < self.classes, "a label is out of " "range"
        assert x.dim() == 2 and torch.isfinite(x).all()
        for row in range(2):
            if row:
                assert x[row].sum() < 1e6
            labels = labels + row
        while row < 3:
            row += 1
            assert x.sum() < 1e6
        return self.proj(x)[:, 0] * labels
""",
        run="(Head(), [(torch.ones(2, 4), torch.tensor([0, 1]))])",
        default="clean",
        fullgraph="clean",
    ),
)
