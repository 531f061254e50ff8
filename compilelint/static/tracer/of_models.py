"""Which arguments that driving code passes are the parameters of a model, one after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from compilelint.static.project.definitions import assignments
from compilelint.static.project.syntax import nodes_in, statements_in
from compilelint.static.values import Instance, Mapping, options

if TYPE_CHECKING:
    from compilelint.static.tracer.frame import Frame

_METHODS = ("parameters", "named_parameters", "trainable_parameters")
_NAMES = ("params", "parameters")


def is_parameter(argument: ast.expr, frame: Frame) -> bool:
    """Whether a loop over a model's or an optimizer's parameters gives the argument, alone or in a list.

    Also a loop over what a method of the class has filled with them: `self.groups[p.shape].append(p)`.
    """
    if isinstance(argument, (ast.List, ast.Tuple)) and len(argument.elts) == 1:
        argument = argument.elts[0]
    return isinstance(argument, ast.Name) and _is_turned(argument, frame, nested=True)


def _is_turned(argument: ast.Name, frame: Frame, *, nested: bool) -> bool:
    """Whether the loop that binds the variable, or with `nested` the one around that, goes through parameters."""
    for loop in nodes_in(frame.tree):
        if isinstance(loop, ast.For) and argument.id in _names_in(loop.target):
            if nested and isinstance(loop.iter, ast.Name):
                return _is_turned(loop.iter, frame, nested=False)
            return _gives_parameters(loop.iter) or (
                _goes_through(loop.iter, _filled_around(frame))
                and argument.id not in _keys_of(loop)
                and not any(isinstance(option, (Instance, Mapping)) for option in options(frame.kind(argument)))
            )
    return False


def _gives_parameters(iterated: ast.expr) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr in _METHODS)
        or (isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant) and part.slice.value == "params")
        for part in ast.walk(iterated)
    )


def _goes_through(iterated: ast.expr, filled: frozenset[str]) -> bool:
    return any(isinstance(part, ast.Attribute) and ast.unparse(part) in filled for part in ast.walk(iterated))


def _keys_of(loop: ast.For) -> set[str]:
    """The variables that a loop over `….items()` or `enumerate(…)` sets to keys or counts."""
    called = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    paired = isinstance(called, ast.Attribute) and called.attr == "items"
    paired = paired or (isinstance(called, ast.Name) and called.id == "enumerate")
    return _names_in(loop.target.elts[0]) if paired and isinstance(loop.target, ast.Tuple) else set()


def _filled_around(frame: Frame) -> frozenset[str]:
    if frame.ref.owner is None:
        return frozenset()
    frame.tracer.program.note(frame.module.name, "code")
    return _filled_by(frame.ref.owner.node)


@lru_cache(maxsize=256)
def _filled_by(owner: ast.ClassDef) -> frozenset[str]:
    """The attributes, as written, in which the methods of a class keep a model's parameters one by one."""
    return frozenset(
        ast.unparse(place) for method in owner.body if isinstance(method, ast.FunctionDef) for place in _filled(method)
    )


def _filled(method: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in statements_in(method):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target, value in assignments(node):
                turned = getattr(value, "generators", [])
                if isinstance(target, ast.Attribute) and any(_is_over_parameters(turn.iter) for turn in turned):
                    yield target
        elif isinstance(node, ast.For) and _is_over_parameters(node.iter):
            yield from _kept_of(_names_in(node.target), node)


def _is_over_parameters(iterated: ast.expr) -> bool:
    return _gives_parameters(iterated) or bool(_names_in(iterated) & set(_NAMES))


def _kept_of(turned: set[str], loop: ast.For) -> Iterator[ast.expr]:
    """The attributes to which a loop adds its variables: `self.groups.setdefault(p.shape, []).append(p)`."""
    for node in nodes_in(loop):
        kept: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            kept = node.func.value if any(_names_in(part) & turned for part in node.args) else None
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            kept = node.targets[0].value if _names_in(node.value) & turned else None
        attributes = (part for part in ast.walk(kept) if isinstance(part, ast.Attribute)) if kept is not None else ()
        yield from (part for part in attributes if isinstance(part.value, ast.Name) and part.value.id == "self")


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
