"""`torch.compile` changes nothing in place: a result that is not kept leaves the model as slow as before.

## What it does

Finds `torch.compile(model)` as a statement, `self = torch.compile(self)` in a method, and `layer =
torch.compile(layer)` where nothing reads the variable afterwards, as in a loop over layers. The same for many at once:
`[torch.compile(layer) for layer in layers]` and `map(torch.compile, layers)` as statements, and
`model.apply(torch.compile)`, which drops what the function returns.

## Why it costs

`torch.compile` returns a new callable. If it is dropped, every call goes on through the original: no graph is
compiled at all (measured on torch 2.13), no error is raised and nothing is logged.

## Write instead

- `model.compile()`, the method of `nn.Module`, compiles in place.
- Or keep the result: `self.net = torch.compile(net)`, `layers[i] = torch.compile(layer)`, `return
  torch.compile(model)`.

## References

PyTorch documentation, `torch.compile` and `torch.nn.Module.compile`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import own_names, parameters
from compilelint.static.project.syntax import children, nodes_in
from compilelint.static.values import External, options

HAZARD = "placement"
WATCH = Watch(nodes=(ast.Expr, ast.Assign), regions=frozenset({"host"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the statement that drops what torch.compile returns."""
    if not isinstance(node, (ast.Expr, ast.Assign)):
        return
    each = _compiles_each(node.value, view) if isinstance(node, ast.Expr) else None
    if each is not None:
        yield Hit(
            node,
            f"`torch.compile` returns new callables and none of them is kept: what `{view.text(each)}` gives stays"
            " uncompiled, without an error",
            "call `.compile()` of each module, which compiles in place; or keep the results where they are called",
        )
    call = node.value
    if not isinstance(call, ast.Call) or view.callee(call) != "torch.compile" or not call.args:
        return
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if len(node.targets) > 1 or not isinstance(target, ast.Name) or isinstance(view.function, ast.Module):
            return
        if _is_read_later(target.id, node, view):
            return
        how = f"`{target.id}` is a local name that nothing reads afterwards"
    else:
        how = "its result is not kept"
    model = view.text(call.args[0])
    yield Hit(
        node,
        f"`torch.compile` returns a new callable and {how}: `{model}` itself stays uncompiled, without an error",
        f"`{model}.compile()` compiles a module in place; or keep the result where `{model}` is called",
    )


def _compiles_each(value: ast.expr, view: View) -> ast.expr | None:
    """What a statement goes through to compile it one by one."""
    if isinstance(value, (ast.ListComp, ast.SetComp)):
        return value.generators[0].iter if _is_compile(value.elt, view) else None
    if not isinstance(value, ast.Call) or not value.args:
        return None
    if view.callee(value) in ("builtins.list", "builtins.tuple") and isinstance(value.args[0], ast.Call):
        return _compiles_each(value.args[0], view)
    by_map = view.callee(value) == "builtins.map" and len(value.args) == 2
    by_apply = isinstance(value.func, ast.Attribute) and value.func.attr == "apply" and len(value.args) == 1
    function = value.args[0]
    inner = function.body if isinstance(function, ast.Lambda) else None
    if not (by_map or by_apply) or not (_is_function(function, view) or (inner and _is_compile(inner, view))):
        return None
    return value.args[1] if by_map else value.func.value if isinstance(value.func, ast.Attribute) else None


def _is_compile(node: ast.expr, view: View) -> bool:
    return isinstance(node, ast.Call) and (view.callee(node) == "torch.compile" or _is_function(node.func, view))


def _is_function(node: ast.expr, view: View) -> bool:
    """Whether `node` is `torch.compile` itself."""
    return External("torch.compile") in options(view.kind(node)) or ast.unparse(node) == "torch.compile"


def _is_read_later(name: str, assignment: ast.stmt, view: View) -> bool:
    """Whether the variable is read after the assignment, or before it on the next turn of a loop."""
    scope = view.function
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in ast.walk(scope)):
        return True
    if any(_reads_later(inner, name) for inner in nodes_in(scope) if inner is not scope):
        return True
    reads = list(_reads(scope, name))
    end = (assignment.end_lineno or assignment.lineno, assignment.end_col_offset or 0)
    if any(
        (read.lineno, read.col_offset) > end for read in reads if not _rebound_between(name, assignment, read, view)
    ):
        return True
    for parent in view.parents(assignment):
        if isinstance(parent, (ast.For, ast.While)) and not _binds(parent, name):
            inside = [node for node in ast.walk(parent) if node in reads]
            if any(read.lineno < assignment.lineno for read in inside):
                return True
    return False


def _reads_later(inner: ast.AST, name: str) -> bool:
    """Whether a nested function reads the variable: whenever it runs, it sees what the variable holds then."""
    if not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or name in own_names(inner):
        return False
    return any(True for _ in _reads(inner, name))


def _reads(scope: ast.AST, name: str) -> Iterator[ast.Name]:
    """The reads of a variable, without those of another one of its name in a comprehension or lambda."""
    for node in children(scope):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield node
        elif not _has_its_own(node, name):
            yield from _reads(node, name)


def _has_its_own(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Lambda):
        return name in parameters(node)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        targets = (inner for generator in node.generators for inner in ast.walk(generator.target))
        return any(isinstance(target, ast.Name) and target.id == name for target in targets)
    return False


def _rebound_between(name: str, assignment: ast.stmt, read: ast.Name, view: View) -> bool:
    """Whether a `for` after the assignment binds the name anew before the read."""
    return any(
        isinstance(parent, ast.For) and _binds(parent, name) and parent.lineno > assignment.lineno
        for parent in view.parents(read)
    )


def _binds(loop: ast.For | ast.While, name: str) -> bool:
    return isinstance(loop, ast.For) and any(
        isinstance(node, ast.Name) and node.id == name for node in ast.walk(loop.target)
    )


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def prepare(self, state, fast=True):
        self.load_state_dict(state)
        if fast:
            self = torch.compile(self)  # ~

    def forward(self, x):
        return self.proj(x)
""",
    ),
    Example(
        code="""
import torch
from torch import nn


def speed_up(model: nn.Module, layers: nn.ModuleList):
    torch.compile(model, mode="max-autotune")  # ~
    for layer in layers:
        layer = torch.compile(layer)  # ~
    [torch.compile(layer) for layer in layers]  # ~
    list(map(torch.compile, layers))  # ~
    model.apply(torch.compile)  # ~
    model.apply(lambda layer: torch.compile(layer))  # ~
    return model
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Service:
    def __init__(self, net: nn.Module):
        self.net = torch.compile(net)


def speed_up(model: nn.Module, fast=True):
    for i, layer in enumerate(model.layers):
        layer = torch.compile(layer)
        model.layers[i] = layer
    for name, child in model.named_children():
        child.compile()
    if fast:
        model = torch.compile(model)
    model.forward = torch.compile(model.forward)
    return model


def train(model, batches):
    for batch in batches:
        model(batch)
        model = torch.compile(model)


def both(model, x):
    fast = torch.compile(model); return fast(x) - model(x)


def bench(model, loss, x):
    def step():
        return loss(model(x))

    model = torch.compile(model)
    loss = torch.compile(loss)
    return timed(step), timed(lambda: model(x))


compiled = torch.compile(nn.Linear(4, 4))
""",
    ),
)
