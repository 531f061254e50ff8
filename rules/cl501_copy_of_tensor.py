"""Copying a tensor, a module or a container with module `copy` splits the graph.

## What it does
Finds `copy.deepcopy` of anything that holds a tensor (a tensor, a list or dict with one, a module with parameters),
`copy.copy` of a tensor, module, list, dict or set, and `dataclasses.asdict` of objects with tensors, in code that
Dynamo traces.

## Why it costs
A deep copy of a tensor makes new storage by means no graph records (GB4198); copying a module copies its parameters
so. The shallow `copy.copy` calls C methods of list, dict and set that Dynamo does not make when they are reached this
way (GB0007), and for a tensor or module it asks for its pickled state (GB0007, GB0008).

## Write instead
`x.clone()` for a tensor (`x.detach().clone()` to cut it off), `items.copy()` or `list(items)` for a container. Copy
modules before compiling.

## Limits
Deep copies of plain data compile since torch 2.12: numbers, strings, lists, dicts and project objects of these. So
does `copy.copy` of a project object, a tuple or a number. All stay silent. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0007, GB0008, GB0179, GB4198.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from compilelint.model import Rewrite
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once
from compilelint.static.flagging.rewrites import replace
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import (
    ExternalInstance,
    Instance,
    Mapping,
    Sequence,
    Tensor,
    Value,
    options,
    tensor_certainty,
)

HAZARD = "graph-break"
DEEP = frozenset({"copy.deepcopy", "dataclasses.asdict", "dataclasses.astuple"})
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"deepcopy", "copy", "asdict", "astuple"}))

Certainty = Literal["certain", "likely"]
DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MAX_DEPTH = 3
"""How far into containers and objects a tensor is looked for; deeper ones are rare, and objects may form a cycle."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per copy of something that holds a tensor, and per shallow copy of a container."""
    if not isinstance(node, ast.Call) or not node.args:
        return
    callee, kind = view.callee(node), view.kind(node.args[0])
    what = view.text(node.args[0])
    if callee in DEEP:
        certainty = holds_tensor(kind)
        if certainty:
            yield Hit(
                node,
                f"`{view.text(node)}` copies a tensor in a way that no graph records: Dynamo splits the graph here",
                f"use `{what}.clone()` for a tensor, and copy modules before they are compiled",
                certainty,
                rewrite=as_method(node, kind, view),
            )
    elif callee == "copy.copy" and all(map(copied_in_c, options(kind))):
        yield Hit(
            node,
            f"`{view.text(node)}` reaches a copy method that Dynamo does not trace: the graph splits here",
            f"use `{what}.clone()` for a tensor, `{what}.copy()` or `list({what})` for a container",
            rewrite=as_method(node, kind, view),
        )


def as_method(call: ast.Call, kind: Value, view: View) -> Rewrite | None:
    """The copy as a method call that Dynamo traces: `clone` for the deep copy of a tensor, `copy` for a container.

    A clone stays attached to its original where a deep copy is a leaf. A shallow copy of a tensor shares its storage:
    nothing is proposed for it.
    """
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return None
    what = call.args[0]
    if view.callee(call) == "copy.deepcopy" and isinstance(kind, Tensor):
        title = "clone the tensor; a clone is part of the graph that gradients flow through, a deep copy is not"
        return replace(call, "{part}.clone()", what, view, title)
    if view.callee(call) == "copy.copy" and isinstance(kind, (Sequence, Mapping)):
        title = "use the container's own `copy`"
        return replace(call, "{part}.copy()", what, view, title, "safe" if is_display(what, view) else "unsafe")
    return None


def is_display(node: ast.expr, view: View) -> bool:
    """Whether `node` is a list, dict or set that is written out here, and so is one for every caller."""
    if not isinstance(node, ast.Name):
        return isinstance(node, DISPLAYS)
    shared = (part.names for part in nodes_in(view.function) if isinstance(part, (ast.Global, ast.Nonlocal)))
    if any(node.id in names for names in shared):
        return False
    names = [part for part in nodes_in(view.function) if isinstance(part, (ast.Name, ast.arg))]
    bound = [
        name
        for name in names
        if (name.arg if isinstance(name, ast.arg) else name.id) == node.id
        and not (isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load))
    ]
    return len(bound) == 1 and isinstance(assigned_once(view.function, node.id), DISPLAYS)


def copied_in_c(kind: Value) -> bool:
    """Whether a shallow copy of this kind leaves what Dynamo traces."""
    if isinstance(kind, Sequence):
        return kind.form in ("list", "set")
    return isinstance(kind, (Tensor, Mapping)) or is_module(kind)


def is_module(kind: Value) -> bool:
    """Whether `kind` is a module of torch.nn with parameters; a ReLU would be traced, but nobody copies one."""
    return isinstance(kind, ExternalInstance) and kind.name.startswith("torch.nn.")


def holds_tensor(kind: Value, depth: int = 0) -> Certainty | None:
    """How sure it is that a tensor is in `kind` or in what `kind` contains."""
    parts: tuple[Value, ...] = ()
    for option in options(kind):
        if isinstance(option, Sequence):
            parts += option.items if option.items is not None else (option.element,)
        elif isinstance(option, Mapping):
            parts += (*(value for _, value in option.entries), option.element)
        elif isinstance(option, Instance):
            parts += tuple(option.attributes.values())
        elif is_module(option):
            return "certain" if option == kind else "likely"
    own = tensor_certainty(kind)
    if own or depth == MAX_DEPTH:
        return own
    found = {holds_tensor(part, depth + 1) for part in parts}
    # One kind stands for all objects of a class that are made alike, so that what an object holds is never certain.
    sure = not any(isinstance(option, Instance) for option in options(kind))
    return "certain" if "certain" in found and sure else "likely" if found & {"certain", "likely"} else None


BAD = (
    Example(
        code="""\
import copy

import torch
from torch import nn


class Refiner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        before = copy.deepcopy(h)  # ~
        return h + before
""",
        run="(Refiner(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
from copy import copy

import torch


@torch.compile
def collect(x):
    sizes = [1, 2]
    mine = copy(sizes)  # ~
    mine.append(3)
    return x * sum(mine)
""",
        run="(collect, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import copy

import torch


@torch.compile
def snapshot(x):
    state = {"hidden": torch.relu(x), "step": 3}
    kept = copy.deepcopy(state)  # ~
    return kept["hidden"] * state["step"]
""",
        run="(snapshot, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import copy

import torch
from torch import nn


class Settings:
    def __init__(self):
        self.temperature = 1.0
        self.banned = [1, 2]


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 9)
        self.shadow = copy.deepcopy(self.fc)
        self.settings = Settings()

    def forward(self, x, temperature=0.7):
        settings = copy.deepcopy(self.settings)
        again = copy.copy(self.settings)
        names = copy.deepcopy([1, 2, {"a": (3, 4)}])
        settings.temperature = temperature + again.temperature + len(names)
        kept = x.clone()
        rows = [kept, kept].copy()
        return self.fc(rows[0]) / settings.temperature
""",
        run="(Sampler(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
