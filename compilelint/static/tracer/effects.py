"""What code that drives compiled functions does in turn: enters them, and sets attributes between two entries.

Host frames keep a list of effects in the order in which they happen. A loop is walked twice, so its effects stand there
twice, as for two turns. What a called function did is added to its caller's list.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

from compilelint.record import record
from compilelint.static.project.definitions import ClassRef, FunctionRef, assignments
from compilelint.static.project.syntax import statements_in
from compilelint.static.tracer import attributes, varying
from compilelint.static.tracer.carried import carried_numbers
from compilelint.static.tracer.ducks import class_with
from compilelint.static.tracer.made_anew import entries_made
from compilelint.static.tracer.varying_sizes import varying_dimensions
from compilelint.static.values import (
    UNKNOWN,
    Class,
    Compiled,
    Const,
    ExternalInstance,
    Function,
    Instance,
    Scalar,
    ScalarType,
    Sequence,
    Value,
    join_all,
    options,
)

if TYPE_CHECKING:
    from compilelint.static.tracer.frame import Frame
    from compilelint.static.tracer.held import Way
    from compilelint.static.tracer.made_anew import Made

MAX_EFFECTS = 400
"""A host function that does more than this is told by what it does first."""
GROWING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "pop", "popleft", "clear", "remove"})
_RESETS = frozenset({"torch._dynamo.reset", "torch.compiler.reset"})
_ONCE = ("main", "test", "bench", "profile", "demo", "example", "run_once", "__init__", "make", "build", "setup")


@record(frozen=True, slots=True)
class Write:
    """`owner.name` gets `value`, which may be another each time if it `varies`, on each turn of a loop if it `steps`.

    `line` is 1-based. Of a module of torch that `owner` keeps, the name has two parts: `drop.p` for `net.drop.p =
    rate`. Where nothing tells who keeps it, the owner is its class: `torch.nn.Dropout`.
    """

    owner: ClassRef | str
    name: str
    before: Value
    value: Value
    varies: bool
    steps: bool
    path: str
    line: int


@record(frozen=True, slots=True)
class Entry:
    """A call of what torch.compile made of `ref`; None for a module of torch, such as `nn.Sequential`.

    `lasting` are the parameters given the same object each time, `varying` those given another one each time, `growing`
    those given a longer list or dict each time, `parameters_of_model` those that run through a model's parameters.
    `carried` are the numbers, others each time, in functions that are passed, `sizes` the dimensions of tensors, as in
    `varying_dimensions`, `entries` the keys of dicts, as in `entries_made`. `through` says from which parameters of
    the calling function an argument is computed, `handed` which it is as it is.
    """

    ref: FunctionRef | None
    path: str
    line: int
    arguments: tuple[tuple[str, Value], ...] = ()
    lasting: frozenset[str] = frozenset()
    varying: frozenset[str] = frozenset()
    growing: frozenset[str] = frozenset()
    parameters_of_model: frozenset[str] = frozenset()
    carried: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    sizes: tuple[tuple[str, frozenset[int]], ...] = ()
    entries: tuple[tuple[str, frozenset[str]], ...] = ()
    through: frozenset[tuple[str, str]] = frozenset()
    handed: frozenset[tuple[str, str]] = frozenset()

    def seen_from(self, site: ast.AST | None, ref: FunctionRef, caller: Frame) -> Entry:
        """The entry as one of `caller`, which calls at `site` the function `ref` that has it."""
        if not self.through:
            return self
        varies, through, handed = set(self.varying), set[tuple[str, str]](), set[tuple[str, str]]()
        for name, parameter in self.through:
            argument = varying.argument_at(site, ref, parameter)
            if argument is None:
                continue
            if varying.is_another_next_time(argument, caller):
                varies.add(name)
            through |= {(name, inner) for inner in varying.parameters_in(argument, caller)}
            same = varying.hands_on(argument, caller) if (name, parameter) in self.handed else None
            handed |= {(name, same)} if same is not None else set()
        return replace(self, varying=frozenset(varies), through=frozenset(through), handed=frozenset(handed))

    def opened(self, frame: Frame) -> Entry:
        """The entry of the outermost function: what that hands on without a default is another one each time."""
        others = {name for name, parameter in self.handed if varying.is_open(parameter, frame)}
        return replace(self, varying=self.varying | others) if others else self


@record(frozen=True, slots=True)
class Yielded:
    """A generator hands control to the body of the `with` that it manages."""


@record(frozen=True, slots=True)
class Reset:
    """All that was compiled is forgotten: `torch._dynamo.reset()`."""


Effect: TypeAlias = Write | Entry | Yielded | Reset


@record(frozen=True, slots=True)
class Stretch:
    """The entries of one function in one piece of driving code, in order; `home` is the class whose method it is."""

    home: ClassRef | None
    entries: tuple[Entry, ...]


@record(slots=True)
class Driven:
    """What is known of all driving code: attributes that change between entries, and the entries of each function."""

    changed: dict[tuple[ClassRef | str, str], Write] = field(default_factory=dict)
    entries: dict[FunctionRef, list[Stretch]] = field(default_factory=dict)
    nested: list[Function] = field(default_factory=list)
    """Functions that driving code defines, and may call later or hand out."""

    singly: dict[ClassRef, tuple[str, int]] = field(default_factory=dict)
    """Modules of which a loop compiles several, each by itself: path and line."""
    kept: dict[Way, list[Effect]] = field(default_factory=dict)
    named: dict[tuple[str, str], Value] = field(default_factory=dict)
    """By module and variable, what host code compiled; UNKNOWN where it is not always the same."""
    made: dict[tuple[ClassRef, str], Made] = field(default_factory=dict)
    """Attributes of new objects that are others each time."""
    replaced: set[FunctionRef] = field(default_factory=set)
    """Methods that are compiled in place: `pipe.decode = torch.compile(pipe.decode)`."""

    def compiled_arguments(self, ref: FunctionRef) -> dict[str, Value]:
        """The parameters named like a variable in which the file keeps what it compiled: they are given that.

        Not those of a constructor, which keeps them: what it is given elsewhere may be another model.
        """
        if ref.qualname.endswith("__init__"):
            return {}
        arguments = ref.node.args
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        found = {name: self.named.get((ref.module, name), UNKNOWN) for name in names}
        return {name: value for name, value in found.items() if value != UNKNOWN}

    def numbers_passed(self, ref: FunctionRef) -> dict[str, Value]:
        """The parameters of a compiled function for which all calls that are known pass a number."""
        given: dict[str, list[Value]] = {}
        for entry in (entry for stretch in self.entries.get(ref, ()) for entry in stretch.entries):
            for name, value in entry.arguments:
                given.setdefault(name, []).extend(options(value))
        found: dict[str, Value] = {}
        for name, values in given.items():
            types = {value.type if isinstance(value, (Const, Scalar)) else "object" for value in values}
            if types <= {"int", "float", "number"}:
                same: ScalarType = "int" if types == {"int"} else "float" if types == {"float"} else "number"
                found[name] = Scalar(same, "argument")
        return found

    def finished(self, way: Way, frame: Frame) -> None:
        """Take in what a frame did; its caller did it too."""
        if frame.effects:
            self.kept[way] = frame.effects
            self.repeated(way, frame.site, frame.caller)
            if frame.caller is None:
                self.study(frame)

    def repeated(self, way: Way, site: ast.AST | None, caller: Frame | None) -> None:
        """`caller` runs at `site` a function in a way that has been walked."""
        if caller is not None and caller.keeps_effects:
            done = self.kept.get(way, ())
            add([e.seen_from(site, way.ref, caller) if isinstance(e, Entry) else e for e in done], caller)

    def study(self, frame: Frame) -> None:
        """Take in what the outermost frame of some driving code did."""
        done = [effect for effect in frame.effects if not isinstance(effect, Yielded)]
        effects = [effect.opened(frame) if isinstance(effect, Entry) else effect for effect in done]
        if _runs_again(frame) and any(isinstance(effect, Entry) for effect in effects):
            effects += effects
        by_function: dict[FunctionRef, list[Entry]] = {}
        before: dict[tuple[ClassRef | str, str], Value] = {}  # what attributes held at the last entry
        since: dict[tuple[ClassRef | str, str], Write] = {}  # the last writes since then
        entered = False
        for effect in effects:
            if isinstance(effect, Reset):
                entered = False
                continue
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
            self.entries.setdefault(ref, []).append(Stretch(frame.ref.owner, tuple(entries)))

    def _note(self, key: tuple[ClassRef | str, str], write: Write, frame: Frame) -> None:
        owners = frame.tracer.program.mro(key[0]) if isinstance(key[0], ClassRef) else ()
        for owner in owners or (key[0],):
            if isinstance(owner, ClassRef) or owner == key[0]:
                self.changed.setdefault((owner, key[1]), write)


def _runs_again(frame: Frame) -> bool:
    """Whether an outermost function is likely to run more than once on the same objects: it does not compile them."""
    once = frame.is_module_level or frame.ref.qualname.rpartition(".")[2].startswith(_ONCE)
    return not once and "torch.compile" not in frame.callees.values()


def _differ(before: Value, after: Value) -> bool:
    """Whether two values of an attribute are known to be different ones."""
    if isinstance(before, Const):
        return after != UNKNOWN and before != after and (isinstance(after, Const) or before.value is None)
    if isinstance(after, Const):
        return before != UNKNOWN and after.value is None
    if isinstance(before, Sequence) and isinstance(after, Sequence):
        return before.items is not None and after.items is not None and len(before.items) != len(after.items)
    if isinstance(before, Instance) and isinstance(after, Instance):
        return before.ref != after.ref
    return False


def add(effects: Iterable[Effect], frame: Frame) -> None:
    """Add what happened to a frame's list."""
    if len(frame.effects) < MAX_EFFECTS:
        frame.effects.extend(effects)


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
        _note_write(node.target, UNKNOWN, None, frame)
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
    if isinstance(node.func, ast.Attribute) and node.func.attr in GROWING:
        owner = frame.kinds.get(node.func.value, UNKNOWN)
        if isinstance(node.func.value, ast.Attribute) and not isinstance(owner, Instance):
            _note_write(node.func.value, UNKNOWN, None, frame)
    elif frame.callees.get(node) == "builtins.setattr" and len(args) == 3 and len(node.args) == 3:
        name = args[1].value if isinstance(args[1], Const) else None
        if isinstance(name, str):
            _add_writes(args[0], node.args[0], name, args[2], node.args[2], node, frame)


def _note_write(target: ast.expr, value: Value, source: ast.expr | None, frame: Frame) -> None:
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
        _add_writes(owner, target.value, target.attr, value, None if new_key else source, target, frame)


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
    owner: Value, spelled: ast.expr, name: str, value: Value, source: ast.expr | None, node: ast.expr, frame: Frame
) -> None:
    """Note that `spelled`, which is `owner`, gets another attribute; see `_note_write`."""
    varies = source is None or varying.varies(source, frame)
    steps = source is not None and varying.steps(source, frame)
    path = frame.tracer.display(frame.module)

    def write(to: ClassRef | str, name: str, before: Value) -> Write:
        return Write(to, name, before, value, varies, steps, path, node.lineno)

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
    if varying.is_another_next_time(node.func, frame):  # `job(x)` for several `job = partial(step, how=how)`
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
        parameters_of_model=those(lambda argument: varying.is_parameter(argument, frame)),
        carried=tuple((k, numbers) for k, part in given.items() if (numbers := carried_numbers(part, frame))),
        entries=tuple((k, keys) for k, part in given.items() if (keys := entries_made(part, frame))),
        sizes=tuple((k, found) for k, part in given.items() if (found := varying_dimensions(part, frame))),
        through=frozenset(
            (k, name) for k, argument in given.items() for name in varying.parameters_in(argument, frame)
        ),
        handed=frozenset((k, name) for k, part in given.items() if (name := varying.hands_on(part, frame))),
    )
    add([entry], frame)


def _written(call: ast.Call, names: list[str]) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of a call by the names of the parameters that get them; none by position behind a star."""
    if not any(isinstance(argument, ast.Starred) for argument in call.args):
        yield from zip(names, call.args, strict=False)
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value
        elif isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
