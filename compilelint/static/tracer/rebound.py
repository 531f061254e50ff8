"""Globals that are None until a function sets them: what they hold then, and what differs in it from time to time."""

from __future__ import annotations

import ast

from compilelint.static.project.definitions import rebound
from compilelint.static.project.index import FunctionNode, ModuleIndex
from compilelint.static.project.parts import REBOUND
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer.construction import MAX_SITES, value_at
from compilelint.static.tracer.frame import Frame
from compilelint.static.tracer.made_anew import Made, kept_arguments
from compilelint.static.values import NONE, UNKNOWN, Instance, Value, join_all, options


def value_of(module: ModuleIndex, name: str, frame: Frame) -> Value:
    """What a global holds that is None to begin with; `frame` is one of its file."""
    tracer = frame.tracer
    tracer.program.note(module.name, REBOUND, name)
    values: list[Value] = [NONE]
    for node, function in rebound(module, name)[:MAX_SITES]:
        held = value_at(node, function, tracer.module_frame(module))
        values.append(held)
        if isinstance(node, ast.Call) and _gives_way(function):
            for option in options(held):
                if isinstance(option, Instance):
                    place = Made(tracer.display(module), node.lineno)
                    differing = [key for key, part in kept_arguments(option.ref, node, frame) if not _is_written(part)]
                    tracer.driven.in_globals |= {(option.ref, key): place for key in differing}
    known = [value for value in values if value != UNKNOWN]
    # `_context = before` puts back what was there; of what other functions make, nothing is left out that is known.
    return join_all(known if any(isinstance(value, Instance) for value in known) else values)


def _gives_way(function: FunctionNode) -> bool:
    """Whether a function sets a global for as long as the body of a `with` runs."""
    return any(isinstance(node, ast.Yield) for node in nodes_in(function))


def _is_written(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)
