"""A compiled function that is called under `no_grad` here and `inference_mode` there is compiled for each.

## What it does
Finds calls of one compiled callable in one function or class that differ in the mode around them: `torch.no_grad()` and
`torch.inference_mode()`, or `torch.autocast(…)` around some of them only. Decorators count as well.

## Why it costs
Dynamo guards on grad mode, inference mode and autocast. Each combination compiles the whole model again: measured on
torch 2.13, one compilation for each of plain, `no_grad`, `inference_mode` and autocast. Training with gradients and
evaluating without is two by nature and not reported.

## Write instead
Evaluate in one mode everywhere, `torch.no_grad()` or `torch.inference_mode()`, and put `autocast` inside of `forward`,
where it is part of the graph.

## Limits
A warm-up in each mode hides the wait; both graphs remain.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import functions_in, own_nodes
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Compiled

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Call,), kinds=lambda kind: isinstance(kind, Compiled), regions=frozenset({"host"}))
GRAD = frozenset({"no_grad", "inference_mode"})
MODES = GRAD | {"autocast"}


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the call whose mode is another one than that of an earlier call of the same callable."""
    if not isinstance(node, ast.Call):
        return
    calls = _calls(_home(view), ast.unparse(node.func))
    mine = next((modes for call, modes in calls if call is node), None)
    if mine is None:
        return
    for call, modes in calls:
        if call is node:
            return
        mixed = _mixed(modes, mine)
        if mixed is not None and not _either_or(call, node, view.function):
            yield Hit(
                node,
                f"`{view.text(node.func)}` is called {mixed[1]} here, but {mixed[0]} in line {call.lineno}: Dynamo"
                " guards on the mode, so the model is compiled once for each",
                "call it in one mode everywhere; `autocast` inside of `forward` is part of the graph",
                "likely",
            )
            return


def _home(view: View) -> ast.AST:
    """The class of a method, which shares its attributes; else the function."""
    for cls in (node for node in nodes_in(view.module) if isinstance(node, ast.ClassDef)):
        if view.function in cls.body:
            return cls
    return view.function


@lru_cache(maxsize=256)
def _calls(home: ast.AST, name: str) -> list[tuple[ast.Call, frozenset[str]]]:
    """The calls of `name` in a class or function, in order, each with the modes around it."""
    found: list[tuple[ast.Call, frozenset[str]]] = []
    scopes = functions_in(home) if isinstance(home, ast.ClassDef) else (home,)
    for scope in scopes:
        decorators = getattr(scope, "decorator_list", [])
        outer = {mode for decorator in decorators for mode in _mode(decorator)}
        within = [node for node in own_nodes(scope) if isinstance(node, (ast.With, ast.AsyncWith))]
        for node in own_nodes(scope):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
                around = [manager for manager in within if any(node in nodes_in(part) for part in manager.body)]
                inner = {mode for manager in around for item in manager.items for mode in _mode(item.context_expr)}
                found.append((node, frozenset(outer | inner)))
    return sorted(found, key=lambda pair: (pair[0].lineno, pair[0].col_offset))


def _either_or(first: ast.AST, second: ast.AST, function: ast.AST) -> bool:
    """Whether two calls stand on the two sides of one `if`."""
    return any(
        isinstance(node, ast.If)
        and any(first in nodes_in(part) for part in node.body)
        and any(second in nodes_in(part) for part in node.orelse)
        for node in own_nodes(function)
    )


def _mode(manager: ast.expr) -> Iterator[str]:
    name = last_name(manager.func if isinstance(manager, ast.Call) else manager)
    disabled = isinstance(manager, ast.Call) and any(k.arg == "enabled" for k in manager.keywords)
    if name in MODES and not disabled:
        yield name


def _mixed(first: frozenset[str], second: frozenset[str]) -> tuple[str, str] | None:
    """How two calls differ, in words; None where they do not, or in gradients only."""
    mine, other = first & GRAD, second & GRAD
    if mine and other and mine != other:
        return f"under `{'`, `'.join(sorted(mine))}`", f"under `{'`, `'.join(sorted(other))}`"
    if ("autocast" in first) is not ("autocast" in second) and mine == other:
        under, without = "under `autocast`", "without `autocast`"
        return (under, without) if "autocast" in first else (without, under)
    return None


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Service:
    def __init__(self):
        self.net = torch.compile(nn.Linear(4, 4))

    @torch.no_grad()
    def warm_up(self, x):
        self.net(x)

    @torch.inference_mode()
    def predict(self, x):
        return self.net(x)  # ~

    def __call__(self, x):
        self.warm_up(x)
        return self.predict(x).clone()


def compare(x):
    net = torch.compile(nn.Linear(4, 4))
    with torch.autocast("cpu", torch.bfloat16):
        low = net(x)
    return low, net(x)  # ~
""",
        run="(lambda x: (Service()(x), compare(x)), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Service:
    def __init__(self):
        self.net = torch.compile(nn.Linear(4, 4))
        self.other = torch.compile(nn.Linear(4, 4))

    @torch.no_grad()
    def warm_up(self, x):
        self.net(x)

    @torch.no_grad()
    def predict(self, x):
        return self.net(x)

    def train(self, x, low=False):
        if low:
            with torch.autocast("cpu", torch.bfloat16):
                return self.other(x).sum()
        else:
            return self.other(x).sum()

    def __call__(self, x):
        self.warm_up(x)
        return self.predict(x)
""",
        run="(Service(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
