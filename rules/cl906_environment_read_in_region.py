"""An environment variable read in compiled code with `os.getenv` keeps the value it had at compile time.

## What it does

Finds `os.getenv(name)`, `os.environ.get(name)` and `name in os.environ` in compiled code, and `os.environ[name]` where
functions of the file set that variable, other than once to a text that is written down.

## Why it costs

Dynamo runs the look-up while it traces and bakes the result into the graph. Measured on torch 2.13: after the
variable changes, `os.getenv` gives the old value for good, and so do `os.environ.get` and `in` for a variable that
was not set before: no guard notices, and eager code would see the new value. `os.environ[name]` is guarded, and so is
`os.environ.get` of a variable that was set: there each new value compiles again.

## Write instead

Read it once, at import or in `__init__`, and keep the result in an attribute: that says what happens anyway, and
costs nothing per call.

## Limits

`likely` where the file itself changes that variable; elsewhere the value rarely changes while the program runs, and the
finding is `possible`.

## References

Measured on torch 2.11, 2.13 and 2.14; torch/_dynamo/variables/user_defined.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import functions_in
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import External, ExternalInstance

HAZARD = "stale-result"
READS = frozenset({"os.getenv", "os.environ.get"})
WATCH = Watch(
    nodes=(ast.Call, ast.Compare, ast.Subscript),
    callees=READS.__contains__,
    syntax=lambda node, module: _may_read(node),
)
CHANGES = frozenset({"os.putenv", "os.unsetenv", "os.environ.update", "os.environ.pop"})
NAMES = frozenset(read.rpartition(".")[2] for read in READS)
INSTEAD = "read it once, at import or in `__init__`, and keep the result in an attribute"


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the read of the environment."""
    if isinstance(node, ast.Subscript):
        if _is_changed(node.slice, view, again=True):
            yield Hit(
                node,
                f"`{view.text(node)}` is looked up while Dynamo traces and guarded: each new value compiles again",
                INSTEAD,
                confidence="likely",
                hazard="recompile",
            )
        return
    if isinstance(node, ast.Call):
        is_read = view.callee(node) in READS or ast.unparse(node.func) in READS
        variable = node.args[0] if node.args else None
    else:
        is_read = isinstance(node, ast.Compare) and _asks_environ(node, view)
        variable = node.left if isinstance(node, ast.Compare) else None
    if is_read and isinstance(node, ast.expr):
        guarded = isinstance(node, ast.Call) and view.callee(node) == "os.environ.get"
        unset = " of a variable that is not set by then" if guarded else " of the variable"
        yield Hit(
            node,
            f"`{view.text(node)}` is looked up while Dynamo traces and baked into the graph: later changes{unset} are"
            " not seen",
            INSTEAD,
            confidence="likely" if _is_changed(variable, view) else "possible",
        )


def _may_read(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return last_name(node.func) in NAMES
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == "os.environ"
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn))


def _asks_environ(node: ast.Compare, view: View) -> bool:
    """`name in os.environ`."""
    where = node.comparators[0]
    kind = view.kind(where)
    is_known = isinstance(kind, (External, ExternalInstance)) and kind.name == "os.environ"
    return is_known or ast.unparse(where) == "os.environ"


def _is_changed(variable: ast.expr | None, view: View, *, again: bool = False) -> bool:
    """Whether the file itself changes an environment variable while it runs, or one that may be it.

    With `again`, other than once to a text that is written down: then it may be another one at the next call.
    """
    if not view.fact(_changes_some):
        return False
    once, more = _changed_in(view.module)
    changed = more if again else once | more
    if not isinstance(variable, ast.Constant):
        return bool(changed)
    return not changed.isdisjoint({variable.value, None})


@about_file(False)
def _changes_some(module: ast.Module) -> bool:
    return any(_changed_in(module))


@lru_cache(maxsize=64)
def _changed_in(module: ast.Module) -> tuple[frozenset[object], frozenset[object]]:
    """The environment variables that a file's functions set to one text, and those that they change otherwise.

    None stands for those that they do not name.
    """
    texts: dict[object, set[object]] = {}
    for node in (node for function in functions_in(module) for node in nodes_in(function)):
        if isinstance(node, (ast.Assign, ast.Delete)):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and ast.unparse(target.value) == "os.environ":
                    value = _constant(node.value) if isinstance(node, ast.Assign) else None
                    texts.setdefault(_constant(target.slice), set()).add(value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in CHANGES:
            texts.setdefault(_constant(node.args[0] if node.args else None), set()).add(None)
    once = frozenset(name for name, values in texts.items() if len(values) == 1 and None not in values)
    return once, frozenset(texts) - once


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


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
    Example(
        # A variable that is set: each value is guarded.
        code="""
import os

import torch

os.environ["RATE"] = "1"


@torch.compile
def scaled(x):
    return x * int(os.environ["RATE"])  # ~


def serve(x):
    for rate in range(4):
        os.environ["RATE"] = str(rate)
        x = scaled(x)
    return x
""",
        run="serve, [(torch.ones(2, 4),)]",
        default="recompile",
        fullgraph="recompile",
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
        if os.environ.get("LAYER_WIDE", "0") == "1":
            h = h * 3
        return h * 2 if DEBUG else h


def threads(count):
    os.environ["OMP_NUM_THREADS"] = str(count)


class Scaled(nn.Module):
    def forward(self, x):
        return x * int(os.environ["SCALED_BY"])


def main():
    os.environ["SCALED_BY"] = "2"
    return Scaled()(torch.ones(2))
""",
        run="Layer(), [(torch.ones(2, 4),) for _ in range(2)]",
        default="clean",
        fullgraph="clean",
    ),
)
