"""A custom operator that writes to an argument it does not declare gives wrong results.

## What it does
Finds operators under `torch.library.custom_op` whose body changes a parameter in place although `mutates_args` does
not name it, where compiled code calls them.

## Why it costs
The compiler believes the declaration. An operator that says it changes nothing may be dropped when its result is
unused, moved across reads of the argument, or given a copy: the write is lost. There is no error and no break; the
numbers differ from eager mode. With `backend="aot_eager"` on torch 2.13, an undeclared `x.add_(v)` whose result
nobody reads did not happen.

## Write instead
Name the argument, `mutates_args=("cache",)`, or return a new tensor.

## Limits
In-place methods (`x.add_()`), item assignment and `out=` on a parameter itself are seen, writes through a view or in
a called function are not. `torch.library.opcheck` finds the rest.

## References
torch.library documentation: `custom_op` (`mutates_args`), `opcheck`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "stale-result"
WATCH = Watch(nodes=(ast.Call,), syntax=lambda node, module: has_operators(module))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per undeclared write in an operator that is called here, at the write."""
    if not isinstance(node, ast.Call):
        return
    for function, decorator in operators_in(view.module):
        if ast.unparse(node.func) != function.name:
            continue
        declared = ast.unparse(view.argument(decorator, 1, "mutates_args") or ast.Tuple([]))
        for written, name in writes_to_parameters(function):
            if "unknown" not in declared and repr(name) not in declared:
                yield Hit(
                    written,
                    f"`{function.name}` changes `{name}` but does not declare it: compiled code may lose this write",
                    f'declare it: `mutates_args=("{name}",)`, or return a new tensor',
                )


def has_operators(module: ast.Module) -> bool:
    """Whether the file makes an operator of its own."""
    return bool(operators_in(module))


@lru_cache(maxsize=256)
def operators_in(module: ast.Module) -> tuple[tuple[ast.FunctionDef, ast.Call], ...]:
    """The operators a file makes; found once per file, since the rule asks at every call."""
    return tuple(_operators(module))


def _operators(module: ast.Module) -> Iterator[tuple[ast.FunctionDef, ast.Call]]:
    """The functions that `custom_op` makes operators of, each with the decorator call."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("custom_op"):
                    yield node, decorator


def writes_to_parameters(function: ast.FunctionDef) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Statements and calls that change a parameter in place, with its name."""
    parameters = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    rebound = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(function):
        changed: list[ast.expr] = []
        if isinstance(node, ast.Call):
            changed = [keyword.value for keyword in node.keywords if keyword.arg == "out"]
            if isinstance(node.func, ast.Attribute) and in_place(node.func.attr):
                changed.append(node.func.value)
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            changed = [target.value for target in targets if isinstance(target, ast.Subscript)]
            changed += [node.target] if isinstance(node, ast.AugAssign) else []
        for target in changed:
            base = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(base, ast.Name) and base.id in parameters - rebound_elsewhere(rebound, node):
                yield node, base.id  # type: ignore[misc]


def rebound_elsewhere(rebound: set[str], node: ast.AST) -> set[str]:
    """Names that mean something else than the parameter; an augmented assignment rebinds its own target."""
    own = node.target.id if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) else None
    return rebound - {own}


def in_place(method: str) -> bool:
    """Whether a tensor method of that name writes to its receiver."""
    return method.endswith("_") and not method.endswith("__") and method != "requires_grad_"


BAD = (
    Example(
        code="""\
import torch
from torch import nn


@torch.library.custom_op("examplelab::push", mutates_args=())
def push(cache: torch.Tensor, value: torch.Tensor) -> None:
    cache.mul_(0.9)  # ~
    cache[0] = value[0]  # ~


@push.register_fake
def _(cache, value):
    return None


class Recent(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 4))

    def forward(self, x):
        push(self.cache, x)
        return self.cache + x
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


@torch.library.custom_op("examplelab::store", mutates_args=("cache",))
def store(cache: torch.Tensor, value: torch.Tensor) -> None:
    cache.copy_(value)


@store.register_fake
def _(cache, value):
    return None


@torch.library.custom_op("examplelab::decayed", mutates_args=())
def decayed(cache: torch.Tensor) -> torch.Tensor:
    fresh = cache.clone()
    fresh.mul_(0.9)
    return fresh


@decayed.register_fake
def _(cache):
    return torch.empty_like(cache)


class Recent(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 4))

    def forward(self, x):
        store(self.cache, x)
        return decayed(self.cache) + x
""",
        run="(Recent(), [(torch.rand(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
