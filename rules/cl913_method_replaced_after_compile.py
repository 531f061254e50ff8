"""A method that is replaced on the class after the first compiled call never runs in compiled code.

## What it does
Finds `Attention.scale = faster_scale`, or `setattr` of the same, in a function that has called the compiled model by
then, where `Attention` is the class of that model, of a module in it or of any object that it holds, and its methods
call that one.

## Why it costs
Dynamo inlines the methods that compiled code calls and does not guard on the class they came from. Compiled code goes
on with the old method while eager code takes the new one: a wrong result without a warning. Measured on torch 2.13; a
new `forward` of the compiled model's own class or of an instance, and a function of a module that is rebound, are seen.

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
from compilelint.static.facts.compiled_pairs import is_reset_after
from compilelint.static.facts.state import own_nodes
from compilelint.static.project.definitions import FunctionRef, class_members
from compilelint.static.values import (
    Class,
    Compiled,
    ExternalInstance,
    Instance,
    Mapping,
    Sequence,
    Value,
    element_of,
    options,
)

HAZARD = "stale-result"
WATCH = Watch(
    nodes=(ast.Assign, ast.Call),
    syntax=lambda node, module: sets_attribute(node),
    regions=frozenset({"host"}),
)
DEEPEST = 6
"""How far objects in objects are looked into."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per method that a class is given after compiled code with its objects has run."""
    place, owner, name = replaced(node, view)
    if not isinstance(owner, Class) or not isinstance(class_members(owner.ref).get(name), FunctionRef):
        return
    line = node.lineno  # type: ignore[attr-defined]
    for call in own_nodes(view.function):
        if not isinstance(call, ast.Call) or call.lineno >= line:
            continue
        if any(takes(model, owner, name, view) for model in compiled_models(view.kind(call.func))):
            if not is_reset_after(line, view.function):
                message = f"`{owner.ref.qualname}.{name}` is replaced after compiled code ran (line {call.lineno})"
                yield Hit(
                    place,
                    f"{message}: the graph keeps the old method",
                    "replace it before the first compiled call, or call `torch.compiler.reset()` afterwards",
                    "likely",
                )
            return


def sets_attribute(node: ast.AST) -> bool:
    """Whether `node` sets an attribute in one of the two forms of `replaced`, told without its kinds."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Attribute)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr"


def replaced(node: ast.AST, view: View) -> tuple[ast.expr, Value | None, str]:
    """Where, on what and under which name an attribute is set: `Model.scale = f` or `setattr(Model, "scale", f)`."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        target = node.targets[0]
        return target, view.kind(target.value), target.attr
    if isinstance(node, ast.Call) and view.callee(node) == "builtins.setattr" and len(node.args) == 3:
        name = node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return node, view.kind(node.args[0]), name.value
    return ast.Constant(None), None, ""


def compiled_models(called: Value) -> Iterator[Value]:
    """What may run compiled when `called` is called."""
    for option in options(called):
        if isinstance(option, Compiled):
            yield option.inner
        elif isinstance(option, Instance) and option.compiled:
            yield option


def takes(model: Value, owner: Class, name: str, view: View) -> bool:
    """Whether compiled code of `model` has taken in the method `name` of the class."""
    guarded = model if name == "forward" else None  # Dynamo guards on the `forward` of what was compiled itself
    held = [each for each in held_by(model) if each is not guarded]
    if not any(definition is owner.ref.node for each in held for definition in view.classes(each)):
        return False
    return name == "forward" or any(
        isinstance(part, ast.Attribute) and part.attr == name
        for each in held
        for definition in view.classes(each)
        for part in ast.walk(definition)
    )


def held_by(value: Value, depth: int = 0) -> Iterator[Instance]:
    """The objects of the project that `value` is or has in its attributes, lists and dicts."""
    if isinstance(value, Instance) and depth <= DEEPEST:
        yield value
        for attribute in value.attributes.values():
            for option in options(attribute):
                yield from held_by(option, depth + 1)
    elif isinstance(value, (Sequence, Mapping, ExternalInstance)):
        inside = value.items if isinstance(value, ExternalInstance) else options(element_of(value))
        for option in inside:
            yield from held_by(option, depth + 1)


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
    Example(
        code="""\
import torch
from torch import nn


class Kernel:
    def run(self, x):
        return x + 1


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = Kernel()

    def forward(self, x):
        return self.kernel.run(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Attention()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def doubled(self, x):
    return x * 8


def serve(x):
    model = Model()
    model.compile()
    first = model(x)
    setattr(Kernel, "run", doubled)  # ~
    return first, model(x)
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
