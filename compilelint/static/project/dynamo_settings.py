"""What a file sets in `torch._dynamo.config`: by an assignment, `config.patch(…)`, or a call that is given its name."""

from __future__ import annotations

import ast
from functools import lru_cache
from itertools import pairwise

from compilelint.static.project.index import ModuleIndex
from compilelint.static.project.syntax import nodes_in


def set_by(module: ModuleIndex, name: str) -> object:
    """As `set_in`, of a file whose text is at hand, which is quicker to search."""
    return set_in(module.tree, name) if any(name in line for line in module.lines) else None


@lru_cache(maxsize=256)
def set_in(tree: ast.Module, name: str) -> object:
    """The constant that a file first gives a setting; None where it leaves it as it is."""
    for node in nodes_in(tree):
        value: ast.expr | None = None
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            value = node.value if isinstance(target, ast.Attribute) and target.attr == name else None
        elif isinstance(node, ast.keyword):
            value = node.value if node.arg == name else None
        elif isinstance(node, ast.Dict):
            value = next((v for k, v in zip(node.keys, node.values, strict=True) if _is(k, name)), None)
        elif isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id == "getattr"):
            # `config.patch("…", True)`, `setattr(config, "…", True)`, `mock.patch.object(config, "…", True)`
            value = next((v for k, v in pairwise(node.args) if _is(k, name)), None)
        if value is not None:
            return value.value if isinstance(value, ast.Constant) else None
    return None


def _is(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == name
