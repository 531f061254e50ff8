"""What a file sets in `torch._dynamo.config`, as an assignment or in `config.patch(…)`."""

from __future__ import annotations

import ast
from functools import lru_cache

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
        if value is not None:
            return value.value if isinstance(value, ast.Constant) else None
    return None
