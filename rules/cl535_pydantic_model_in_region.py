"""Making, copying or writing out a pydantic model while Dynamo traces splits the graph.

## What it does
Finds, in code that Dynamo traces, calls of a class that inherits from `pydantic.BaseModel` or is a
`pydantic.dataclasses.dataclass`, of `model_validate`, `model_copy`, `model_dump` and the like, of a `TypeAdapter`'s
methods, and of a function under `pydantic.validate_call`.

## Why it costs
Validators and serializers are Rust code that Dynamo can't look into (GB0156 for their methods, GB3383 for pydantic's
dataclasses). The graph ends there, constants or not; validators written in Python run afterwards as functions of their
own, with graphs of their own.

## Write instead
Make models before the compiled code and pass them in: reading and setting their fields, and methods of theirs that work
on tensors, compile. What is made inside can be a plain `dataclasses.dataclass` or a `NamedTuple`.

## Limits
Setting a field under `validate_assignment` is not reported, though it splits the graph too. Measured with pydantic 2 on
torch 2.13.

## References
pydantic documentation: "Models", "Dataclasses", "Type Adapter", "Validation Decorator". GB0156, GB3383.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Class, Function

HAZARD = "graph-break"
MODELS = frozenset({"pydantic.BaseModel", "pydantic.main.BaseModel", "pydantic_settings.BaseSettings"})
METHODS = frozenset(
    "model_validate model_validate_json model_validate_strings model_copy model_dump model_dump_json copy dict".split()
)
ADAPTER = "pydantic.TypeAdapter."
OF_ADAPTER = frozenset({"validate_python", "validate_json", "dump_python", "dump_json"})
DATACLASS = "pydantic.dataclasses.dataclass"
VALIDATED_CALLS = frozenset({"pydantic.validate_call", "pydantic.validate_arguments"})


def _may_validate(node: ast.AST, module: ast.Module) -> bool:
    """Whether a call may be of a class, of one of these methods or of a plain function."""
    if not isinstance(node, ast.Call):
        return False
    return isinstance(node.func, ast.Name) or (
        isinstance(node.func, ast.Attribute)
        and (node.func.attr in METHODS | OF_ADAPTER or node.func.attr.lstrip("_")[:1].isupper())
    )


WATCH = Watch(nodes=(ast.Call,), syntax=_may_validate)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that has pydantic validate, copy or write out."""
    if isinstance(node, ast.Call) and _runs_pydantic(node, view):
        yield Hit(
            node,
            f"`{view.text(node)}` runs pydantic's Rust code, which Dynamo can't look into: the graph splits here",
            "make the model before the compiled code and pass it in, or use a plain `dataclasses.dataclass`",
            "likely",
        )


def _runs_pydantic(node: ast.Call, view: View) -> bool:
    called = view.kind(node.func)
    if isinstance(called, Class):
        return _validates(called, node, view)
    if isinstance(called, Function):
        return any(name in VALIDATED_CALLS for name, _ in view.decorators(called))
    if not isinstance(node.func, ast.Attribute):
        return False
    callee, name = view.callee(node), node.func.attr
    if name in OF_ADAPTER:
        return callee.startswith(ADAPTER)
    of_model = callee.rpartition(".")[0] in MODELS or MODELS.intersection(view.outside(view.kind(node.func.value)))
    return name in METHODS and bool(of_model)


def _validates(called: Class, node: ast.Call, view: View) -> bool:
    """Whether a class is a model of pydantic's whose `__init__` is pydantic's too."""
    made = view.kind(node)
    if not MODELS.intersection(view.outside(made)):
        return any(name == DATACLASS for name, _ in view.decorators(called))
    members = (member for owner in view.classes(made) for member in owner.body)
    return not any(isinstance(member, ast.FunctionDef) and member.name == "__init__" for member in members)


BAD = (
    Example(
        code="""\
import pydantic
import torch
from torch import nn


class Batch(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    scores: torch.Tensor
    kept: list[torch.Tensor] = []


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        batch = Batch(scores=h)  # ~
        other = batch.model_copy(update={"kept": [h, x]})  # ~
        return batch.scores + other.kept[0]
""",
    ),
    Example(
        code="""\
import torch
from pydantic import BaseModel, TypeAdapter, validate_call
from pydantic.dataclasses import dataclass
from torch import nn

SIZES = TypeAdapter(list[int])


class Settings(BaseModel):
    width: int = 4


@dataclass(config={"arbitrary_types_allowed": True})
class Pair:
    left: torch.Tensor
    right: torch.Tensor


@validate_call
def scale(step: int) -> float:
    return 1.0 / (1 + step)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings = Settings()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        pair = Pair(self.proj(x), x)  # ~
        width = Settings.model_validate({"width": 2}).width  # ~
        width += self.settings.model_dump()["width"]  # ~
        sizes = SIZES.validate_python([width])  # ~
        return (pair.left + pair.right) * scale(sizes[0])  # ~
""",
    ),
)

GOOD = (
    Example(
        code="""\
import dataclasses

import pydantic
import torch
from torch import nn


class Settings(pydantic.BaseModel):
    width: int = 4
    scale: float = 1.0

    def scaled(self, x):
        return x * self.scale


class Batch(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    scores: torch.Tensor


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


class Head(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.settings = settings
        self.proj = nn.Linear(settings.width, settings.width)

    def forward(self, x, batch: Batch):
        batch.scores = self.settings.scaled(self.proj(x))
        pair = Pair(batch.scores, x)
        return pair.left + pair.right * self.settings.width
""",
    ),
)
