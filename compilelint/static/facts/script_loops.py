"""What the loops of a script set between calls of what it compiles."""

from __future__ import annotations

import ast

from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import functions_in, own_statements
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in, statements_in


@about_file({})
def globals_set_in_loops(module: ast.Module) -> dict[str, int]:
    """Names of the file that a loop outside of its functions sets and that calls what the file compiles: name -> line.

    What a loop sets while it builds a table, and compiles nothing, is the same at each call.
    """
    compiled = {f.name for f in functions_in(module) if any("compile" in ast.unparse(d) for d in f.decorator_list)}
    found: dict[str, int] = {}
    loops: list[ast.AST] = []
    for statement in own_statements(module):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            made = last_name(statement.value.func) == "compile"
            compiled |= {target.id for target in statement.targets if made and isinstance(target, ast.Name)}
        if isinstance(statement, (ast.For, ast.While)):
            loops.append(statement)
    for loop in loops:
        calls = (node for node in nodes_in(loop) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
        if any(isinstance(call.func, ast.Name) and call.func.id in compiled for call in calls):
            for node in statements_in(loop):
                if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
                    found |= {target.id: node.lineno for target in node.targets if isinstance(target, ast.Name)}
                elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                    found[node.target.id] = node.lineno
    return found
