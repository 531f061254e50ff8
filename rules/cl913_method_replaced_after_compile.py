"""A method that is replaced on the class after the first compiled call never runs in compiled code.

## What it does
Finds `Model.scale = faster_scale`, or `setattr` of the same, in a function that has called the compiled model by then,
where `Model` is the class of the module that was compiled and the method is one that its `forward` calls.

## Why it costs
Dynamo inlines the methods that `forward` calls and does not guard on the class they came from. Compiled code goes on
with the old method while eager code takes the new one: a wrong result without a warning. Measured on torch 2.13; a new
`forward` of the class or of the instance, and a function of a module that is rebound, are seen.

## Write instead
Replace the method before the first compiled call, or throw the compiled code away: `torch.compiler.reset()`. Better,
let the model hold the function as an attribute and set that, on which Dynamo guards: `model.scale_fn = faster_scale`.

## References
PyTorch documentation "Guards" (torch.compiler_dynamo_deepdive).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.state import own_nodes
from compilelint.static.values import Class

HAZARD = "stale-result"
WATCH = Watch(nodes=(ast.Assign,), regions=frozenset({"host"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the assignment that gives a class another method after its compiled module has run."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute):
        return
    target = node.targets[0]
    owner = view.kind(target.value)
    if not isinstance(owner, Class) or target.attr == "forward" or not _calls_method(owner.ref.node, target.attr):
        return
    ran = [line for name in _compiled_names(view) for line in _calls(name, view) if line < node.lineno]
    reset = any(
        isinstance(part, ast.Call) and part.lineno > node.lineno and ast.unparse(part.func).endswith(".reset")
        for part in own_nodes(view.function)
    )
    if ran and not reset:
        yield Hit(
            target,
            f"`{view.text(target)}` is replaced after compiled code ran (line {ran[0]}): the graph keeps the old"
            " method",
            "replace it before the first compiled call, or call `torch.compiler.reset()` afterwards",
            "likely",
        )


def _calls_method(owner: ast.ClassDef, method: str) -> bool:
    """Whether the class has such a method and its `forward` calls it."""
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    forward = methods.get("forward")
    return (
        method in methods
        and forward is not None
        and any(isinstance(part, ast.Attribute) and part.attr == method for part in ast.walk(forward))
    )


def _compiled_names(view: View) -> list[str]:
    """The variables that hold what `torch.compile` returned."""
    return [
        target.id
        for part in own_nodes(view.function)
        if isinstance(part, ast.Assign)
        and isinstance(part.value, ast.Call)
        and view.callee(part.value) == "torch.compile"
        for target in part.targets
        if isinstance(target, ast.Name)
    ]


def _calls(name: str, view: View) -> list[int]:
    return [
        part.lineno
        for part in own_nodes(view.function)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == name
    ]


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Model(nn.Module):
    def scale(self, x):
        return x + 1

    def forward(self, x):
        return self.scale(x) * 2


def doubled(self, x):
    return x * 8


def serve(x):
    model = Model()
    compiled = torch.compile(model)
    first = compiled(x)
    Model.scale = doubled  # ~
    return first, compiled(x)
""",
        run="(serve, [(torch.ones(2, 4),)])",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Model(nn.Module):
    limit = 4

    def scale(self, x):
        return x + 1

    def report(self):
        return 0

    def forward(self, x):
        return self.scale(x) * 2


def doubled(self, x):
    return x * 8


def serve(x):
    Model.scale = doubled
    model = Model()
    compiled = torch.compile(model)
    first = compiled(x)
    Model.report = lambda self: 1
    return first, compiled(x)
""",
        run="(serve, [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
