"""What code that drives compiled functions does in turn: enters them, and sets attributes between two entries.

Host frames keep a list of effects in the order in which they happen. A loop is walked twice, so its effects stand there
twice, as for two turns. What a called function did is added to its caller's list.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

from compilelint.record import record
from compilelint.static.project.definitions import ClassRef, FunctionRef
from compilelint.static.tracer import varying
from compilelint.static.values import (
    UNKNOWN,
    Const,
    Function,
    Instance,
    Mapping,
    Scalar,
    ScalarType,
    Sequence,
    Value,
    element_of,
    join_all,
    options,
)

if TYPE_CHECKING:
    from compilelint.static.tracer.frame import Frame
    from compilelint.static.tracer.held import Way
    from compilelint.static.tracer.made_anew import Made

MAX_EFFECTS = 400
"""A host function that does more than this is told by what it does first."""
_ONCE = ("main", "test", "bench", "profile", "demo", "example", "run_once", "__init__", "make", "build", "setup")


@record(frozen=True, slots=True)
class Write:
    """`owner.name` gets `value`, which may be another each time if it `varies`, on each turn of a loop if it `steps`.

    It is a list that is made longer if it `grows`. `line` is 1-based. Of a module of torch that `owner` keeps, the name
    has two parts: `drop.p` for `net.drop.p = rate`. Where nothing tells who keeps it, the owner is its class:
    `torch.nn.Dropout`.
    """

    owner: ClassRef | str
    name: str
    before: Value
    value: Value
    varies: bool
    steps: bool
    path: str
    line: int
    grows: bool = False


@record(frozen=True, slots=True)
class Held:
    """A parameter that is given what is reached through attributes, outermost first, each with the class of its object.

    `own`: they start at a variable that the calling function binds, so at another object the next time it runs.
    """

    parameter: str
    places: tuple[tuple[ClassRef, str], ...]
    own: bool


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
    held: tuple[Held, ...] = ()
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

    def after(self, writes: Writes, *, own: bool) -> Entry:
        """The entry where attributes were written since the last one: what those hold is another one now.

        Not where an object on the way to the attribute is another one itself. See `Held` for `own`.
        """
        others, longer = set(self.varying), set(self.growing)
        for held in self.held:
            here = writes.get(held.places[-1], []) if held.own is own else []
            if here and not any(place in writes for place in held.places[:-1]):
                others |= {held.parameter} if any(write.varies for write in here) else set()
                is_collection = isinstance(dict(self.arguments).get(held.parameter), (Sequence, Mapping))
                longer |= {held.parameter} if is_collection and all(write.grows for write in here) else set()
        return replace(self, varying=frozenset(others), growing=frozenset(longer))


@record(frozen=True, slots=True)
class Yielded:
    """A generator hands control to the body of the `with` that it manages."""


@record(frozen=True, slots=True)
class Reset:
    """All that was compiled is forgotten: `torch._dynamo.reset()`."""


Writes: TypeAlias = dict[tuple[ClassRef | str, str], list[Write]]
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
    in_globals: dict[tuple[ClassRef, str], Made] = field(default_factory=dict)
    """Attributes of the objects that a context manager puts into a global, and that it is given."""
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

    def settings_passed(self, ref: FunctionRef) -> dict[str, Value]:
        """The parameters of a compiled function for which all calls that are known pass a number or a list of numbers
        or texts, with what they are then."""
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
            elif all(map(_is_list_of_settings, values)):
                found[name] = Sequence("list", None, join_all(map(element_of, values)))
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
        since: Writes = {}  # the writes since then
        entered = False
        for effect in effects:
            if isinstance(effect, Reset):
                entered = False
                continue
            if isinstance(effect, Write):
                key = (effect.owner, effect.name)
                before.setdefault(key, effect.before)
                since.setdefault(key, []).append(effect)
                continue
            for key, writes in since.items():
                last = writes[-1]
                if entered and (last.varies or _differ(before[key], last.value)):
                    self._note(key, last, frame)
                before[key] = last.value
            if effect.ref is not None:
                by_function.setdefault(effect.ref, []).append(effect.after(since, own=False) if entered else effect)
            since.clear()
            entered = True
        for ref, entries in by_function.items():
            self.entries.setdefault(ref, []).append(Stretch(frame.ref.owner, tuple(entries)))

    def _note(self, key: tuple[ClassRef | str, str], write: Write, frame: Frame) -> None:
        owners = frame.tracer.program.mro(key[0]) if isinstance(key[0], ClassRef) else ()
        for owner in owners or (key[0],):
            if isinstance(owner, ClassRef) or owner == key[0]:
                self.changed.setdefault((owner, key[1]), write)


def _is_list_of_settings(value: Value) -> bool:
    """Whether a value is a list of numbers or texts, and not an empty one."""
    is_list = isinstance(value, Sequence) and value.form == "list"
    return is_list and all(isinstance(part, (Const, Scalar)) for part in options(element_of(value)))


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
