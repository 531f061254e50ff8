"""What a constructor in a file outside the unit leaves to its object's own methods: done when something asks for it.

`self.generation_config = self.config_class.from_model(config)` in the base class of all models leads through a hundred
functions, for an attribute that hardly any region reads, and each unit with a model would walk them. Such a statement
is put off where all it can do to the object is to set attributes whose names its text and that of the methods it calls
tell. What these methods do to other objects is done as late, which nobody waits for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache

from compilelint.static.object_attributes import Postponed
from compilelint.static.project.index import FunctionNode
from compilelint.static.project.receivers import may_set, own_name, receiver_of, sets_itself, starts_with
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import Instance

_BEHIND = (ast.NamedExpr, ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await)
"""What leaves more behind than attributes."""
_ENDS = (*_BEHIND[1:], ast.Return, ast.Raise, ast.Break, ast.Continue, ast.FunctionDef, ast.ClassDef)
"""What a loop that is put off must not hold, besides variables that others read."""


def postpone(node: ast.stmt, walk: Callable[[ast.stmt, Frame], object], frame: Frame) -> bool:
    """Put off what `walk` does about a statement, if that can wait. False if it can't."""
    function = frame.ref.node
    if frame.ref.owner is None or isinstance(function, ast.Lambda):
        return False
    receiver = receiver_of(function)
    owner = frame.env.get(receiver)
    if not isinstance(owner, Instance) or not _can_wait(node, function, receiver):
        return False
    if frame.module.name in frame.tracer.program.unit or _is_read_later(node, function, receiver, owner):
        return False
    told = may_set(node, frame.ref, owner.ref, frame.tracer.program)
    if told is None:
        return False
    env = dict(frame.env)

    def do() -> None:
        before, frame.env = frame.env, env
        try:
            walk(node, frame)
        finally:
            frame.env = before

    names = {part.id for part in nodes_in(node) if isinstance(part, ast.Name)}
    read = {name: value for name, value in env.items() if name.partition(".")[0] in names}
    frame.tracer.put_off(owner, Postponed(*told, do), node, read)
    if isinstance(node, ast.Assign):
        path = ast.unparse(node.targets[0])
        for known in [known for known in frame.env if known == path or known.startswith(f"{path}.")]:
            del frame.env[known]
    return True


@lru_cache(maxsize=16384)
def _can_wait(node: ast.stmt, function: FunctionNode, receiver: str) -> bool:
    """Whether a statement of a method calls other methods, and the rest of it asks for nothing that it does.

    `self.a = self.make()`, `self.config.a = self.make()`, `self.prepare()`, or `for name, part in self.named_parts():`.
    """
    if isinstance(node, ast.Assign):
        called, target = node.value, node.targets[0]
        if len(node.targets) > 1 or not isinstance(target, ast.Attribute) or not starts_with(target, receiver):
            return False
        if target.attr == "forward":
            return False  # what a compiled function takes the place of is told when that is stored
    elif isinstance(node, ast.For) and not node.orelse:
        called = node.iter
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and own_name(node.value.func, receiver):
        called = node.value
    else:
        return False
    inside = nodes_in(node)
    if not isinstance(called, ast.Call) or not starts_with(called.func, receiver):
        return False
    if any(isinstance(part, _ENDS if isinstance(node, ast.For) else _BEHIND) or _asks_by_name(part) for part in inside):
        return False
    bound = {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return not any(isinstance(part, ast.Name) and part.id in bound for part in _others(function, inside))


def _asks_by_name(node: ast.AST) -> bool:
    """Whether an expression is `getattr(self, name)`: what the rest of the function makes the name of counts there."""
    called = node.func if isinstance(node, ast.Call) and len(node.args) > 1 else None
    if not isinstance(called, ast.Name) or not isinstance(node, ast.Call):
        return False
    return called.id == "getattr" and not isinstance(node.args[1], ast.Constant)


def _is_read_later(node: ast.stmt, function: FunctionNode, receiver: str, owner: Instance) -> bool:
    """Whether the rest of a method reads what a statement sets, and could be told something else for it.

    An attribute that the object has had before holds all that it has been; that of another object is not kept at all.
    """
    later = _read_later(node, function)
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if isinstance(target, ast.Attribute) and not own_name(target, receiver) and target.attr in later:
        return True
    again = sets_itself(node, receiver) & later
    return bool(again) and not again.isdisjoint(owner.attributes.names())


@lru_cache(maxsize=16384)
def _read_later(node: ast.stmt, function: ast.AST) -> frozenset[str]:
    """The attributes, of anything, that a function reads below a statement."""
    return frozenset(
        part.attr
        for part in _others(function, nodes_in(node))
        if isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Load)
        and part.lineno > (node.end_lineno or node.lineno)
    )


def _others(function: ast.AST, inside: tuple[ast.AST, ...]) -> Iterator[ast.AST]:
    within = set(inside)
    return (part for part in nodes_in(function) if part not in within)
