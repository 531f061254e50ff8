"""What the loops of a script set between calls of what it compiles."""

from __future__ import annotations

import ast

from compilelint.static.facts.state import own_statements
from compilelint.static.project.answers import about_file
from compilelint.static.project.compiled_names import is_compiled
from compilelint.static.project.syntax import nodes_in, statements_in


@about_file({})
def globals_set_in_loops(module: ast.Module) -> dict[str, int]:
    """Names of the file that a loop outside of its functions sets and that calls what the file compiles: name -> line.

    What a loop sets while it builds a table, and compiles nothing, is the same at each call.
    """
    found: dict[str, int] = {}
    for loop in (node for node in own_statements(module) if isinstance(node, (ast.For, ast.While))):
        calls = (node.func for node in nodes_in(loop) if isinstance(node, ast.Call))
        if any(is_compiled(function, module, module) for function in calls):
            for node in statements_in(loop):
                if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
                    found |= {target.id: node.lineno for target in node.targets if isinstance(target, ast.Name)}
                elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                    found[node.target.id] = node.lineno
    return found
