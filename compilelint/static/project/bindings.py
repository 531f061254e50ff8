"""What a file binds to names by calling something."""

from __future__ import annotations

import ast
from functools import lru_cache

from compilelint.static.project.syntax import statements_in


def bound_to(module: ast.Module, name: str) -> tuple[ast.Call, ...]:
    """The calls whose result the file binds to `name`, as a variable or as an attribute: `self.name = f(x)`.

    For what kinds do not tell: an object that some wrapper made of another one.
    """
    return all_bound(module).get(name, ())


@lru_cache(maxsize=20_000)
def makers_of(module: ast.Module, name: str) -> frozenset[str]:
    """What the file calls to make what it binds to `name`, as written: `{"tqdm", "torch.jit.load"}`."""
    return frozenset(ast.unparse(call.func) for call in bound_to(module, name))


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
