"""What code that drives compiled functions does in turn: enters them, and sets attributes between two entries.

Host frames keep a list of effects in the order in which they happen. A loop is walked twice, so its effects stand there
twice, as for two turns. What a called function did is added to its caller's list.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from compilelint.static.definitions import ClassRef, FunctionRef, assignments
from compilelint.static.syntax import nodes_in
from compilelint.static.values import UNKNOWN, Const, Function, Instance, Sequence, Value, options

if TYPE_CHECKING:
    from compilelint.static.tracer.frame import Frame
    from compilelint.static.tracer.held import Way

MAX_EFFECTS = 400
"""A host function that does more than this is told by what it does first."""
GROWING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "pop", "popleft", "clear", "remove"})
FEW = 3
"""So many values, written down in a loop, cost so many compilations and no more."""
_ONCE = ("main", "test", "bench", "profile", "demo", "example", "run_once", "__init__", "make", "build", "setup")


@dataclass(frozen=True, slots=True)
class Write:
    """`owner.name` gets `value`, which may be another each time if it `varies`. `line` is 1-based."""

    owner: ClassRef
    name: str
    before: Value
    value: Value
    varies: bool
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A call of what torch.compile made of `ref`; None for a module of torch, such as `nn.Sequential`.

    `lasting` are the parameters given the same object each time, `varying` those given a loop's variable,
    `parameters_of_model` those that run through a model's parameters.
    """

    ref: FunctionRef | None
    arguments: tuple[tuple[str, Value], ...]
    lasting: frozenset[str]
    varying: frozenset[str]
    parameters_of_model: frozenset[str]
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Yielded:
    """A generator hands control to the body of the `with` that it manages."""


Effect: TypeAlias = Write | Entry | Yielded


@dataclass(slots=True)
class Driven:
    """What is known of all driving code: attributes that change between entries, and the entries of each function."""

    changed: dict[tuple[ClassRef, str], Write] = field(default_factory=dict)
    entries: dict[FunctionRef, list[tuple[Entry, ...]]] = field(default_factory=dict)
    nested: list[Function] = field(default_factory=list)
    """Functions that driving code defines, and may call later or hand out."""

    singly: dict[ClassRef, tuple[str, int]] = field(default_factory=dict)
    """Modules of which a loop compiles several, each by itself: path and line."""
    kept: dict[Way, list[Effect]] = field(default_factory=dict)

    def finished(self, way: Way, frame: Frame) -> None:
        """Take in what a frame did; its caller did it too."""
        if frame.effects:
            self.kept[way] = frame.effects
            self.repeated(way, frame.caller)
            if frame.caller is None:
                self.study(frame)

    def repeated(self, way: Way, caller: Frame | None) -> None:
        """`caller` runs a function in a way that has been walked."""
        if caller is not None and is_host(caller):
            add(self.kept.get(way, ()), caller)

    def study(self, frame: Frame) -> None:
        """Take in what the outermost frame of some driving code did."""
        effects = [effect for effect in frame.effects if not isinstance(effect, Yielded)]
        runs_again = not frame.is_module_level and not frame.ref.qualname.rpartition(".")[2].startswith(_ONCE)
        if runs_again and any(isinstance(effect, Entry) for effect in effects):
            effects += effects
        by_function: dict[FunctionRef, list[Entry]] = {}
        before: dict[tuple[ClassRef, str], Value] = {}  # what attributes held at the last entry
        since: dict[tuple[ClassRef, str], Write] = {}  # the last writes since then
        entered = False
        for effect in effects:
            if isinstance(effect, Write):
                key = (effect.owner, effect.name)
                before.setdefault(key, effect.before)
                since[key] = effect
                continue
            for key, write in since.items():
                if entered and (write.varies or _differ(before[key], write.value)):
                    self._note(key, write, frame)
                before[key] = write.value
            since.clear()
            entered = True
            if effect.ref is not None:
                by_function.setdefault(effect.ref, []).append(effect)
        for ref, entries in by_function.items():
            self.entries.setdefault(ref, []).append(tuple(entries))

    def _note(self, key: tuple[ClassRef, str], write: Write, frame: Frame) -> None:
        for owner in frame.tracer.program.mro(key[0]):
            if isinstance(owner, ClassRef):
                self.changed.setdefault((owner, key[1]), write)


def _differ(before: Value, after: Value) -> bool:
    """Whether two values of an attribute are known to be different ones."""
    if isinstance(before, Const):
        return after != UNKNOWN and before != after and (isinstance(after, Const) or before.value is None)
    if isinstance(after, Const):
        return before != UNKNOWN and after.value is None
    if isinstance(before, Sequence) and isinstance(after, Sequence):
        return before.items is not None and after.items is not None and len(before.items) != len(after.items)
    return False


def is_host(frame: Frame) -> bool:
    """Whether a frame keeps its effects."""
    return frame.mode in ("driving", "host", "decode-loop")


def add(effects: Iterable[Effect], frame: Frame) -> None:
    """Add what happened to a frame's list."""
    if len(frame.effects) < MAX_EFFECTS:
        frame.effects.extend(effects)


def _told(frame: Frame) -> str:
    """The path of a frame's file, of which some finding may name a line."""
    frame.tracer.program.note(frame.module.name, "all")
    return frame.tracer.display(frame.module)


def note_yield(frame: Frame) -> None:
    """Note that a generator gives control away."""
    if is_host(frame):
        add([Yielded()], frame)


def note_definition(function: Value, frame: Frame) -> None:
    """Note a function that host code defines."""
    if is_host(frame) and isinstance(function, Function):
        frame.tracer.driven.nested.append(function)


def enter_manager(count: int, frame: Frame) -> list[Effect]:
    """Take off what the manager of a `with`, walked since `count` effects, does after the body."""
    new = frame.effects[count:]
    split = next((place for place, effect in enumerate(new) if isinstance(effect, Yielded)), len(new))
    frame.effects[count + split :] = []
    return new[split + 1 :]


def note_assignment(node: ast.Assign | ast.AugAssign, frame: Frame) -> None:
    """Note the attributes that an assignment is about to set, its value having been walked."""
    if not is_host(frame):
        return
    if isinstance(node, ast.AugAssign):
        _note_write(node.target, UNKNOWN, None, frame)
        return
    for target, value in assignments(node):
        _note_write(target, frame.kinds.get(value, UNKNOWN), value, frame)


def note_call(node: ast.Call, args: tuple[Value, ...], frame: Frame) -> None:
    """Note a list that grows or shrinks, and `setattr`."""
    if not is_host(frame):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in GROWING:
        owner = frame.kinds.get(node.func.value, UNKNOWN)
        if isinstance(node.func.value, ast.Attribute) and not isinstance(owner, Instance):
            _note_write(node.func.value, UNKNOWN, None, frame)
    elif frame.callees.get(node) == "builtins.setattr" and len(args) == 3 and len(node.args) == 3:
        name = args[1].value if isinstance(args[1], Const) else None
        for option in options(args[0]):
            if isinstance(option, Instance) and isinstance(name, str):
                _add_write(option, name, args[2], varies(node.args[2], frame), node, frame)


def _note_write(target: ast.expr, value: Value, source: ast.expr | None, frame: Frame) -> None:
    """Note what is stored at `target`, of which `source` is the expression; without one it is another each time."""
    new_key = isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant)
    if isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Attribute):
        owners = options(frame.tracer.evaluate(target.value, frame))
        for option in (owner for owner in owners if isinstance(owner, Instance)):
            another = new_key or source is None or varies(source, frame)
            _add_write(option, target.attr, value, another, target, frame)


def _add_write(owner: Instance, name: str, value: Value, varies: bool, node: ast.expr, frame: Frame) -> None:
    before = owner.attributes.get(name, UNKNOWN)
    path = _told(frame)
    add([Write(owner.ref, name, before, value, varies, path, node.lineno)], frame)


def varies(node: ast.expr, frame: Frame) -> bool:
    """Whether a value hangs on a loop's variable, or on an argument of the driving code's outermost function."""
    scope = frame.tree
    names = _reached(node, scope)
    if names & _loop_variables(scope):
        return True
    arguments = frame.ref.node.args
    given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    for name in (names & {argument.arg for argument in given}) - {"self", "cls"}:
        if frame.caller is None:
            return True
        argument = passed(name, frame)
        if argument is not None and is_host(frame.caller) and varies(argument, frame.caller):
            return True
    return False


def _reached(node: ast.expr, scope: ast.AST) -> set[str]:
    """The variables in an expression, and those that their values are computed from."""
    assigned = _assigned_from(scope)
    names: set[str] = set()
    pending = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    while pending:
        name = pending.pop()
        names.add(name)
        pending |= assigned.get(name, set()) - names
    return names


@lru_cache(maxsize=256)
def _assigned_from(scope: ast.AST) -> dict[str, set[str]]:
    """By variable, the names in what is assigned to it."""
    found: dict[str, set[str]] = {}
    for node in nodes_in(scope):
        if isinstance(node, ast.Assign):
            names = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, set()).update(names)
    return found


def passed(name: str, frame: Frame) -> ast.expr | None:
    """The expression that the caller of `frame` passes for a parameter, where it stands in the call."""
    site = frame.site
    if not isinstance(site, ast.Call):
        return None
    for keyword in site.keywords:
        if keyword.arg == name:
            return keyword.value
    arguments = frame.ref.node.args
    given = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    shift = 1 if frame.ref.owner is not None and given[:1] in (["self"], ["cls"]) else 0
    position = given.index(name) - shift if name in given else -1
    return site.args[position] if 0 <= position < len(site.args) else None


@lru_cache(maxsize=256)
def _loop_variables(scope: ast.AST) -> set[str]:
    """The variables of loops, but not of those over a few values that are written down."""
    return {
        part.id
        for loop in nodes_in(scope)
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.comprehension))
        and not (isinstance(loop.iter, (ast.Tuple, ast.List)) and len(loop.iter.elts) <= FEW)
        for part in ast.walk(loop.target)
        if isinstance(part, ast.Name)
    }


def note_compilation(inner: Value, node: ast.AST | None, frame: Frame) -> None:
    """Note a module that a loop compiles as one of several."""
    if not isinstance(node, ast.Call) or not isinstance(inner, Instance):
        return
    compiled = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else node.args[0]
    names = {part.id for part in ast.walk(compiled) if isinstance(part, ast.Name)}
    if names & _loop_variables(frame.tree):
        frame.tracer.driven.singly.setdefault(inner.ref, (_told(frame), node.lineno))


def note_entry(
    function: Value, args: tuple[Value, ...], keywords: dict[str, Value], node: ast.AST | None, frame: Frame
) -> None:
    """Note that host code calls what torch.compile made of a function or module."""
    if not is_host(frame) or not isinstance(node, ast.Call):
        return
    path = _told(frame)
    if not isinstance(function, Function):
        nothing: frozenset[str] = frozenset()
        add([Entry(None, (), nothing, nothing, nothing, path, node.lineno)], frame)
        return
    scope = function.ref.node.args
    names = [argument.arg for argument in (*scope.posonlyargs, *scope.args)][0 if function.bound is None else 1 :]
    given = dict(zip(names, node.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        given = {}
    values = dict(zip(names, args, strict=False)) | {key: value for key, value in keywords.items() if key[:1] != "*"}
    lasting = frozenset(name for name, argument in given.items() if _lasts(argument, node, frame))
    turning = _loop_variables(frame.tree)
    varying = frozenset(k for k, argument in given.items() if isinstance(argument, ast.Name) and argument.id in turning)
    of_model = frozenset(name for name, argument in given.items() if _is_parameter(argument, frame))
    add([Entry(function.ref, tuple(values.items()), lasting, varying, of_model, path, node.lineno)], frame)


def _lasts(argument: ast.expr, call: ast.Call, frame: Frame) -> bool:
    """Whether the call is given the same object each time: a variable that the loop around it does not bind."""
    if not isinstance(argument, ast.Name):
        return False
    loops = list(_loops_around(call, frame.tree))
    return bool(loops) and not any(argument.id in _stored_in(loop) for loop in loops)


def _stored_in(loop: ast.AST) -> set[str]:
    return {part.id for part in nodes_in(loop) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _loops_around(call: ast.AST, scope: ast.AST) -> Iterator[ast.For | ast.While]:
    for loop in nodes_in(scope):
        if isinstance(loop, (ast.For, ast.While)) and any(call in nodes_in(part) for part in loop.body):
            yield loop


_PARAMETERS = ("parameters", "named_parameters", "trainable_parameters")


def _is_parameter(argument: ast.expr, frame: Frame) -> bool:
    """Whether a loop over a model's or an optimizer's parameters gives the argument, alone or in a list."""
    if isinstance(argument, (ast.List, ast.Tuple)) and len(argument.elts) == 1:
        argument = argument.elts[0]
    if not isinstance(argument, ast.Name):
        return False
    for loop in nodes_in(frame.tree):
        if isinstance(loop, ast.For) and any(
            isinstance(part, ast.Name) and part.id == argument.id for part in ast.walk(loop.target)
        ):
            return any(
                (isinstance(part, ast.Attribute) and part.attr in _PARAMETERS)
                or (
                    isinstance(part, ast.Subscript)
                    and isinstance(part.slice, ast.Constant)
                    and part.slice.value == "params"
                )
                for part in ast.walk(loop.iter)
            )
    return False
