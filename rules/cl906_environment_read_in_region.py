"""An environment variable read in compiled code with `os.getenv` keeps the value it had at compile time.

## What it does

Finds `os.getenv(name)`, `os.environ.get(name)` and `name in os.environ` in compiled code.

## Why it costs

Dynamo runs the look-up while it traces and bakes the result into the graph. Measured on torch 2.13: after the
variable changes, `os.getenv` gives the old value for good, and so do `os.environ.get` and `in` for a variable that
was not set before. No guard notices, and eager code would see the new value. (`os.environ[name]` is guarded.)

## Write instead

Read it once, at import or in `__init__`, and keep the result in an attribute: that says what happens anyway, and
costs nothing per call.

## Limits

`likely` where the file itself changes environment variables; elsewhere the value rarely changes while the program
runs, and the finding is `possible`.

## References

Measured on torch 2.13; torch/_dynamo/variables/user_defined.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import External, ExternalInstance

HAZARD = "stale-result"
READS = frozenset({"os.getenv", "os.environ.get"})
WATCH = Watch(nodes=(ast.Call, ast.Compare), callees=READS.__contains__, syntax=lambda node, module: _may_read(node))
NAMES = frozenset(read.rpartition(".")[2] for read in READS)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the read of the environment."""
    if isinstance(node, ast.Call):
        is_read = view.callee(node) in READS or ast.unparse(node.func) in READS
    else:
        is_read = isinstance(node, ast.Compare) and _asks_environ(node, view)
    if is_read and isinstance(node, ast.expr):
        yield Hit(
            node,
            f"`{view.text(node)}` is looked up while Dynamo traces and baked into the graph: later changes of the"
            " variable are not seen",
            "read it once, at import or in `__init__`, and keep the result in an attribute",
            confidence="likely" if _is_changed(view.module) else "possible",
        )


def _may_read(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return last_name(node.func) in NAMES
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn))


def _asks_environ(node: ast.Compare, view: View) -> bool:
    """`name in os.environ`."""
    where = node.comparators[0]
    kind = view.kind(where)
    is_known = isinstance(kind, (External, ExternalInstance)) and kind.name == "os.environ"
    return is_known or ast.unparse(where) == "os.environ"


def _is_changed(module: ast.Module) -> bool:
    """Whether the file itself changes environment variables while it runs."""
    for node in nodes_in(module):
        if (
            isinstance(node, ast.Subscript)
            and not isinstance(node.ctx, ast.Load)
            and ast.unparse(node.value) == "os.environ"
        ):
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) in (
            "os.putenv",
            "os.environ.update",
            "os.environ.pop",
        ):
            return True
    return False


BAD = (
    Example(
        code="""
import os

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        h = self.proj(x)
        if os.getenv("LAYER_SCALE", "1") == "2":  # ~
            h = h * 2
        return h


class App:
    def __init__(self):
        self.net = torch.compile(Layer())

    def __call__(self, x, scale):
        os.environ["LAYER_SCALE"] = scale
        return self.net(x)
""",
        run='App(), [(torch.ones(2, 4), "1"), (torch.ones(2, 4), "2")]',
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""
import os

import torch
from torch import nn

DEBUG = os.getenv("LAYER_DEBUG") == "1"


class Layer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.scale = float(os.environ.get("LAYER_FACTOR", "1"))

    def forward(self, x):
        h = self.proj(x) * self.scale
        return h * 2 if DEBUG else h
""",
        run="Layer(), [(torch.ones(2, 4),) for _ in range(2)]",
        default="clean",
        fullgraph="clean",
    ),
)
