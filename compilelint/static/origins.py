"""Where in the source a value comes from, so that a reader can follow a kind back to what decided it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.static.definitions import ClassRef, FunctionRef, Outside, assigned_in
from compilelint.static.index import ModuleIndex, Scope
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import Class, External, Function, Instance, options

MAX_PLACES = 3
"""A variable set in more places than this is told with the last ones before the line."""


def origin(node: ast.expr, frame: Frame) -> str:
    """Where the value of `node` was set, passed or returned, with 1-based lines; "" where the node shows it itself."""
    if isinstance(node, ast.Name):
        return _of_name(node, frame)
    if isinstance(node, ast.Attribute):
        return _of_attribute(node, frame)
    if isinstance(node, ast.Call):
        return _of_call(node, frame)
    return ""


def _of_name(node: ast.Name, frame: Frame) -> str:
    scope = frame.ref.node
    lines = sorted({line for line in _bound_at(scope, node.id) if line <= node.lineno})
    if lines:
        return f"set at line {', '.join(map(str, lines[-MAX_PLACES:]))}"
    if node.id in _parameters(scope):
        return _passed(node.id, frame)
    if frame.closure is not None and frame.look_up(node.id) is not None:
        return "of the enclosing function"
    found = frame.tracer.program.resolve(frame.module, node.id)
    if isinstance(found, (FunctionRef, ClassRef)):
        return f"defined at {_place(found.module, found.node.lineno, frame)}"
    if found is None or isinstance(found, (Outside, ModuleIndex)):
        return ""
    home = frame.tracer.program.home(found, frame.module, node.id)
    return f"set at {_place(home.name, found.lineno, frame)}"


def _bound_at(scope: Scope, name: str) -> Iterator[int]:
    """Lines of the assignments to a local variable; what a nested function binds is another variable."""
    pending: list[ast.AST] = list(scope.body) if not isinstance(scope, ast.Lambda) else [scope.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            yield node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name == name:
                yield node.lineno
        elif not isinstance(node, ast.Lambda):
            pending += ast.iter_child_nodes(node)


def _parameters(scope: Scope) -> dict[str, ast.arg]:
    args = scope.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {arg.arg: arg for arg in every if arg is not None}


def _passed(name: str, frame: Frame) -> str:
    declared = _parameters(frame.ref.node)[name].annotation
    typed = f", declared `{ast.unparse(declared)}`" if declared is not None else ""
    if frame.caller is None or not isinstance(frame.site, ast.expr):
        return f"a parameter of the region's root{typed}"
    return f"a parameter{typed}, passed at {_place(frame.caller.module.name, frame.site.lineno, frame)}"


def _of_attribute(node: ast.Attribute, frame: Frame) -> str:
    places = [
        _place(method.module, value.lineno, frame)
        for option in options(frame.kind(node.value))
        if isinstance(option, Instance)
        for owner in frame.tracer.program.mro(option.ref)
        if isinstance(owner, ClassRef)
        for method, value in assigned_in(owner, node.attr)
    ]
    return f"set at {', '.join(dict.fromkeys(places[:MAX_PLACES]))}" if places else ""


def _of_call(node: ast.Call, frame: Frame) -> str:
    for option in options(frame.kind(node.func)):
        if isinstance(option, Function):
            return f"returned by {_place(option.ref.module, option.ref.line, frame)}"
        if isinstance(option, Class):
            return f"made by {_place(option.ref.module, option.ref.node.lineno, frame)}"
        if isinstance(option, External) and option.name.partition(".")[0] != "builtins":
            return f"what `{option.name}` returns"
    return ""


def _place(module: str, line: int, frame: Frame) -> str:
    if module == frame.module.name:
        return f"line {line}"
    index = frame.tracer.program.module(module)
    return f"{frame.tracer.display(index)}:{line}" if index is not None else f"{module}:{line}"
