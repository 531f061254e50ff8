"""An attribute of a function that compiled code sets splits the graph.

## What it does
Finds `scale.calls += 1`, `warned.done = True` and the like, on a function of the project, in code that Dynamo traces.

## Why it costs
Dynamo keeps no record of what changes on a function, as it does for objects, and lets Python set the attribute
(GB0467). The graph ends there, in a loop the whole function stays uncompiled, and `fullgraph=True` raises. Code that
reads the attribute is guarded on its value besides, so a counter compiles again for each.

## Write instead
A variable of the file or an attribute of a module or object, and better one that is set outside of the compiled code.
A warning that is to come once belongs before the compiled code as well.

## Limits
Attributes of objects, of imported Python modules and of functions that the compiled code makes itself may be set, and
reading one of a function compiles. Torch 2.14
compiles setting them too. Measured on torch 2.11, 2.13 and 2.14.

## References
GB0467 in torch's graph-break registry.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import same_place, written
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Function, Value, options

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Assign, ast.AugAssign), syntax=lambda node, module: bool(_places(node)))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per attribute that is set."""
    for place in _places(node) if view.torch < (2, 14) else ():
        if not _is_done_already(place, view) and all(
            _was_there(option, view) for option in options(view.kind(place.value))
        ):
            yield Hit(
                place,
                f"`{view.text(place)}` is set on a function, which Dynamo does not follow: the graph splits here",
                "keep it in a variable of the file or an attribute of an object, and set it outside the compiled code",
            )


def _is_done_already(place: ast.Attribute, view: View) -> bool:
    """Whether `if not f.done:` stands around, and the file itself has set `f.done`: the branch is not taken."""
    first = [value for statement, value in written(place, view.module) if statement in view.module.body]
    if not first or not all(isinstance(value, ast.Constant) and value.value for value in first):
        return False
    below: ast.AST = place
    for parent in view.parents(place):
        asked = parent.test if isinstance(parent, ast.If) and below in parent.body else None
        if isinstance(asked, ast.UnaryOp) and isinstance(asked.op, ast.Not) and same_place(asked.operand, place):
            return True
        below = parent
    return False


def _was_there(value: Value, view: View) -> bool:
    """Whether a value is a function of the project that the function at hand does not make itself."""
    if not isinstance(value, Function) or value.bound is not None:
        return False
    definition = view.definition(value)
    return definition is view.function or all(node is not definition for node in nodes_in(view.function))


def _places(node: ast.AST) -> list[ast.Attribute]:
    """The attributes of a variable that a statement sets."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return [place for place in targets if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name)]


BAD = (
    Example(
        code="""\
import torch
from torch import nn


def scale(x):
    scale.calls = 1  # ~
    return x * 2


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return scale(self.proj(x)) + 1
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import types

import torch
from torch import nn

settings = types.ModuleType("settings")
settings.used = False


class State:
    used = False


STATE = State()


def scale(x):
    settings.used = True
    STATE.used = True

    def halved(y):
        return y * halved.factor

    halved.factor = 0.5
    return halved(x * scale.factor)


scale.factor = 2.0


def told_once(x):
    if not told_once.done:
        told_once.done = True
    return x


told_once.done = True


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return scale(self.proj(told_once(x))) + 1
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
