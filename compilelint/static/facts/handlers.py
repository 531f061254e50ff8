"""Functions that answer requests, and what they make of them."""

from __future__ import annotations

import ast

from compilelint.static.facts.state import names_in, own_nodes


def handles_requests(function: ast.AST) -> bool:
    """Whether a decorator registers the function for a path: `@app.route("/predict")`, `@router.post("/embed")`."""
    calls = [d for d in getattr(function, "decorator_list", ()) if isinstance(d, ast.Call) and d.args]
    paths = [call.args[0] for call in calls if isinstance(call.func, ast.Attribute)]
    return any(isinstance(p, ast.Constant) and isinstance(p.value, str) and p.value.startswith("/") for p in paths)


def made_of(names: set[str], function: ast.AST) -> set[str]:
    """The names, and those of variables that a function makes of them, one after another."""
    reached = set(names)
    for node in own_nodes(function):
        if isinstance(node, ast.Assign) and names_in(node.value) & reached:
            reached |= {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return reached
