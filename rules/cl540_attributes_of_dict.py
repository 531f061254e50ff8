"""Dicts whose entries are attributes as well are not traced like other objects.

## What it does
Finds, in code that Dynamo traces, three ways to let `settings["width"]` be read as `settings.width`:

- attributes of an object whose class says `__getattr__ = dict.get` or `__getattr__ = dict.__getitem__`;
- attributes of an object that was made in compiled code, whose `__init__` says `self.__dict__ = self`;
- objects that are made in compiled code with entries, `Output(loss=loss)`, of a subclass of `OrderedDict` whose own
  `__setitem__` sets attributes.

## Why it costs
Dynamo calls a `__getattr__` that is written in Python, not one in C (GB0256): each read splits the graph. An assigned
`__dict__` is not one that it looks attributes up in (GB0088), so it gives up the function. And the `__init__` of
OrderedDict calls `__setitem__`, where that of Dynamo does not: what compiled code makes, returns or keeps across a
break has the entries and lacks the attributes, so that reading one raises.

## Write instead
- `def __getattr__(self, name): return self[name]`, which compiles, or entries read by key.
- A dataclass, or a named tuple, for what a model returns; `setattr` for each entry in an `__init__`.

## Limits
With `self.__dict__ = self` only objects that compiled code makes are concerned. Measured on torch 2.11, 2.13 and 2.14.

## References
GB0088 and GB0256 in torch's graph-break registry.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Class, Instance, Method, options

HAZARD = "graph-break"
WATCH = Watch(
    nodes=(ast.Attribute, ast.Call),
    syntax=lambda node, module: not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load),
    kinds=lambda kind: isinstance(kind, Class) or (isinstance(kind, Method) and isinstance(kind.receiver, Instance)),
)
DICTS = ("dict", "OrderedDict")


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per attribute that is read of such a dict, or per dict that is made to lack them."""
    if isinstance(node, ast.Attribute):
        yield from _read(node, view)
    elif isinstance(node, ast.Call):
        yield from _made(node, view)


def _read(node: ast.Attribute, view: View) -> Iterator[Hit]:
    owner = view.kind(node.value)
    if not isinstance(owner, Instance) or not owner.has_outside_base or owner.is_module:
        return
    if hasattr(dict, node.attr) or not _is_dict(owner, view) or _is_member(node.attr, owner, view):
        return
    if any(_looks_up_in_c(part) for part in view.classes(owner)):
        yield Hit(
            node,
            f"`{view.text(node)}` goes through a `__getattr__` that is not written in Python, which Dynamo does not"
            " call: the graph splits here",
            "write `def __getattr__(self, name): return self[name]`, or read the entry by its key",
        )
    elif owner.traced and any(_is_its_own_dict(part) for part in view.classes(owner)):
        yield Hit(
            node,
            f"`{view.text(node)}` reads an entry of a dict that is its own `__dict__`, which Dynamo does not look in"
            " where compiled code made it: the whole function runs uncompiled",
            "read the entry by its key, or use a dataclass",
            hazard="frame-skip",
        )


def _made(node: ast.Call, view: View) -> Iterator[Hit]:
    made = options(view.kind(node.func))
    if not (node.args or node.keywords) or len(made) != 1 or not isinstance(made[0], Class):
        return
    owner = view.kind(node)
    if isinstance(owner, Instance) and "collections.OrderedDict" in view.outside(owner):
        own = [part for part in view.classes(owner) if _defines(part, "__setitem__")]
        fills = any(_sets_attributes(part) for part in own) and not any(map(_has_init, view.classes(owner)))
        if fills and not _is_read_by_key(node, view):
            yield Hit(
                node,
                f"`{view.text(node)}` is filled without its class's `__setitem__`, which Dynamo does not call from"
                " here: what compiled code makes of it lacks the attributes",
                "set the entries one by one, or use a dataclass",
                "likely",
                hazard="stale-result",
            )


def _is_read_by_key(made: ast.Call, view: View) -> bool:
    """Whether a dict only goes into a variable of which the function reads entries, so that nobody asks for more."""
    around = next(view.parents(made), None)
    names = [target.id for target in getattr(around, "targets", ()) if isinstance(target, ast.Name)]
    if not isinstance(around, ast.Assign) or len(names) != len(around.targets):
        return False
    reads = [n for n in nodes_in(view.function) if isinstance(n, ast.Name) and n.id in names]
    return all(_reads_entries(next(view.parents(n), None), n) for n in reads if isinstance(n.ctx, ast.Load))


def _reads_entries(around: ast.AST | None, owner: ast.Name) -> bool:
    if isinstance(around, ast.Attribute):
        return hasattr(dict, around.attr)
    return isinstance(around, ast.Subscript) and around.value is owner


def _is_dict(owner: Instance, view: View) -> bool:
    return any(name.rpartition(".")[2] in DICTS for name in view.outside(owner))


def _is_member(name: str, owner: Instance, view: View) -> bool:
    """Whether the class, or what its methods assign, has an attribute of that name."""
    return name.startswith("__") or any(_defines(part, name) for part in view.classes(owner))


def _defines(part: ast.ClassDef, name: str) -> bool:
    return any(
        (isinstance(member, (ast.FunctionDef, ast.ClassDef)) and member.name == name)
        or (isinstance(member, ast.Assign) and any(_is_name(target, name) for target in member.targets))
        or (isinstance(member, ast.AnnAssign) and _is_name(member.target, name))
        for member in part.body
    )


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _looks_up_in_c(part: ast.ClassDef) -> bool:
    """`__getattr__ = dict.get`."""
    return any(
        isinstance(member, ast.Assign)
        and any(_is_name(target, "__getattr__") for target in member.targets)
        and isinstance(member.value, ast.Attribute)
        and isinstance(member.value.value, (ast.Name, ast.Attribute))
        and ast.unparse(member.value.value).rpartition(".")[2] in DICTS
        for member in part.body
    )


def _is_its_own_dict(part: ast.ClassDef) -> bool:
    """`self.__dict__ = self`."""
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Name)
        and any(ast.unparse(target) == f"{node.value.id}.__dict__" for target in node.targets)
        for node in ast.walk(part)
    )


def _sets_attributes(part: ast.ClassDef) -> bool:
    """Whether `__setitem__` sets attributes: `super().__setattr__(key, value)`, `setattr(self, key, value)`."""
    method = next(m for m in part.body if isinstance(m, ast.FunctionDef) and m.name == "__setitem__")
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("__setattr__", "setattr")
        for node in ast.walk(method)
    )


def _has_init(part: ast.ClassDef) -> bool:
    """Whether a class says itself how it is filled, or has a dataclass say it."""
    return bool(part.decorator_list) or _defines(part, "__init__")


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Settings(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__

    def known(self):
        return len(self)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.settings = Settings(scale=3.0)

    def forward(self, x):
        h = self.fc(x)
        h = h * self.settings["scale"] * self.settings.known()
        return h * self.settings.scale  # ~
""",
        run="(Scaled(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
from collections import OrderedDict

import torch
from torch import nn


class Attributes(dict):
    def __init__(self, **entries):
        super().__init__(**entries)
        self.__dict__ = self


class Output(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        out = Output(mean=self.fc(x))  # ~
        return out


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x):
        found = Attributes(mean=self.encoder(x)["mean"])
        return found.mean.relu()  # ~
""",
        run="(Model(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
from collections import OrderedDict

import torch
from torch import nn


class Settings(dict):
    def __getattr__(self, name):
        return self[name]


class Attributes(dict):
    def __init__(self, **entries):
        super().__init__(**entries)
        self.__dict__ = self


class Output(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.settings = Settings(scale=3.0)
        self.attributes = Attributes(shift=1.0)

    def forward(self, x):
        h = self.fc(x) * self.settings.scale + self.attributes.shift
        out = Output()
        out["mean"] = h
        sums = Output(total=h.sum())
        return out.mean.relu() + out["mean"] + sums["total"]
""",
        run="(Scaled(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
