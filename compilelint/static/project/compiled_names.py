"""By which names a file calls what it compiles: variables, attributes, properties, and functions that return it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from compilelint.static.project.index import FunctionNode
from compilelint.static.project.syntax import children, nodes_in, statements_in

_ACCESSORS = frozenset({"property", "cached_property"})


@cache
def compiled_names(tree: ast.Module) -> frozenset[str]:
    """What the file binds to something compiled: `step`, `get_step()` for what a call of `get_step` returns.

    Of an attribute the last name, `step` for `self.step`; so too for an entry of a container, `self.steps[key]`.
    """
    found: set[str] = set()
    for node in statements_in(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and compiled_by(node):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and _compiles(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name for target in targets for name in _last_names(target)}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _compiles(node.value):
            found |= _set_by(node.value)
    while more := set(_handed_on(tree, found)) - found:
        found |= more
    return frozenset(found)


def called_name(function: ast.expr) -> str:
    """The name in `compiled_names` under which a call's function would stand; empty for what has none."""
    if isinstance(function, ast.Subscript):
        return called_name(function.value)
    if isinstance(function, ast.Call):
        inner = called_name(function.func)
        return f"{inner}()" if inner else ""
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def is_compiled(function: ast.expr, scope: ast.AST, tree: ast.Module) -> bool:
    """Whether what is called in `scope`, a function of the file, is by its name something that the file compiles."""
    name = called_name(function)
    return name in compiled_names(tree) and not (
        isinstance(function, ast.Name) and name in namesakes(tree).get(scope, frozenset())
    )


@cache
def namesakes(tree: ast.Module) -> dict[ast.AST, frozenset[str]]:
    """By function, the variables that it, or a function around it, sets to something that is not compiled.

    What the file compiles under the same name elsewhere is another thing: of ten tests that each make a `model`, one
    compiles it. A parameter may well be what another function of the file compiles.
    """
    compiled = compiled_names(tree)
    found: dict[ast.AST, frozenset[str]] = {}
    pending: list[tuple[ast.AST, frozenset[str]]] = [(tree, frozenset())] if compiled else []
    while pending:
        scope, outer = pending.pop()
        inside = _inside(scope)
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            taken = {node.arg for node in nodes_in(scope.args) if isinstance(node, ast.arg)}
            sets = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
            sets -= {name for node in inside if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
            others = sets - taken - {name for node in inside for name in _set_to_compiled(node, compiled)}
            outer = found[scope] = frozenset((outer - taken - sets) | others) & compiled
        pending += [(node, outer) for node in inside if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return found


def _inside(scope: ast.AST) -> list[ast.AST]:
    """The nodes of a function or file, with those of classes in it, and without those of functions in it."""
    found: list[ast.AST] = []
    pending = children(scope)
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending += children(node)
    return found


def _set_to_compiled(node: ast.AST, known: frozenset[str]) -> Iterator[str]:
    """The names that a node sets to something compiled."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        value = node.value
        if _compiles(value) or _is_known(value, known) or (isinstance(value, ast.Name) and value.id in known):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from _last_names(target)
    elif isinstance(node, (ast.For, ast.AsyncFor)) and _compiles(node.iter):
        yield from _last_names(node.target)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _compiles(node.value):
        yield from _set_by(node.value)


def compiled_by(function: ast.AST) -> bool:
    """Whether a decorator compiles a function."""
    written = map(ast.unparse, getattr(function, "decorator_list", ()))
    return any("compile" in decorator or "dynamo.optimize" in decorator for decorator in written)


def compiles_parameter(function: FunctionNode | ast.Lambda) -> bool:
    """Whether a function compiles what it is given: `compiled = torch.compile(step)` in `def timed(step, x)`."""
    arguments = function.args
    given = {parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    given -= {"self", "cls"}
    return any(
        isinstance(argument, ast.Name) and argument.id in given
        for node in nodes_in(function)
        if isinstance(node, ast.Call) and _takes_model(node.func)
        for argument in (*node.args, *_models(node))
    )


def _takes_model(function: ast.expr) -> bool:
    """Whether a call of it compiles what it is given: `torch.compile`, `torch.compile(dynamic=True)`, but not what
    `torch.compile(step)` gives."""
    if isinstance(function, ast.Call):
        maker = function.func
        is_maker = isinstance(maker, ast.Attribute) and _is_compiler(maker)
        return is_maker and (_is_optimize(maker) or not (function.args or _models(function)))
    return isinstance(function, ast.Attribute) and _is_compiler(function) and not _is_optimize(function)


def _models(call: ast.Call) -> list[ast.expr]:
    return [keyword.value for keyword in call.keywords if keyword.arg == "model"]


def _compiles(node: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and _is_compiler(part.func)
        for part in ast.walk(node)
    )


def _is_compiler(function: ast.Attribute) -> bool:
    """Whether a call of it compiles: `torch.compile`, `model.compile`, `torch._dynamo.optimize`."""
    # The name first: all calls of a file are asked, and of a long chain of them each owner is a text of its own.
    if _is_optimize(function):
        return ast.unparse(function.value).endswith("dynamo")
    return function.attr == "compile" and ast.unparse(function.value) not in ("re", "regex")


def _is_optimize(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in ("optimize", "optimize_assert")


def _set_by(call: ast.Call) -> set[str]:
    """What `setattr(self, "step", torch.compile(…))`, `net.compile()` and `steps.append(torch.compile(…))` bind."""
    if isinstance(call.func, ast.Name) and call.func.id == "setattr" and len(call.args) == 3:
        name = call.args[1]
        return {name.value} if isinstance(name, ast.Constant) and isinstance(name.value, str) else set()
    return set(_last_names(call.func))


def _last_names(target: ast.expr) -> Iterator[str]:
    """`net` of `self.net`, of `self.net[i]`, of `self.net.append`, of `self.net.compile` and of `self.net.forward`."""
    if isinstance(target, ast.Subscript):
        yield from _last_names(target.value)
    elif isinstance(target, ast.Attribute):
        of_self = isinstance(target.value, ast.Name) and target.value.id == "self"
        is_part = target.attr in ("compile", "append", "forward") and not of_self
        yield from _last_names(target.value) if is_part else (target.attr,)
    elif isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _last_names(part)


def _handed_on(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """The names that get what is `known` by another: what returns it, and variables for an attribute or a result."""
    for node in statements_in(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not node.name.startswith("__") and node.name != "forward" and _returns(node, known):
                yield node.name if _is_accessor(node) else f"{node.name}()"
        elif isinstance(node, ast.Assign) and _is_known(node.value, known):
            for target in node.targets:
                yield from _last_names(target) if not isinstance(target, (ast.Tuple, ast.List)) else ()


def _is_known(value: ast.expr, known: set[str] | frozenset[str]) -> bool:
    """Whether a value is what is known by a name: an attribute, an entry, or what a function returns."""
    if isinstance(value, ast.IfExp):
        return _is_known(value.body, known) or _is_known(value.orelse, known)
    return isinstance(value, (ast.Attribute, ast.Subscript, ast.Call)) and called_name(value) in known


def _returns(function: FunctionNode, known: set[str]) -> bool:
    for node in statements_in(function):
        if isinstance(node, ast.Return) and node.value is not None:
            if isinstance(node.value, ast.Name):
                if _compiles_here(function, node.value.id):
                    return True
            elif _compiles_call(node.value) or _is_known(node.value, known):
                return True
    return False


def _compiles_call(value: ast.expr) -> bool:
    """`torch.compile(model)`, and not `self.run(torch.compile(model))`."""
    if isinstance(value, ast.IfExp):
        return _compiles_call(value.body) or _compiles_call(value.orelse)
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "compile" and _compiles(value)


def _compiles_here(function: FunctionNode, name: str) -> bool:
    """Whether a function itself compiles its variable: a name alone says little about the rest of the file."""
    return any(
        isinstance(node, ast.Assign)
        and _compiles(node.value)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        for node in nodes_in(function)
    )


def _is_accessor(function: FunctionNode) -> bool:
    decorators = getattr(function, "decorator_list", ())
    return any(ast.unparse(decorator).rpartition(".")[2] in _ACCESSORS for decorator in decorators)
