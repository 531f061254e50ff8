"""Where in the source a value comes from, so that a reader can follow a kind back to what decided it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Step
from compilelint.static.facts.state import own_nodes
from compilelint.static.project.definitions import ClassRef, FunctionRef, Outside, assigned_in
from compilelint.static.project.index import ModuleIndex, Scope
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, Class, External, Function, Instance, Scalar, Tensor, Value, options

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


def definition(node: ast.AST, frame: Frame) -> Step | None:
    """Where the value that a hazard at `node` is about was set, if that is on another line.

    It is the first name or attribute in `node` that holds a tensor or a number out of one, and of the places where that
    is set the last before the line. Where it was passed, the region's path tells.
    """
    if isinstance(node, ast.stmt) and hasattr(node, "body"):
        return None
    for part in ast.walk(node):
        if isinstance(part, (ast.Name, ast.Attribute)) and _is_data(frame.kinds.get(part, UNKNOWN)):
            return _set_at(part, frame)
    return None


def _is_data(kind: Value) -> bool:
    return any(isinstance(option, (Tensor, Scalar)) for option in options(kind))


def _set_at(node: ast.Name | ast.Attribute, frame: Frame) -> Step | None:
    display, name = frame.tracer.display, ast.unparse(node)
    if isinstance(node, ast.Name):
        lines = [line for line in _bound_at(frame.ref.node, node.id) if line < node.lineno]
        return Step(display(frame.module), max(lines), frame.ref.qualname, name) if lines else None
    places = [
        Step(display(module), value.lineno, method.qualname, name)
        for method, value in _assigned(node, frame)
        if (module := frame.tracer.program.module(method.module)) and value.lineno != node.lineno
    ]
    return places[0] if places else None


def _assigned(node: ast.Attribute, frame: Frame) -> Iterator[tuple[FunctionRef, ast.expr]]:
    """The assignments to an attribute in the classes of its object, each with the method it is in."""
    for option in options(frame.kind(node.value)):
        if isinstance(option, Instance):
            for owner in frame.tracer.program.mro(option.ref):
                if isinstance(owner, ClassRef):
                    frame.tracer.program.note(owner.module, "assigned", owner.qualname, owner.node.lineno)
                    yield from assigned_in(owner, node.attr)


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
    for node in own_nodes(scope):
        if isinstance(node, ast.Name):
            if node.id == name and isinstance(node.ctx, ast.Store):
                yield node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            yield node.lineno


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
    places = [_place(method.module, value.lineno, frame) for method, value in _assigned(node, frame)]
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
