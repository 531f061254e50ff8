"""Value kinds: what the static pass can know about a Python value without running anything.

A rule asks `view.kind(expr)` and gets one of these. They are a small lattice: `join` goes up, `UNKNOWN` is the top.
Everything here is immutable but `Instance`, an allocation site: its attributes are joined as code assigns them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from compilelint.record import record
from compilelint.static.object_attributes import Attributes

if TYPE_CHECKING:
    from dataclasses import dataclass as kind

    from compilelint.static.project.definitions import ClassRef, FunctionRef
else:

    def kind(*, slots: bool, frozen: bool) -> object:
        """As `record`, but with the methods of `dataclass`, which compare faster: values are compared all the time."""
        return dataclass(slots=slots, unsafe_hash=frozen)


Element: TypeAlias = Literal["bool", "int", "float"]
"""What a tensor or array holds, where known: masks and indices behave differently in a subscript."""

ScalarType: TypeAlias = Literal["bool", "int", "float", "str", "number", "object"]
Origin: TypeAlias = Literal["python", "shape", "tensor", "argument", "drawn"]

MAX_OPTIONS = 24
"""A union of more kinds than this tells a rule nothing any more and becomes `UNKNOWN`."""


@kind(frozen=True, slots=True)
class Unknown:
    """Nothing is known. Rules stay silent, or say `possible`."""


UNKNOWN = Unknown()


@kind(frozen=True, slots=True)
class Tensor:
    """A torch tensor. `sure` is False where only an annotation, a name or the way it is used says so.

    `rank` 0 marks a scalar tensor. `host` is True for a tensor that provably sits on the CPU (`.cpu()`, `"cpu"`),
    `sparse` for one of a sparse layout.
    """

    element: Element | None = None
    rank: int | None = None
    sure: bool = True
    host: bool = False
    sparse: bool = False


@kind(frozen=True, slots=True)
class Array:
    """A numpy array, or numpy scalar (`rank` 0). Dynamo traces most of numpy as tensors (docs: torch.compiler_faq)."""

    element: Element | None = None
    rank: int | None = None


@kind(frozen=True, slots=True)
class Const:
    """A Python constant whose value is known: None, bool, int, float, str, bytes."""

    value: object
    type: str = ""

    def __post_init__(self) -> None:
        # 1, 1.0 and True compare equal in Python; the type keeps them apart here.
        object.__setattr__(self, "type", type(self.value).__name__)


@lru_cache(maxsize=4096, typed=True)
def constant(value: object) -> Const:
    """The one `Const` of a value that is written in source: the same few are met again and again."""
    return Const(value)


NONE = constant(None)


@kind(frozen=True, slots=True)
class Scalar:
    """A Python scalar whose value is not known.

    `origin`: `shape` is a size (symbolic int under dynamic shapes), `tensor` was read back from a tensor (`.item()`),
    `argument` is a Python argument of the region's root, `drawn` a random number that Dynamo hands to the graph as an
    input, `python` anything else.
    """

    type: ScalarType = "object"
    origin: Origin = "python"


@kind(frozen=True, slots=True)
class Sequence:
    """A list, tuple, set, size or iterator. `items` where the length is known, else `element` is the join of all.

    `head` are the first items of a tuple whose length is not known: `(states, sizes)` that attentions may follow.
    """

    form: Literal["list", "tuple", "set", "size", "iterator", "generator", "range"]
    items: tuple[Value, ...] | None = None
    element: Value = UNKNOWN
    head: tuple[Value, ...] = ()


@kind(frozen=True, slots=True)
class Mapping:
    """A dict. `entries` are the constant keys known; `element` is the join of every other value.

    `empty` tells `{}`, of which all is known, from a dict of unknown values.
    """

    entries: tuple[tuple[object, Value], ...] = ()
    element: Value = UNKNOWN
    empty: bool = False

    @property
    def unlisted(self) -> Value:
        """What a key gives that is not among `entries`: unknown where some of the other values are."""
        return UNKNOWN if UNKNOWN in options(self.element) else self.element


@kind(frozen=True, slots=True)
class External:
    """Something outside the project, by its dotted name: a module, a function, a class (`torch.nn.functional.pad`)."""

    name: str


@kind(frozen=True, slots=True)
class ExternalInstance:
    """An instance of a class outside the project: `torch.nn.LSTM`, `logging.Logger`, `torch.Generator`."""

    name: str
    items: tuple[Value, ...] = ()
    """What a container module holds (`nn.ModuleList`, `nn.Sequential`), in order where known."""


@kind(frozen=True, slots=True)
class ProjectModule:
    """A module of the project, by its dotted name."""

    name: str


@record(frozen=True, slots=True, eq=False)
class Closure:
    """The variables a nested function sees, and what its defaults gave where it was made; equal only to itself."""

    env: dict[str, Value]
    outer: Closure | None = None
    defaults: dict[str, Value] = field(default_factory=dict)


@kind(frozen=True, slots=True)
class Function:
    """A function or lambda of the project, possibly bound to a receiver."""

    ref: FunctionRef
    bound: Value | None = None
    closure: Closure | None = None
    disabled: bool = False
    """Wrapped in `torch.compiler.disable`: Dynamo does not trace it and breaks at the call (GB0098/GB0099)."""


@kind(frozen=True, slots=True)
class Partial:
    """`functools.partial(function, *args, **keywords)`."""

    function: Value
    args: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@kind(frozen=True, slots=True)
class Class:
    """A class of the project."""

    ref: ClassRef


@record(slots=True, eq=False)
class Instance:
    """An object of a project class, one per construction with the same argument kinds."""

    ref: ClassRef
    attributes: Attributes[Value] = field(default_factory=Attributes)
    is_module: bool = False  # of a class that inherits from torch.nn.Module
    has_outside_base: bool = False  # some base class is not in the project, so attributes may come from there
    traced: bool = False  # made by code that Dynamo traces
    compiled: bool = False
    """After `module.compile()` or `module.forward = torch.compile(module.forward)` a call of it runs compiled code."""


@kind(frozen=True, slots=True)
class Super:
    """`super()`: attribute look-ups on `receiver` start after `after` in the method resolution order."""

    receiver: Value
    after: ClassRef


@kind(frozen=True, slots=True)
class Method:
    """A bound method of a value that is not a project object: `x.sum`, `items.append`, `lstm.flatten_parameters`."""

    receiver: Value
    name: str


@kind(frozen=True, slots=True)
class Compiled:
    """What `torch.compile(inner)` returns: calling it enters a compiled region at `inner`."""

    inner: Value


@kind(frozen=True, slots=True)
class Union:
    """One of several kinds; `None | Tensor` is the usual one."""

    options: tuple[Value, ...]


Value: TypeAlias = (
    Unknown
    | Tensor
    | Array
    | Const
    | Scalar
    | Sequence
    | Mapping
    | External
    | ExternalInstance
    | ProjectModule
    | Function
    | Partial
    | Class
    | Instance
    | Super
    | Method
    | Compiled
    | Union
)


def options(value: Value) -> tuple[Value, ...]:
    """The alternatives of `value`: those of a union, else the value alone."""
    return value.options if isinstance(value, Union) else (value,)


def join(*values: Value) -> Value:
    """The least kind that covers all `values`."""
    if len(values) == 2 and (values[0] is values[1] or values[0] == values[1]):
        return values[0]
    return join_all(values)


def join_all(values: Iterable[Value]) -> Value:
    """As `join`, for any number of values; of none it is `UNKNOWN`."""
    flat: list[Value] = []
    for value in values:
        if isinstance(value, Union):
            for option in value.options:
                _add(flat, option)
        else:
            _add(flat, value)
    if not flat:
        return UNKNOWN
    if len(flat) == 1:
        return flat[0]
    if len(flat) > MAX_OPTIONS:
        return UNKNOWN
    return Union(tuple(flat))


def _add(flat: list[Value], new: Value) -> None:
    """Add `new` to the options in `flat`, merged into one of the same sort where there is one."""
    kind = type(new)
    alike = _SCALARS if kind in _SCALARS else (kind,)
    for position, old in enumerate(flat):
        if old is new:
            return
        if type(old) in alike:
            merged = old if old == new else _merge(old, new)
            if merged is not None:
                flat[position] = merged
                return
    flat.append(new)


_SCALARS = (Const, Scalar)
"""Values of these two sorts may become one; all others merge with their own sort only."""


def _merge(old: Value, new: Value) -> Value | None:
    """One value that covers two of the same sort, or None when they stay apart in a union."""
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        return Tensor(
            element=old.element if old.element == new.element else None,
            rank=old.rank if old.rank == new.rank else None,
            sure=old.sure and new.sure,
            host=old.host and new.host,
            sparse=old.sparse and new.sparse,
        )
    if isinstance(old, Array) and isinstance(new, Array):
        return Array(old.element if old.element == new.element else None, old.rank if old.rank == new.rank else None)
    if isinstance(old, Scalar) and isinstance(new, Scalar):
        origin: Origin = old.origin if old.origin == new.origin else "python"
        if "tensor" in (old.origin, new.origin):
            origin = "tensor"
        return Scalar(old.type if old.type == new.type else "object", origin)
    if isinstance(old, Sequence) and isinstance(new, Sequence) and old.form == new.form:
        if old.items is not None and new.items is not None and len(old.items) == len(new.items):
            return Sequence(old.form, tuple(join(a, b) for a, b in zip(old.items, new.items, strict=True)))
        if _tells_places(old) and _tells_places(new):
            return None  # `(states, sizes)` and `(states, sizes, attentions)`: what stands where is worth keeping
        if () in (old.items, new.items):  # an empty list says nothing of what the other one holds
            return Sequence(old.form, None, element_of(new if old.items == () else old))
        head = tuple(map(join, first_of(old), first_of(new))) if old.form == "tuple" else ()
        return Sequence(old.form, None, join(element_of(old), element_of(new)), head if differ(head) else ())
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if old.empty or new.empty:
            return new if old.empty else old
        keys = dict(old.entries)
        for key, value in new.entries:
            keys[key] = join(keys[key], value) if key in keys else value
        if len(keys) > 64:
            return Mapping((), join_all([*keys.values(), old.element, new.element]))
        return Mapping(tuple(keys.items()), join(old.element, new.element))
    if isinstance(old, Const) and isinstance(new, Const):
        return _merge_constants(old, new)
    if isinstance(old, Scalar) and isinstance(new, Const) and new.value is not None:
        return old if old.type == new.type else Scalar("object", old.origin)
    if isinstance(old, Const) and isinstance(new, Scalar) and old.value is not None:
        return new if new.type == old.type else Scalar("object", new.origin)
    return None


def _tells_places(value: Sequence) -> bool:
    """Whether a tuple holds things of different sorts, each in its place."""
    return value.form == "tuple" and value.items is not None and differ(value.items)


def differ(items: tuple[Value, ...]) -> bool:
    """Whether there are things of different sorts among `items`."""
    return len({type(item) for item in items}) > 1


def first_of(value: Sequence) -> tuple[Value, ...]:
    """The items at the beginning of a list or tuple, as many as are known one by one."""
    return value.head if value.items is None else value.items


def _merge_constants(old: Const, new: Const) -> Value | None:
    """Two numbers become a scalar at once; two strings or flags too; None stays apart, since code tests for it."""
    if old.value is None or new.value is None:
        return None
    if old.type == new.type and old.type in ("bool", "int", "float", "str"):
        return Scalar(old.type)  # type: ignore[arg-type]
    return Scalar("object")


def element_of(value: Value) -> Value:
    """What iterating over a sequence or mapping value yields, joined over all its items."""
    if isinstance(value, Sequence):
        return value.element if value.items is None else (join_all(value.items) if value.items else UNKNOWN)
    if isinstance(value, Mapping):
        entries = [entry for _, entry in value.entries]
        # Settings next to tensors, as keyword arguments mostly are: which of them a key takes, nothing says.
        mixed = any(map(gives_tensors, entries)) and not all(entry == NONE or gives_tensors(entry) for entry in entries)
        return UNKNOWN if mixed else join_all([*entries, value.element])
    return UNKNOWN


def without_none(value: Value) -> Value:
    """`value` on a path where it has been tested not to be None."""
    return join_all(option for option in options(value) if option != NONE) if isinstance(value, Union) else value


def tensors_in(value: Value) -> tuple[Tensor, ...]:
    """The tensor alternatives of a value."""
    return tuple(option for option in options(value) if isinstance(option, Tensor))


def as_claimed(value: Value) -> Value:
    """`value` as sure as an annotation would make it."""
    return Tensor(value.element, value.rank, False, value.host) if isinstance(value, Tensor) else value


def gives_tensors(value: Value) -> bool:
    """Whether a value is a tensor, or a list, tuple or dict with one in it."""
    return any(
        isinstance(option, Tensor)
        or (isinstance(option, Sequence) and gives_tensors(element_of(option)))
        or (isinstance(option, Mapping) and any(map(gives_tensors, (*(e for _, e in option.entries), option.element))))
        for option in options(value)
    )


def gives_arrays(value: Value) -> bool:
    """Whether a value is a numpy array and nothing else, or a tuple or list of them."""
    return all(
        isinstance(option, Array)
        or (isinstance(option, Sequence) and all(map(gives_arrays, option.items or (option.element,))))
        for option in options(value)
    )


def gives_module(value: Value) -> bool:
    """Whether a value is a torch.nn module, or a tuple or list with one in it."""
    return any(
        (isinstance(option, Instance) and option.is_module)
        or (isinstance(option, ExternalInstance) and option.name.startswith("torch.nn."))
        or (isinstance(option, Sequence) and any(map(gives_module, option.items or (option.element,))))
        for option in options(value)
    )


def tensor_certainty(value: Value) -> Literal["certain", "likely"] | None:
    """How sure it is that `value` is a tensor: None if nothing says so.

    `certain` if it can be nothing else and an operation, not an annotation, made it. Where annotation or use speak for
    a tensor and something else for a list, a text or an object, nothing is sure.
    """
    found = tensors_in(value)
    if not found or not (any(t.sure for t in found) or all(map(_may_stand_for_tensor, options(value)))):
        return None
    return "certain" if len(options(value)) == len(found) and all(t.sure for t in found) else "likely"


def _may_stand_for_tensor(value: Value) -> bool:
    """Whether code that takes a tensor takes this in its place: a number, an object of a tensor subclass."""
    if isinstance(value, (Const, Scalar)):
        return value.type not in ("str", "object")
    if isinstance(value, Instance):
        return value.has_outside_base and not value.is_module
    return isinstance(value, (Tensor, Array, Unknown))
