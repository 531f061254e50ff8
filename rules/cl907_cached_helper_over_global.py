"""A helper behind `functools.lru_cache` that reads a changing global, or draws, differs between compiled and eager.

## What it does

Finds, in compiled code, a call of a project function decorated with `lru_cache` or `cache` that reads a global which
other functions set, and the read itself; the same for one that draws random numbers with torch.

## Why it costs

Dynamo traces through the cache wrapper and ignores it (it warns once). Eager code keeps returning what was cached
under the old setting; compiled code guards on the global, compiles again when it changes, and uses the new value. What
was drawn once and kept in eager code, compiled code draws anew in every call.
Measured on torch 2.13: outputs differ, from the third call on with a global, and no error is raised. Which of the two
is right depends on what was meant.

## Write instead

- Pass the setting as an argument of the cached function, so that it is part of the key.
- Or compute the table once, in `__init__`, and keep it in a buffer.

## Limits

A cached function that depends on its arguments only is fine: the compiled code computes it in the graph.

## References

PyTorch documentation, the warning "call to a `lru_cache`-wrapped function"; measured on torch 2.13.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import functions_in, globals_set, is_global, own_names, own_nodes
from compilelint.static.project.answers import about_file

HAZARD = "stale-result"
WATCH = Watch(
    nodes=(ast.Call, ast.Name, ast.Subscript),
    files=lambda module: _caches(module),
    syntax=lambda node, module: _may_be_cached(node, module),
)
CACHES = frozenset({"lru_cache", "cache"})
DRAWING = frozenset("rand randn randint randperm normal bernoulli multinomial rand_like randn_like".split())


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the call of a cached helper over a changing global, and the read of the global inside the helper."""
    if isinstance(node, ast.Call):
        for helper in _helpers(node, view):
            name = next(iter(_changing(helper, view.module)), None)
            if name is not None:
                yield _hit(node, f"`{helper.name}` is cached and reads `{name}`, which changes", view)
            elif (draw := next(_draws(helper), None)) is not None:
                yield _drawn(node, f"`{helper.name}` is cached and draws (`{view.text(draw)}`)")
        if _is_cached(view.function) and node in set(_draws(view.function)):
            yield _drawn(node, f"`{view.text(node)}` draws, and this function is cached")
    elif isinstance(node, (ast.Name, ast.Subscript)) and _is_cached(view.function):
        name = ast.unparse(node)
        root = node.id if isinstance(node, ast.Name) else ast.unparse(node.value)
        if name in globals_set(view.module) and is_global(root, view):
            yield _hit(node, f"`{name}` changes, and this function is cached", view)


def _caches(module: ast.Module) -> bool:
    """Whether the file caches a function at all."""
    return bool(_cached_in(module))


def _may_be_cached(node: ast.AST, module: ast.Module) -> bool:
    """Whether a function is called that the file caches, or a global read that it changes."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in DRAWING or last_name(node.func) in _cached_in(module)
    return bool(globals_set(module)) and isinstance(node.ctx, ast.Load)  # type: ignore


def _hit(node: ast.expr, what: str, view: View) -> Hit:
    return Hit(
        node,
        f"{what}: eager code goes on with the cached result, compiled code ignores the cache and uses the new value",
        "pass the setting as an argument, so that it is part of the cache's key, or keep the table in a buffer",
        confidence="likely",
    )


def _drawn(node: ast.expr, what: str) -> Hit:
    return Hit(
        node,
        f"{what}: eager code goes on with the numbers of the first call, compiled code ignores the cache and draws"
        " others in each",
        "draw once, in `__init__`, and keep the result in a buffer",
        confidence="likely",
    )


def _draws(function: ast.AST) -> Iterator[ast.Call]:
    """The calls of a function that draw from torch's own generator; none where it seeds that, which is not traced."""
    calls = [node for node in own_nodes(function) if isinstance(node, ast.Call)]
    if any(last_name(call.func) == "manual_seed" for call in calls):
        return
    for call in calls:
        seeded = any(keyword.arg == "generator" for keyword in call.keywords)
        if last_name(call.func) in DRAWING and ast.unparse(call.func).startswith("torch.") and not seeded:
            yield call


def _helpers(call: ast.Call, view: View) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The cached functions of this file that a call by plain name means."""
    if isinstance(call.func, ast.Name) and is_global(call.func.id, view):
        for function in functions_in(view.module):
            if function.name == call.func.id and _is_cached(function):
                yield function


@about_file(frozenset())
def _cached_in(module: ast.Module) -> frozenset[str]:
    """The functions of a file, nested ones included, that remember their results."""
    return frozenset(function.name for function in functions_in(module) if _is_cached(function))


def _is_cached(function: ast.AST) -> bool:
    for decorator in getattr(function, "decorator_list", ()):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(target).rpartition(".")[2] in CACHES:
            return True
    return False


def _changing(function: ast.FunctionDef | ast.AsyncFunctionDef, module: ast.Module) -> Iterator[str]:
    """The globals that a function reads and other functions set."""
    local = own_names(function)
    for node in own_nodes(function):
        if isinstance(node, (ast.Name, ast.Subscript)) and isinstance(node.ctx, ast.Load):
            name = ast.unparse(node)
            if name in globals_set(module) and name.partition("[")[0] not in local:
                yield name


BAD = (
    Example(
        code="""
import functools

import torch
from torch import nn

SETTINGS = {"scaling": (100.0, 1.0)}


@functools.lru_cache(maxsize=8)
def table(n, dim):
    theta, factor = SETTINGS["scaling"]  # ~
    frequency = factor / (theta ** (torch.arange(0, dim) / dim))
    return torch.outer(torch.arange(n).float(), frequency).cos()


class Layer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        return self.proj(x) * table(x.shape[0], x.shape[1])  # ~


class App:
    def __init__(self):
        self.net = torch.compile(Layer())

    def __call__(self, x, theta):
        SETTINGS["scaling"] = (theta, 1.0)
        return self.net(x)
""",
        run="App(), [(torch.ones(5, 4), theta) for theta in (100.0, 100.0, 50.0)]",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
    Example(
        code="""
import functools

import torch
from torch import nn


@functools.lru_cache(maxsize=None)
def signs(n):
    return torch.randint(0, 2, (n,)).float() * 2 - 1  # ~


class Sketch(nn.Module):
    def forward(self, x):
        x = x + torch.rand_like(x)
        return x * signs(x.shape[-1])  # ~
""",
        run="Sketch(), [(torch.ones(n, 64),) for n in (2, 3)]",
        default="stale",
        fullgraph="stale",
    ),
)

GOOD = (
    Example(
        code="""
import functools

import torch
from torch import nn


@functools.lru_cache(maxsize=None)
def ramp(n):
    return torch.linspace(0.0, 1.0, n)


def noise(n):
    return torch.zeros(n) * torch.randn(n)


class Sketch(nn.Module):
    def __init__(self, n=64):
        super().__init__()
        self.register_buffer("signs", torch.randint(0, 2, (n,)).float() * 2 - 1)

    def forward(self, x):
        return x * self.signs * ramp(x.shape[-1]) + noise(x.shape[-1])
""",
        run="Sketch(), [(torch.ones(2, 64),) for _ in range(2)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""
import functools

import torch
from torch import nn

LIMITS = {"longest": 16}


@functools.cache
def table(n, dim, theta):
    frequency = 1.0 / (theta ** (torch.arange(0, dim) / dim))
    return torch.outer(torch.arange(min(n, LIMITS["longest"])).float(), frequency).cos()


class Layer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        return self.proj(x) * table(x.shape[0], x.shape[1], 100.0)
""",
        run="Layer(), [(torch.ones(5, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
)
