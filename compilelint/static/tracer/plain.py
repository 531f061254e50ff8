"""Functions of which the walk of a unit has asked for nothing but what they return.

A *plain* function is one of a file, not of a class. In no way of running it does anything happen that outlasts it: it
enters no function of the project, and all that it touches are kinds that hold nothing of the project. Where such a
function is edited and still gives the same for the same arguments, all that was found elsewhere stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from compilelint.static.project.definitions import FunctionRef, is_small
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer.frame import Frame, Mode
from compilelint.static.tracer.held import Way, most_ways
from compilelint.static.tracer.tracer import Tracer
from compilelint.static.values import (
    Array,
    Const,
    External,
    ExternalInstance,
    Function,
    Mapping,
    Method,
    Scalar,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Collection

Call = tuple[Mode, tuple[Value, ...], tuple[tuple[str, Value], ...]]
"""How a function was run, with which arguments and keywords."""
Written = list[Any]
"""A value as JSON can hold it: the name of its class and its fields, or `()` and the items of a tuple."""
Plain = dict[str, Any]
"""What is known of a plain function: the `names` it uses from outside, whether it is `small`, whether it was `shown` to
rules, and its `calls`, each as mode, arguments, keywords and result."""

_SIMPLE: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Unknown, Tensor, Array, Const, Scalar, Sequence, Mapping, External, ExternalInstance, Method, Union),
    )
}
"""Kinds that hold nothing of the project, unless what they hold does."""
MOST_CALLS = 50
"""Of a function that is called in more ways than this nothing is noted."""
_MODES: frozenset[Mode] = frozenset({"compiled", "host", "construct"})
_OTHERS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Global, ast.Nonlocal),
    *(ast.Yield, ast.YieldFrom, ast.Await, ast.Import, ast.ImportFrom),
)
"""What a plain function does not have inside."""


class NotSimpleError(Exception):
    """A value that cannot be written down, or text that stands for none."""


class NotingTracer(Tracer):
    """A tracer that notes calls of functions as long as they look plain."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._noted: dict[FunctionRef, dict[Call, Value]] = {}
        self._not_plain: set[FunctionRef] = set()
        self._shown: set[FunctionRef] = set()
        show = self.on_frame

        def noting(frame: Frame) -> None:
            self._shown.add(frame.ref)
            show(frame)

        self.on_frame = noting

    def run(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        mode: Mode,
        node: ast.AST | None = None,
        caller: Frame | None = None,
        why: str = "",
    ) -> Value:
        """As `Tracer.run`."""
        if caller is not None:
            self._not_plain.add(caller.ref)
        result = super().run(function, args, keywords, mode, node, caller, why)
        if function.ref not in self._not_plain:
            if function.bound is None and function.closure is None and not function.disabled:
                self._noted.setdefault(function.ref, {})[mode, args, tuple(keywords.items())] = result
            else:
                self._not_plain.add(function.ref)
        return result

    def _finished(self, way: Way, frame: Frame) -> None:
        if frame.ref not in self._not_plain and not _only_computes(frame):
            self._not_plain.add(frame.ref)
        super()._finished(way, frame)

    def plain_functions(self, others: Collection[tuple[str, int]]) -> Iterator[tuple[FunctionRef, Plain]]:
        """The plain functions that were called, without `others`, by module and line.

        There are none where it was seen how something is compiled or driven: rules are told that in functions below.
        """
        driven = self.driven
        if driven.entries or driven.changed or driven.singly or self.compile_options:
            return
        for ref, calls in self._noted.items():
            names = None if ref in self._not_plain else names_from_outside(ref)
            if names is None or (ref.module, ref.node.lineno) in others:
                continue
            if len(calls) <= min(MOST_CALLS, most_ways(ref)):
                with suppress(NotSimpleError):
                    told = [_told(*call, result) for call, result in calls.items()]
                    shown = ref in self._shown
                    yield ref, {"names": names, "small": is_small(ref.node), "shown": shown, "calls": told}


def _told(mode: Mode, args: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...], result: Value) -> Written:
    return [mode, list(map(written, args)), {name: written(value) for name, value in keywords}, written(result)]


def repeated(plain: Plain, ref: FunctionRef, tracer: NotingTracer) -> Plain | None:
    """What the calls of a plain function give now; None where it is no longer plain."""
    for mode, args, keywords, _ in plain["calls"]:
        arguments = {name: read_back(value) for name, value in keywords.items()}
        tracer.run(Function(ref), tuple(map(read_back, args)), arguments, mode)
    now = dict(tracer.plain_functions(())).get(ref)
    return now and {**now, "shown": plain["shown"]}


def names_from_outside(ref: FunctionRef) -> list[str] | None:
    """The names that a function does not bind itself; None for one that cannot be plain, whatever it is called with."""
    node = ref.node
    if not isinstance(node, ast.FunctionDef) or ref.qualname != node.name or node.decorator_list:
        return None
    inner = [part for statement in node.body for part in nodes_in(statement)]
    if any(isinstance(part, _OTHERS) for part in inner):
        return None
    names = [part for part in inner if isinstance(part, ast.Name)]
    bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    bound.update(part.arg for part in nodes_in(node.args) if isinstance(part, ast.arg))
    return sorted({name.id for name in names} - bound)


def _only_computes(frame: Frame) -> bool:
    """Whether a frame has left nothing behind but what it returned."""
    return (
        frame.mode in _MODES
        and frame.closure is None
        and frame.yielded is None
        and not (frame.effects or frame.drives)
        and all(map(is_simple, frame.kinds.values()))
    )


def is_simple(value: Value) -> bool:
    """Whether nothing of the project can be reached through a value, nor a setting of the compiler's."""
    if isinstance(value, External):
        return not value.name.startswith(("torch.compile", "torch._dynamo"))
    return isinstance(value, (Unknown, Tensor, Array, Const, Scalar)) or (
        type(value).__name__ in _SIMPLE and all(map(is_simple, _inside(value)))
    )


def _inside(value: Value) -> Iterator[Value]:
    if isinstance(value, Union):
        yield from value.options
    elif isinstance(value, Sequence):
        yield from (*(value.items or ()), value.element, *value.head)
    elif isinstance(value, Mapping):
        yield from (value.element, *(held for _, held in value.entries))
    elif isinstance(value, ExternalInstance):
        yield from value.items
    elif isinstance(value, Method):
        yield value.receiver


def written(value: object) -> Any:
    """A value for JSON. Raises NotSimpleError where it holds something of the project, or a constant JSON has not."""
    if isinstance(value, tuple):
        return ["()", *map(written, value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if _SIMPLE.get(type(value).__name__) is not type(value):
        raise NotSimpleError(type(value).__name__)
    if isinstance(value, Const):
        return ["Const", written(value.value)]
    return [type(value).__name__, *(written(getattr(value, field.name)) for field in fields(value))]  # type: ignore


def read_back(text: Any) -> Any:
    """The value that `written` gave this for. Raises NotSimpleError for anything else."""
    if not isinstance(text, list):
        return text
    kind, *parts = text
    if kind == "()":
        return tuple(map(read_back, parts))
    if kind not in _SIMPLE:
        raise NotSimpleError(kind)
    return _SIMPLE[kind](*map(read_back, parts))
