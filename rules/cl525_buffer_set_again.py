"""Setting an nn.Buffer attribute to itself, as `self.table = self.table.to(x.device)` mostly does, splits the graph.

## What it does
Finds assignments in code that Dynamo traces that give an attribute made with `nn.Buffer` what `to`, `type_as`, `float`,
`contiguous`, `cpu` or `cuda` of it returns.

## Why it costs
Where nothing is to be converted these methods return the very same object, and `nn.Module.__setattr__` registers a
`Buffer` anew, asking for its `persistent` flag, which Dynamo does not know of a tensor (GB4841). The graph ends at the
assignment, on each call, to do nothing.

## Write instead
Use a variable: `table = self.table.to(x.device)`. A buffer moves with the module anyway, so `.to` is mostly not needed.

## Limits
A buffer made with `register_buffer` compiles, and so does one set to something else: `self.table = self.table * 2`,
`self.table.double()` where it held floats. Under an `if` that asks for the buffer's device or type it is taken for
one that does convert. Measured on torch 2.11, 2.13 and 2.14.

## References
GB4841.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once, last_name
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Tensor

HAZARD = "graph-break"
SAME = frozenset({"to", "type_as", "float", "contiguous", "cpu", "cuda"})
"""Methods that return the tensor itself where there is nothing to convert."""
BUFFERS = frozenset({"Buffer", "nn.Buffer", "torch.nn.Buffer"})


def _sets_attribute(node: ast.AST, module: ast.Module) -> bool:
    return (
        isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Attribute)
        and any(name.endswith(f".{node.targets[0].attr}") for name in _buffers(module))
    )


@about_file(frozenset())
def _buffers(module: ast.Module) -> frozenset[str]:
    """The attributes that the classes of a file bind to buffers, each behind the name of its class."""
    return frozenset(
        f"{owner.name}.{target.attr}"
        for owner in nodes_in(module)
        if isinstance(owner, ast.ClassDef)
        for part in nodes_in(owner)
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call)
        if last_name(part.value.func) == "Buffer" and ast.unparse(part.value.func) in BUFFERS
        for target in part.targets
        if isinstance(target, ast.Attribute)
    )


WATCH = Watch(nodes=(ast.Assign,), syntax=_sets_attribute)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per assignment of a buffer to its own attribute."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute):
        return
    target = node.targets[0]
    value = assigned_once(view.function, node.value.id) if isinstance(node.value, ast.Name) else node.value
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in SAME
        and ast.unparse(value.func.value) == ast.unparse(target)
        and _may_be_the_same(value, target, view)
        and not _is_asked_for(node, target, view)
    ):
        yield Hit(
            node,
            f"`{view.text(target)}` is an nn.Buffer, and `{view.text(value)}` the same one where nothing is converted:"
            " setting it registers it anew, which splits the graph",
            f"keep the result in a variable: `{target.attr} = {view.text(value)}`",
            "likely",
        )


def _may_be_the_same(call: ast.Call, target: ast.Attribute, view: View) -> bool:
    """Whether the attribute is a buffer of its own class, and the call none that makes another tensor in any case."""
    owners = {owner.name for owner in view.classes(view.kind(target.value))}
    if not any(f"{owner}.{target.attr}" in _buffers(view.module) for owner in owners):
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr == "float":
        kind = view.kind(target)
        return isinstance(kind, Tensor) and kind.element == "float"
    return all(keyword.arg != "copy" for keyword in call.keywords)


def _is_asked_for(node: ast.Assign, target: ast.Attribute, view: View) -> bool:
    """Whether an `if` around asks for the buffer's device or type, so that this runs where something is converted."""
    asked = [part for around in view.parents(node) if isinstance(around, ast.If) for part in ast.walk(around.test)]
    return any(
        isinstance(part, ast.Attribute)
        and part.attr in ("device", "dtype")
        and ast.unparse(part.value) == ast.unparse(target)
        for part in asked
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Buffer(torch.rand(8, 4), persistent=False)
        self.scale = nn.Buffer(torch.ones(4))

    def forward(self, x, ids):
        self.table = self.table.to(device=x.device, dtype=x.dtype)  # ~
        scale = self.scale.type_as(x)
        self.scale = scale  # ~
        return x * scale + self.table[ids]
""",
        run="(Positions(), [(torch.ones(2, 4), torch.tensor([1, 2]))])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Buffer(torch.ones(4))


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Buffer(torch.rand(8, 4))
        self.register_buffer("scale", torch.ones(4))
        self.shift = torch.ones(4)
        self.bias = nn.Buffer(torch.zeros(4))
        self.steps = nn.Buffer(torch.arange(4))

    def forward(self, x, ids):
        table = self.table.to(device=x.device, dtype=x.dtype)
        self.scale = self.scale.to(x.device)
        self.shift = self.shift.to(x.device)
        self.table = self.table * 0.5
        if self.bias.device != x.device or self.bias.dtype != x.dtype:
            self.bias = self.bias.to(x)
        self.steps = self.steps.float()
        return x * self.scale + table[ids] + self.shift
""",
        run="(Positions(), [(torch.ones(2, 4), torch.tensor([1, 2]))])",
        default="clean",
        fullgraph="clean",
    ),
)
