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
from compilelint.static.facts.questions import assigned_once, last_name
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Instance

HAZARD = "frame-skip"
PYTHON = sys.version_info[:2]
CACHED = frozenset({"cached_property", "functools.cached_property"})
FIRST = frozenset({"__init__", "__post_init__"})
"""Methods that run before any compiled code does."""


@about_file(frozenset())
def cached_properties(module: ast.Module) -> frozenset[str]:
    """The names of the properties of a file that are cached, and that nothing sets or reads before compiled code runs.

    That is done by code outside of functions, by an `__init__` and by what it calls.
    """
    functions = [node for node in nodes_in(module) if isinstance(node, ast.FunctionDef)]
    cached = {function.name for function in functions if _is_cached(function)}
    if not cached:
        return frozenset()
    early: list[ast.AST] = [s for s in module.body if not isinstance(s, (ast.FunctionDef, ast.ClassDef))]
    names = _called_first(functions)
    early += [function for function in functions if function.name in names]
    known = {part.attr for around in early for part in nodes_in(around) if isinstance(part, ast.Attribute)}
    known |= {p.attr for p in nodes_in(module) if isinstance(p, ast.Attribute) and isinstance(p.ctx, ast.Store)}
    return frozenset(cached - known)


def _called_first(functions: list[ast.FunctionDef]) -> set[str]:
    """The names of the functions that run when an object is made."""
    names, new = set(FIRST), True
    while new:
        called = {
            last_name(part.func)
            for function in functions
            if function.name in names
            for part in nodes_in(function)
            if isinstance(part, ast.Call)
        }
        new = not called & {function.name for function in functions} <= names
        names |= called
    return names


@about_file(())
def read_by_drivers(module: ast.Module) -> tuple[str, ...]:
    """The attributes that functions outside of classes read."""
    drivers = [statement for statement in module.body if isinstance(statement, ast.FunctionDef)]
    return tuple(sorted({p.attr for around in drivers for p in nodes_in(around) if isinstance(p, ast.Attribute)}))


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
    classes = view.classes(view.kind(node.value))
    if any(isinstance(m, ast.FunctionDef) and m.name == node.attr and _is_cached(m) for c in classes for m in c.body):
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
        return 1.0 / (10000 ** (torch.arange(self.dim) / self.dim))

    @property
    def half(self):
        return self.dim // 2

    def forward(self, x):
        x = self.proj(x).clamp(max=self.limit * self.top)
        return x * self.freqs * self.half * self.settings.scale
""",
        run="(Rotary(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
