"""What a file binds to names by calling something."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import lru_cache

from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import statements_in


def bound_to(module: ast.Module, name: str) -> tuple[ast.Call, ...]:
    """The calls whose result the file binds to `name`, as a variable or as an attribute: `self.name = f(x)`.

    For what kinds do not tell: an object that some wrapper made of another one.
    """
    return all_bound(module).get(name, ()) if name in names_bound(module) else ()


@lru_cache(maxsize=20_000)
def makers_of(module: ast.Module, name: str) -> frozenset[str]:
    """What the file calls to make what it binds to `name`, as written: `{"tqdm", "torch.jit.load"}`."""
    return frozenset(ast.unparse(call.func) for call in bound_to(module, name))


@about_file(frozenset())
def names_bound(module: ast.Module) -> frozenset[str]:
    """The names that `bound_to` knows of."""
    return frozenset(all_bound(module))


def bound_alone_to(module: ast.Module, makers: Collection[str]) -> tuple[str, ...]:
    """The names to which the file binds nothing but what some `makers`, as written, make."""
    last = frozenset(maker.rpartition(".")[2] for maker in makers)

    def is_made_so(call: ast.Call) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        return name in last and ast.unparse(call.func) in makers

    return tuple(sorted(name for name, made in all_bound(module).items() if all(map(is_made_so, made))))


@lru_cache(maxsize=256)
def all_bound(module: ast.Module) -> dict[str, tuple[ast.Call, ...]]:
    """By name, the calls that a file binds; found once per file, since rules ask at every call."""
    found: dict[str, tuple[ast.Call, ...]] = {}
    for node in statements_in(module):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                name = getattr(target, "attr", None) or getattr(target, "id", None)
                if name:
                    found[name] = (*found.get(name, ()), node.value)
    return found
