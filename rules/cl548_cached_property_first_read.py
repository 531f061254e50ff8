"""A `functools.cached_property` that compiled code is the first to read leaves the function to Python.

## What it does
Finds, in code that Dynamo traces, reads of a `functools.cached_property` that nothing else in its file reads before: of
the compiled module itself, or of an object that the code makes.

## Why it costs
Up to Python 3.11 the first read takes a lock, which Dynamo does not trace (GB0142): no graph is left of the function,
and it stays that way although later reads find the value. `fullgraph=True` raises. From Python 3.12 on there is no
lock; the second call finds the value there, and compiles the function again for that.

## Write instead
Compute it in `__init__`, or read it there once:

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freqs", self.build_freqs(dim))

A plain `property`, which is traced at each call, compiles too.

## Limits
Reads in other files before the first compiled call, as in an eager warm-up, are not known here. The Python that counts
is the one that compilelint runs on. Measured on torch 2.13 under Python 3.11, and with the class of 3.12.

## References
GB0142 in torch's graph-break registry; "Changed in version 3.12" in the documentation of `functools.cached_property`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.early import runs_early
from compilelint.static.facts.questions import assigned_once
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Instance

HAZARD = "frame-skip"
PYTHON = sys.version_info[:2]
CACHED = frozenset({"cached_property", "functools.cached_property"})


@about_file(frozenset())
def cached_properties(module: ast.Module) -> frozenset[str]:
    """The names of the properties of a file that are cached, and that nothing sets or reads before compiled code runs.

    A name in quotes counts as read: `setattr(self, "freqs", …)`.
    """
    functions = [node for node in nodes_in(module) if isinstance(node, ast.FunctionDef)]
    cached = {function.name for function in functions if _is_cached(function)}
    if not cached or not _is_of_functools(module):
        return frozenset()
    parts = [part for around in runs_early(module) for part in nodes_in(around)]
    known = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    known |= {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    known |= {p.attr for p in nodes_in(module) if isinstance(p, ast.Attribute) and isinstance(p.ctx, ast.Store)}
    return frozenset(cached - known)


def _is_of_functools(module: ast.Module) -> bool:
    """Whether `cached_property` is that of functools; others of that name take no lock."""
    imports = (node for node in nodes_in(module) if isinstance(node, ast.ImportFrom))
    return not any(
        isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == "cached_property" for node in module.body
    ) and all(node.module == "functools" for node in imports if any(a.name == "cached_property" for a in node.names))


@about_file(())
def read_by_drivers(module: ast.Module) -> tuple[str, ...]:
    """The attributes that functions outside of classes read."""
    parts = [p for driver in module.body if isinstance(driver, ast.FunctionDef) for p in nodes_in(driver)]
    named = {p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)}
    return tuple(sorted(named | {p.attr for p in parts if isinstance(p, ast.Attribute)}))


def _is_cached(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(made) in CACHED for made in function.decorator_list)


WATCH = Watch(
    nodes=(ast.Attribute,),
    syntax=lambda node, module: isinstance(node, ast.Attribute) and node.attr in cached_properties(module),
    files=lambda module: bool(cached_properties(module)),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """The first read in a function of a property that is cached."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load) or view.assumed:
        return
    if not _is_new(node.value, node.attr, view) or not _is_first(node, view):
        return
    members = [member for owner in view.classes(view.kind(node.value)) for member in owner.body]
    found = next((member for member in members if node.attr in _names(member)), None)
    if isinstance(found, ast.FunctionDef) and _is_cached(found):
        skipped = PYTHON < (3, 12)
        yield Hit(
            node,
            f"`{view.text(node)}` is a `cached_property` that is first read here: "
            + (
                "it takes a lock for that, which Dynamo does not trace, and all of the function runs uncompiled"
                if skipped
                else "the next call finds the value there, and compiles the function again"
            ),
            "compute it in `__init__`, or read it there once",
            "likely",
            "frame-skip" if skipped else "recompile",
        )


def _names(member: ast.stmt) -> set[str]:
    """What a statement in the body of a class defines."""
    targets = member.targets if isinstance(member, ast.Assign) else []
    if isinstance(member, ast.AnnAssign) and member.value is not None:
        targets = [member.target]
    return {getattr(member, "name", "")} | {target.id for target in targets if isinstance(target, ast.Name)}


def _is_new(owner: ast.expr, name: str, view: View) -> bool:
    """Whether an object is the module that is compiled, or one that this function makes, and its property not read."""
    value = view.kind(owner)
    if not isinstance(value, Instance):
        return False
    if isinstance(owner, ast.Name) and owner.id == "self":
        return value.is_module and view.same_self and name not in view.fact(read_by_drivers)
    made = assigned_once(view.function, owner.id) if isinstance(owner, ast.Name) else owner
    return isinstance(made, ast.Call) and view.kind(made) == value and ast.unparse(made.func)[:1].isupper()


def _is_first(read: ast.Attribute, view: View) -> bool:
    """Whether the function has not read this before."""
    text = ast.unparse(read)
    same = [n for n in nodes_in(view.function) if isinstance(n, ast.Attribute) and ast.unparse(n) == text]
    return read is min(same, key=lambda node: (node.lineno, node.col_offset))


BAD = (
    Example(
        code="""\
from functools import cached_property

import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.dim = dim
        self.proj = nn.Linear(dim, dim)

    @cached_property
    def freqs(self):
        return 1.0 / (10000 ** (torch.arange(self.dim) / self.dim))

    def forward(self, x):
        h = self.proj(x)
        return h * self.freqs + self.freqs  # ~
""",
        run="(Rotary(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import functools

import torch
from torch import nn


class Settings:
    def __init__(self, heads):
        self.heads = heads

    @functools.cached_property
    def scale(self):
        return 1.0 / self.heads

    @functools.cached_property
    def bias(self):
        return 0.5 * self.heads


class Known(Settings):
    bias = 0.5


class Rotary(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.dim = dim
        self.settings = Settings(2)
        self.proj = nn.Linear(dim, dim)
        self.width = self.freqs.shape[0]
        self.settings.scale
        self.reset()

    def reset(self):
        for name in ("depth",):
            getattr(self, name)
        self.bound = self.limit * 2
        self.top = 3.0

    @functools.cached_property
    def limit(self):
        return 2.0 * self.dim

    @functools.cached_property
    def top(self):
        return 2.0 * self.limit

    @functools.cached_property
    def freqs(self):
        return self.base ** (torch.arange(self.dim) / self.dim)

    @functools.cached_property
    def base(self):
        return 1e-4

    @functools.cached_property
    def depth(self):
        return 2

    @property
    def half(self):
        return self.dim // 2

    def forward(self, x):
        x = self.proj(x).clamp(max=self.limit * self.top)
        return x * self.freqs * self.half * self.settings.scale * self.base**self.depth * Known(2).bias
""",
        run="(Rotary(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class cached_property:
    def __init__(self, function):
        self.function = function

    def __get__(self, owner, kind=None):
        return self.function(owner)


class Box:
    def __init__(self, sides):
        self.sides = sides

    @cached_property
    def area(self):
        return self.sides * 2


class Head(nn.Module):
    def forward(self, x):
        return Box(x).area
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
