"""A set of tensors that was made outside is not traced.

## What it does
Finds, in code that Dynamo traces, sets of tensors that a global, an attribute or a parameter of the region holds, where
they are looped over, added up, counted, searched or changed.

## Why it costs
The order of a set of tensors differs from run to run, so Dynamo takes none as an input (GB0222): the graph splits where
the set is first touched, and mostly the whole function is left uncompiled.

## Write instead
Keep a list, or a dict by name, which has an order: `list(dict.fromkeys(tensors))` leaves out what is there twice.

## Limits
Sets that compiled code makes itself compile while the graph lasts, and so does a `frozenset`; attributes that other
methods than `__init__` set are left out. Measured on torch 2.11, 2.13 and 2.14.

## References
torch.compile documentation: "Common Graph Breaks". GB0222.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import comes_from_outside
from compilelint.static.facts.state import functions_in, own_nodes
from compilelint.static.values import Sequence, Value, tensor_certainty

HAZARD = "graph-break"


def is_set_of_tensors(value: Value) -> bool:
    """Whether a value is a set that holds nothing but tensors."""
    if not isinstance(value, Sequence) or value.form != "set":
        return False
    members = (value.element,) if value.items is None else value.items
    return bool(members) and all(tensor_certainty(member) == "certain" for member in members)


WATCH = Watch(
    nodes=(ast.Name, ast.Attribute),
    syntax=lambda node, module: isinstance(getattr(node, "ctx", None), ast.Load),
    kinds=is_set_of_tensors,
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per function, where it first touches such a set."""
    if isinstance(node, (ast.Name, ast.Attribute)) and node is next(_touched(view), None):
        yield Hit(
            node,
            f"`{view.text(node)}` is a set of tensors from outside, which has no order for Dynamo to rely on: it does"
            " not trace it",
            "keep a list, or a dict by name",
        )


def _touched(view: View) -> Iterator[ast.expr]:
    for node in own_nodes(view.function):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            kept = isinstance(node, ast.Name) or node.attr not in view.fact(set_while_running)
            kept = kept and "frozenset" not in view.makers(node.id if isinstance(node, ast.Name) else node.attr)
            if is_set_of_tensors(view.kind(node)) and kept and comes_from_outside(view, node):
                yield node


def set_while_running(module: ast.Module) -> tuple[str, ...]:
    """The attributes that functions of a file set, `__init__` left out: what they hold may be made in the region."""
    return tuple(
        sorted(
            {
                node.attr
                for function in functions_in(module)
                if getattr(function, "name", "") != "__init__"
                for node in own_nodes(function)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            }
        )
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Penalty(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.anchors = {torch.ones(4), torch.zeros(4)}

    def forward(self, x):
        y = self.fc(x)
        for anchor in self.anchors:  # ~
            y = y + anchor
        return y
""",
        run="(Penalty(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch

seen = {torch.ones(2), torch.zeros(2)}


@torch.compile
def total(x):
    return sum(seen) + x.exp()  # ~
""",
        run="(total, [(torch.ones(2),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Penalty(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.anchors = [torch.ones(4), torch.zeros(4)]
        self.names = {"a", "b"}
        self.frozen = frozenset({torch.ones(4), torch.zeros(4)})

    def forward(self, x):
        for anchor in self.frozen:
            x = x + anchor
        self.seen = {*self.anchors, self.fc(x)}
        for anchor in self.seen:
            x = x + anchor
        return x + 1 if "a" in self.names else x
""",
        run="(Penalty(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
