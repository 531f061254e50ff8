"""What the functions of a file change after construction, so that a function that reads it may find another value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.static.facts.state import entry_of, functions_in, own_names, own_nodes, own_statements
from compilelint.static.project.answers import about_file


def changing_reads(function: ast.FunctionDef, module: ast.Module) -> Iterator[str]:
    """What a function reads that other functions of the file change, as written."""
    local = own_names(function)
    for node in own_nodes(function):
        if isinstance(node, ast.Attribute) and node.attr in _attributes_set(module):
            yield ast.unparse(node)
        elif isinstance(node, (ast.Name, ast.Subscript)):
            text = ast.unparse(node)
            if text in _globals_changed(module) and text.partition("[")[0] not in local:
                yield text


@about_file(frozenset())
def _globals_changed(module: ast.Module) -> frozenset[str]:
    """The names and dict entries of the file, as written, that functions set to anything or add to."""
    names = own_names(module)
    return frozenset(
        ast.unparse(target)
        for function in functions_in(module)
        for node in (own_statements(function) if getattr(function, "name", "") != "__init__" else ())
        if isinstance(node, (ast.Assign, ast.AugAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if (name := entry_of(target)) in names and name not in own_names(function)
    )


@about_file(frozenset())
def _attributes_set(module: ast.Module) -> frozenset[str]:
    """The attributes that functions of the file set after construction."""
    return frozenset(
        node.attr
        for function in functions_in(module)
        if function.name not in ("__init__", "__new__", "__post_init__")
        for node in own_nodes(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
