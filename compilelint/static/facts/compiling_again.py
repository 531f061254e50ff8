"""Where code may call `torch.compile` again and again: handlers of requests, methods that set up, loops, wrappers."""

from __future__ import annotations

import ast
from functools import lru_cache

from compilelint.static.facts.state import names_in, own_nodes, parameters


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


def asks_for(test: ast.expr, attribute: str) -> bool:
    """Whether a test may ask for what has been compiled already."""
    return any(
        (isinstance(part, ast.Attribute) and part.attr == attribute)
        or isinstance(part, (ast.Not, ast.Is, ast.NotIn))
        or (isinstance(part, ast.Call) and ast.unparse(part.func) == "hasattr")
        for part in ast.walk(test)
    )


def always_calls(method: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Whether a statement of the method's own block is `self.name(…)`."""
    return any(
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and ast.unparse(statement.value.func) == f"self.{name}"
        for statement in method.body
    )


def calls_kept(method: ast.FunctionDef | ast.AsyncFunctionDef, attribute: str) -> bool:
    """Whether the method calls what its object keeps in an attribute."""
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == f"self.{attribute}" for node in own_nodes(method)
    )


@lru_cache(maxsize=1024)
def gives_compiled(function: ast.AST) -> bool:
    """Whether a function of the project does nothing but compile what it is given, or hand it back as it is."""
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return False
    returned = [node.value for node in own_nodes(function) if isinstance(node, ast.Return)]
    names = parameters(function)
    compiled = [
        part.args[0].id
        for part in returned
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "torch.compile"
        if part.args and isinstance(part.args[0], ast.Name)
    ]
    others = [part for part in returned if not isinstance(part, ast.Call)]
    given_back = all(isinstance(part, ast.Name) and part.id in names for part in others)
    return bool(compiled) and given_back and set(compiled) <= set(names)


def bound_in(loop: ast.For | ast.While) -> set[str]:
    """Every name that the loop binds: what depends on one of them may be new on each turn."""
    return {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
