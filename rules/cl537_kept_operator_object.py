"""A kept `itemgetter`, `attrgetter` or `methodcaller`, or a `numpy.vectorize`, splits the graph when it is called.

## What it does
Reports calls of what `operator.itemgetter(…)`, `operator.attrgetter(…)` or `operator.methodcaller(…)` made, where an
object, a class or the file keeps it: `self.pick = operator.itemgetter(0)`, later `self.pick(outputs)`. And calls of
what `numpy.vectorize` or `numpy.poly1d` made, wherever it is.

## Why it costs
Dynamo has Python versions of the three, which it puts in where compiled code makes one itself. One that was made before
is an object of C code to it, whose call it cannot trace (`__call__` of class `itemgetter`, GB0156): the graph splits,
and in a loop the whole function stays uncompiled. Torch has no version of NumPy's two at all (GB0008). `fullgraph=True`
raises.

## Write instead
What it stands for, or make it where it is called:

    first = outputs[0]                       # not self.pick(outputs)
    first = operator.itemgetter(0)(outputs)  # compiles as well

What `numpy.vectorize` runs entry by entry, operators of torch do at once.

## Limits
As `key=` of `sorted` in compiled code they are mostly made on the spot, and are fine. So are kept functions of the
module itself (`self.compare = operator.gt`). Measured on torch 2.13.

## References
torch/_dynamo/graph_break_registry.json: GB0008, GB0156.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import is_global

HAZARD = "graph-break"
OBJECTS = frozenset({"operator.itemgetter", "operator.attrgetter", "operator.methodcaller"})
NEVER_TRACED = frozenset({"numpy.vectorize.__call__", "numpy.poly1d.__call__"})
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name.removesuffix(".__call__") in OBJECTS or name in NEVER_TRACED)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call of one that is kept."""
    if not isinstance(node, ast.Call) or not view.callee(node).endswith(".__call__"):
        return
    made = view.callee(node).removesuffix(".__call__")
    if view.callee(node) in NEVER_TRACED:
        yield Hit(
            node,
            f"`{view.text(node.func)}` is a `{made}`, whose call Dynamo does not trace: the graph splits here",
            "compute it with operators of torch, or before the compiled code",
        )
        return
    kept = isinstance(node.func, ast.Attribute) or (isinstance(node.func, ast.Name) and is_global(node.func.id, view))
    if kept:
        yield Hit(
            node,
            f"`{view.text(node.func)}` is an `{made}` that was made before: Dynamo does not trace its call and splits"
            " the graph here",
            "write the index, attribute or method call itself, or make it where it is called",
            "likely",
        )


BAD = (
    Example(
        code="""\
import operator

import torch
from torch import nn

WIDTH = operator.attrgetter("shape")


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.pick = operator.itemgetter(0)

    def forward(self, x):
        h = self.pick((self.proj(x), x))  # ~
        return h / WIDTH(x)[-1]  # ~
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


@np.vectorize
def clipped(value):
    return min(value, 1.0)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.curve = np.poly1d([1.0, 2.0])

    def forward(self, x):
        low = clipped(0.5)  # ~
        return self.proj(x) * self.curve(2.0)  # ~
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import operator

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.combine = operator.add

    def forward(self, x):
        pick = operator.itemgetter(0)
        h = pick((self.proj(x), x))
        order = sorted([(2, 1), (1, 2)], key=operator.itemgetter(0))
        return self.combine(h, x) * order[0][1]
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
