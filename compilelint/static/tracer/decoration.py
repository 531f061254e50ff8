"""Functions after their decorators."""

from __future__ import annotations

import ast

from compilelint.static.project.index import FunctionNode
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, Compiled, External, ExternalInstance, Function, Partial, Value, options

_VECTORIZED = ExternalInstance("numpy.vectorize")
"""What one decorator makes that is no function any more."""


def decorate(function: Value, node: FunctionNode, frame: Frame) -> Value:
    """Apply the decorators of `node`, innermost first. One that gives nothing callable changes nothing."""
    tracer = frame.tracer
    for decorator in reversed(node.decorator_list):
        maker = tracer.evaluate(decorator, frame)
        if isinstance(decorator, ast.Call) and maker == UNKNOWN:
            maker = _with_options(decorator, frame)
        told = maker != UNKNOWN and not _is_one_of_many(maker)
        result = tracer.call(maker, (function,), {}, decorator, frame) if told else UNKNOWN
        if isinstance(result, (Function, Compiled, Partial)) or result == _VECTORIZED:
            function = result
    return function


def _with_options(decorator: ast.Call, frame: Frame) -> Value:
    """`@torch.compiler.disable(recursive=False)`: the name that was called takes the function."""
    target = frame.tracer.evaluate(decorator.func, frame)
    return target if isinstance(target, External) else UNKNOWN


def _is_one_of_many(maker: Value) -> bool:
    """Whether a decorator is some closure of one function, of which only others are known.

    `@register("name")` for the hundredth name: what those for other names make of a function, it does not become.
    """
    closures = [option for option in options(maker) if isinstance(option, Function) and option.closure is not None]
    return len(closures) == len(options(maker)) > 1 and len({closure.ref for closure in closures}) == 1
