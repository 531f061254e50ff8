"""Notes what host code does, statement by statement and call by call, in its frame's list of effects, see `effects`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from compilelint.static.project.definitions import ClassRef, assignments
from compilelint.static.project.syntax import statements_in
from compilelint.static.tracer import attributes, varying
from compilelint.static.tracer.carried import carried_numbers
from compilelint.static.tracer.ducks import class_with
from compilelint.static.tracer.effects import Effect, Entry, Held, Reset, Write, Writes, Yielded, add
from compilelint.static.tracer.made_anew import entries_made
from compilelint.static.tracer.of_models import is_parameter
from compilelint.static.tracer.varying_sizes import varying_dimensions
from compilelint.static.values import (
    UNKNOWN,
    Class,
    Compiled,
    Const,
    ExternalInstance,
    Function,
    Instance,
    Value,
    join_all,
    options,
)

if TYPE_CHECKING:
    from compilelint.static.tracer.frame import Frame

_ADDING = frozenset({"append", "appendleft", "extend", "insert", "add", "update"})
_TAKING = frozenset({"pop", "popleft", "clear", "remove"})
_RESETS = frozenset({"torch._dynamo.reset", "torch.compiler.reset"})


def note_yield(frame: Frame) -> None:
    """Note that a generator gives control away."""
    if frame.keeps_effects:
        add([Yielded()], frame)


def note_definition(function: Value, frame: Frame) -> None:
    """Note a function that host code defines."""
    if frame.keeps_effects and isinstance(function, Function):
        frame.tracer.driven.nested.append(function)


def enter_manager(count: int, frame: Frame) -> list[Effect]:
    """Take off what the manager of a `with`, walked since `count` effects, does after the body."""
    new = frame.effects[count:]
    split = next((place for place, effect in enumerate(new) if isinstance(effect, Yielded)), len(new))
    frame.effects[count + split :] = []
    return new[split + 1 :]


def note_assignment(node: ast.Assign | ast.AugAssign, frame: Frame) -> None:
    """Note the attributes that an assignment is about to set, its value having been walked."""
    if not frame.keeps_effects:
        return
    if isinstance(node, ast.AugAssign):
        grows = isinstance(node.op, ast.Add) and isinstance(node.value, (ast.List, ast.Tuple))
        _note_write(node.target, UNKNOWN, None, frame, grows=grows)
        return
    for target, value in assignments(node):
        _note_name(frame.kinds.get(value, UNKNOWN), target, frame)
        _note_write(target, frame.kinds.get(value, UNKNOWN), value, frame)


def _note_name(value: Value, target: ast.expr, frame: Frame) -> None:
    """Note under which variable host code keeps what it compiled, or which method of an object it replaces by that."""
    if not isinstance(value, Compiled):
        return
    driven = frame.tracer.driven
    if isinstance(target, ast.Name):
        known = driven.named.setdefault((frame.module.name, target.id), value)
        if known != value:
            driven.named[frame.module.name, target.id] = UNKNOWN
    elif isinstance(target, ast.Attribute) and isinstance(value.inner, Function):
        ref = value.inner.ref
        if value.inner.bound is not None and ref.qualname.rpartition(".")[2] == target.attr:
            driven.replaced.add(ref)


def note_call(node: ast.Call, args: tuple[Value, ...], frame: Frame) -> None:
    """Note a list that grows or shrinks, `setattr`, and that Dynamo is reset."""
    if not frame.keeps_effects:
        return
    if frame.callees.get(node) in _RESETS:
        add([Reset()], frame)
    if isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING | _TAKING:
        owner = frame.kinds.get(node.func.value, UNKNOWN)
        if isinstance(node.func.value, ast.Attribute) and not isinstance(owner, Instance):
            _note_write(node.func.value, UNKNOWN, None, frame, grows=node.func.attr in _ADDING)
    elif frame.callees.get(node) == "builtins.setattr" and len(args) == 3 and len(node.args) == 3:
        name = args[1].value if isinstance(args[1], Const) else None
        if isinstance(name, str):
            _add_writes(args[0], node.args[0], name, args[2], node.args[2], node, frame)


def _note_write(target: ast.expr, value: Value, source: ast.expr | None, frame: Frame, *, grows: bool = False) -> None:
    """Note what is stored at `target`, of which `source` is the expression; without one it is another each time."""
    new_key = isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant)
    if isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Attribute):
        owner = frame.tracer.evaluate(target.value, frame)
        if owner == UNKNOWN:
            owner = class_with(target.attr, frame.module, frame.tracer)
        if frame.caller is not None and _made_here(target.value, frame):
            owner = join_all(part for part in options(owner) if isinstance(part, Instance) and part.is_module)
        _add_writes(owner, target.value, target.attr, value, None if new_key else source, target, frame, grows=grows)


def _made_here(node: ast.expr, frame: Frame) -> bool:
    """Whether a function that driving code calls constructs the object: no call of compiled code had it before."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and any(
        isinstance(made, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == node.id for target in made.targets)
        and isinstance(made.value, ast.Call)
        and isinstance(frame.kinds.get(made.value.func), Class)
        for made in statements_in(frame.tree)
    )


def _add_writes(
    owner: Value,
    spelled: ast.expr,
    name: str,
    value: Value,
    source: ast.expr | None,
    node: ast.expr,
    frame: Frame,
    *,
    grows: bool = False,
) -> None:
    """Note that `spelled`, which is `owner`, gets another attribute; see `_note_write`."""
    varies = source is None or varying.varies(source, frame)
    steps = source is not None and varying.steps(source, frame)
    path = frame.tracer.display(frame.module)

    def write(to: ClassRef | str, name: str, before: Value) -> Write:
        return Write(to, name, before, value, varies, steps, path, node.lineno, grows)

    for option in options(owner):
        if isinstance(option, Instance):
            add([write(option.ref, name, option.attributes.get(name, UNKNOWN))], frame)
        elif isinstance(option, Class):
            add([write(option.ref, name, attributes.get(option, name, frame))], frame)
        elif isinstance(option, ExternalInstance) and option.name.startswith("torch.nn."):
            keepers = options(frame.tracer.evaluate(spelled.value, frame)) if isinstance(spelled, ast.Attribute) else ()
            kept = [part.ref for part in keepers if isinstance(part, Instance)]
            full = f"{spelled.attr}.{name}" if isinstance(spelled, ast.Attribute) and kept else name
            add([write(to, full, UNKNOWN) for to in kept or (option.name,)], frame)


def note_compilation(inner: Value, node: ast.AST | None, frame: Frame) -> None:
    """Note a module that a loop compiles as one of several."""
    if not isinstance(node, ast.Call) or not isinstance(inner, Instance):
        return
    compiled = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else node.args[0]
    names = {part.id for part in ast.walk(compiled) if isinstance(part, ast.Name)}
    if names & varying.loop_variables(frame.tree):
        frame.tracer.driven.singly.setdefault(inner.ref, (frame.tracer.display(frame.module), node.lineno))


def note_entry(
    function: Value, args: tuple[Value, ...], keywords: dict[str, Value], node: ast.AST | None, frame: Frame
) -> None:
    """Note that host code calls what torch.compile made of a function or module."""
    if not frame.keeps_effects or not isinstance(node, ast.Call):
        return
    path = frame.tracer.display(frame.module)
    if not isinstance(function, Function):
        add([Entry(None, path, node.lineno)], frame)
        return
    scope = function.ref.node.args
    names = [argument.arg for argument in (*scope.posonlyargs, *scope.args)][0 if function.bound is None else 1 :]
    given = dict(_written(node, names))
    values = dict(zip(names, args, strict=False)) | {key: value for key, value in keywords.items() if key[:1] != "*"}
    others = {name for name, argument in given.items() if varying.is_another_next_time(argument, frame)}
    # `job(x)` for several `job = partial(step, how=how)`, and `step(x, **case)` for several cases
    spread = [part.value for part in node.keywords if part.arg is None]
    spread += [part.value for part in node.args if isinstance(part, ast.Starred)]
    if any(varying.is_another_next_time(part, frame) for part in (node.func, *spread)):
        others |= values.keys() - given.keys()

    def those(asked: Callable[[ast.expr], bool]) -> frozenset[str]:
        return frozenset(name for name, argument in given.items() if asked(argument))

    entry = Entry(
        function.ref,
        path,
        node.lineno,
        arguments=tuple(values.items()),
        lasting=those(lambda argument: varying.lasts(argument, node, frame)),
        varying=frozenset(others),
        growing=frozenset(
            name
            for name, argument in given.items()
            if varying.is_longer_next_time(argument, values.get(name, UNKNOWN), node, frame)
        ),
        held=tuple(held for k, part in given.items() if (held := _held(k, part, node, frame)) is not None),
        parameters_of_model=those(lambda argument: is_parameter(argument, frame)),
        carried=tuple((k, numbers) for k, part in given.items() if (numbers := carried_numbers(part, frame))),
        entries=tuple((k, keys) for k, part in given.items() if (keys := entries_made(part, frame))),
        sizes=tuple((k, found) for k, part in given.items() if (found := varying_dimensions(part, frame))),
        through=frozenset(
            (k, name) for k, argument in given.items() for name in varying.parameters_in(argument, frame)
        ),
        handed=frozenset((k, name) for k, part in given.items() if (name := varying.hands_on(part, frame))),
    )
    add([entry.after(_since_last(entry, frame), own=True)], frame)


def _since_last(entry: Entry, frame: Frame) -> Writes:
    """What was written in this run of a function since it made the same call; nothing if it has not."""
    written: Writes = {}
    for effect in reversed(frame.effects if entry.held else ()):
        if isinstance(effect, Write):
            written.setdefault((effect.owner, effect.name), []).append(effect)
        elif isinstance(effect, Entry) and (effect.path, effect.line) == (entry.path, entry.line):
            return written
    return {}


def _held(parameter: str, argument: ast.expr, call: ast.Call, frame: Frame) -> Held | None:
    """See `Held`; None where the loop around the call binds the variable to another object each time."""
    places: list[tuple[ClassRef, str]] = []
    while isinstance(argument, ast.Attribute):
        owner = frame.kind(argument.value)
        if not isinstance(owner, Instance):
            return None
        places.append((owner.ref, argument.attr))
        argument = argument.value
    if not places or not isinstance(argument, ast.Name) or varying.is_bound_around(argument.id, call, frame):
        return None
    return Held(parameter, tuple(places[::-1]), varying.is_bound(argument.id, frame))


def _written(call: ast.Call, names: list[str]) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of a call by the names of the parameters that get them; none by position behind a star."""
    plain = takewhile(lambda argument: not isinstance(argument, ast.Starred), call.args)
    yield from zip(names, plain, strict=False)
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value
        elif isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
