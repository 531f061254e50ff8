"""Tests that come again: behind `if self.training:`, a later test of the same flag says which of two values it left."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from compilelint.record import record
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer.frame import Env, Frame, path_of
from compilelint.static.values import Union, Value

Flag = tuple[str, object]
"""A variable or attribute path, and what a test asks of it: whether it is true, None, or equal to a text or number."""

_SAME = (ast.Is, ast.Eq)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)


@record(frozen=True, slots=True)
class Split:
    """What two sides of a test left in one variable, and what it is taken to be behind them."""

    name: str
    joined: Value
    if_true: Value
    if_false: Value


def remember(test: ast.expr, if_true: Env, if_false: Env, joined: Env, frame: Frame) -> None:
    """Note what each side of an undecided `if` left in the variables in which they differ."""
    asked = _flag(test)
    if asked is None:
        return
    flag, sense = asked
    if not sense:
        if_true, if_false = if_false, if_true
    if not _stays(flag, frame):
        return
    known = frame.splits.setdefault(flag, [])
    for name, value in joined.items():
        sides = if_true.get(name, value), if_false.get(name, value)
        # A union is made anew for each variable, so that a variable that holds this very one still has that value.
        if not isinstance(value, Union) or value is sides[0] or value is sides[1]:
            continue
        again = next((one for one in known if one.name == name and (one.if_true, one.if_false) == sides), None)
        if again is None:
            known.append(Split(name, value, *sides))
        else:  # a second test of the flag changed nothing
            joined[name] = again.joined


def remember_choice(target: ast.expr, choice: ast.IfExp, joined: Value, frame: Frame) -> None:
    """As `remember`, for `x = a if flag else b`."""
    name = path_of(target)
    if name is not None and {choice.body, choice.orelse} <= frame.kinds.keys():
        body, otherwise = frame.kinds[choice.body], frame.kinds[choice.orelse]
        remember(choice.test, {name: body}, {name: otherwise}, {name: joined}, frame)


def recall(node: ast.expr, truth: bool, frame: Frame, env: Env) -> None:
    """On the side where `node` came out as `truth`, give variables back what that side of an earlier test left."""
    asked = _flag(node) if frame.splits else None
    if asked is None:
        return
    flag, sense = asked
    for split in frame.splits.get(flag, ()):
        if env.get(split.name) is split.joined:
            env[split.name] = split.if_true if truth is sense else split.if_false


def _flag(node: ast.expr) -> tuple[Flag, bool] | None:
    """What a test asks of which variable, and whether it is true where the answer is yes."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        asked = _flag(node.operand)
        return None if asked is None else (asked[0], not asked[1])
    if isinstance(node, ast.Compare):
        return _of_comparison(node)
    path = path_of(node)
    return None if path is None else ((path, True), True)


def _of_comparison(node: ast.Compare) -> tuple[Flag, bool] | None:
    path, op, right = path_of(node.left), node.ops[0], node.comparators[0]
    if path is None or len(node.ops) != 1 or not isinstance(right, ast.Constant):
        return None
    if not isinstance(op, (*_SAME, ast.IsNot, ast.NotEq)):
        return None
    sense = isinstance(op, _SAME)
    if isinstance(right.value, bool):
        return (path, True), sense is right.value
    return (path, right.value), sense


def _stays(flag: Flag, frame: Frame) -> bool:
    """Whether a function leaves a flag as it is between two tests of it."""
    parts = flag[0].split(".")
    stored = _stored(frame.tree)
    if any(stored[".".join(parts[:count])] for count in range(2, len(parts) + 1)):
        return False
    return stored[parts[0]] <= 1 and parts[0] not in _stored_in_loops(frame.tree)


@lru_cache(maxsize=1024)
def _stored(tree: ast.AST) -> Counter[str]:
    """How often a function sets each variable and attribute path; a parameter is set by the call."""
    return Counter(_targets(tree))


@lru_cache(maxsize=1024)
def _stored_in_loops(tree: ast.AST) -> frozenset[str]:
    return frozenset(name for node in nodes_in(tree) if isinstance(node, _LOOPS) for name in _targets(node))


def _targets(tree: ast.AST) -> Iterator[str]:
    for node in nodes_in(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.Name, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            path = path_of(node)
            if path is not None:
                yield path
