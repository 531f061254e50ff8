"""Values as text, so that what a function was given and answered can be kept and told again.

All that one function was told is written into one table, in which each value stands once and others speak of it by its
place. Objects of the project are in it as what they are: one of several, of this class. What they hold is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from compilelint.static.object_attributes import Attributes
from compilelint.static.project.definitions import ClassRef, FunctionRef
from compilelint.static.values import (
    Array,
    Class,
    Closure,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Method,
    Partial,
    ProjectModule,
    Scalar,
    Sequence,
    Super,
    Tensor,
    Union,
    Unknown,
)

Table = list[list[Any]]
"""Each value as JSON can hold it: a name of its sort, and what it is made of, mostly by places in the table."""

_BY_FIELDS: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    kind.__name__: (kind, tuple(part.name for part in fields(kind)))
    for kind in (
        *(Unknown, Tensor, Array, Scalar, Sequence, Mapping, External, ExternalInstance, Method, Union),
        *(ProjectModule, Class, Partial, Super),
    )
}
_BARE = (bool, int, float, str, type(None))


class Sealed(Attributes[Any]):
    """The attributes of an object of which nothing is known but what is told. Any look at them is an error."""

    def _closed(self, *_: object) -> Any:
        raise CannotBeToldError("attributes")

    __contains__ = __getitem__ = __setitem__ = __iter__ = __len__ = _closed
    get = names = modules = values = postpone = keep_as = _closed  # type: ignore[assignment]


class _SealedVariables(dict[str, Any]):
    """As `Sealed`, for the variables around a function."""

    def __contains__(self, _: object) -> bool:
        raise CannotBeToldError("variables")


class CannotBeToldError(Exception):
    """A value that cannot be written down, or a place in a table that stands for none."""


class Writer:
    """Writes values into `table`. `name_of` gives a function's name in its file, "" for one that has none.

    `known` are the places of values that stand in the table already, by identity.
    """

    def __init__(self, name_of: Callable[[FunctionRef], str], table: Table, known: dict[int, int]) -> None:
        self.table = table
        self._name_of = name_of
        self._by_object = known
        self._places = {_key(entry): place for place, entry in enumerate(table)}
        self._held: list[object] = []

    def place(self, value: object) -> int:
        """The place of a value in the table, in which it is written where it is new. Raises CannotBeToldError."""
        found = self._by_object.get(id(value))
        if found is None:
            found = self._by_object[id(value)] = self._placed(self._entry(value))
            self._held.append(value)  # or another one could take its identity
        return found

    def _placed(self, entry: list[Any]) -> int:
        key = _key(entry)
        if key not in self._places:
            self._places[key] = len(self.table)
            self.table.append(entry)
        return self._places[key]

    def _entry(self, value: object) -> list[Any]:
        sort = type(value).__name__
        kind, names = _BY_FIELDS.get(sort, (None, ()))
        if kind is type(value):
            return [sort, *[self.place(getattr(value, name)) for name in names]]
        if isinstance(value, _BARE):
            return ["=", value]
        if isinstance(value, tuple):
            return ["()", *map(self.place, value)]
        if isinstance(value, Const):
            return ["Const", self.place(value.value)]
        if isinstance(value, Instance) and not value.compiled:
            # Two objects are never the same one, whatever is known of them.
            known = [value.is_module, value.has_outside_base, value.traced]
            return ["Instance", len(self.table), self.place(value.ref), *known]
        if isinstance(value, ClassRef):
            return ["ClassRef", value.module, value.qualname]
        if isinstance(value, Closure):
            return ["Closure", len(self.table)]
        if isinstance(value, Function):
            name = self._name_of(value.ref) or value.ref.qualname
            if "<lambda>" not in name:
                held = self.place(value.bound), self.place(value.closure)
                return ["Function", value.ref.module, name, *held, value.disabled]
        raise CannotBeToldError(type(value).__name__)


def _key(entry: list[Any]) -> tuple[Any, ...]:
    """1, 1.0 and True are equal, and are not the same."""
    return (*entry, type(entry[-1]))


class Named(ClassRef):
    """A class by its name: where it is defined is looked up when that is asked for."""

    __slots__ = ("find",)

    def __init__(self, module: str, qualname: str, find: Callable[[str, str], ClassRef | None]) -> None:
        for name, value in (("module", module), ("qualname", qualname), ("find", find)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name != "node":
            raise AttributeError(name)
        object.__setattr__(self, name, _there(self.find(self.module, self.qualname)).node)
        return self.node


class Reader:
    """Reads values from a table.

    `function` and `class_named` find what has a name in a module, or give None. `known` is where the places of values
    are put that were read, by identity.
    """

    def __init__(
        self,
        table: Table,
        function: Callable[[str, str], FunctionRef | None],
        class_named: Callable[[str, str], ClassRef | None],
        known: dict[int, int],
    ) -> None:
        self._table = table
        self._function = function
        self._class = class_named
        self._known = known
        self._read: dict[int, Any] = {}

    def value(self, place: int) -> Any:
        """What stands at a place of the table. Raises CannotBeToldError."""
        if place not in self._read:
            value = self._read[place] = self._value(*self._table[place])
            self._known[id(value)] = place
        return self._read[place]

    def _value(self, sort: str, *parts: Any) -> Any:
        if sort == "=":
            return parts[0]
        if sort == "()":
            return tuple(map(self.value, parts))
        if sort == "Const":
            return Const(self.value(parts[0]))
        if sort == "Instance":
            _, ref, is_module, has_outside_base, traced = parts
            return Instance(self.value(ref), Sealed(), is_module, has_outside_base, traced=traced)
        if sort == "Closure":
            return Closure(_SealedVariables(), None, _SealedVariables())
        if sort == "ClassRef":
            return Named(parts[0], parts[1], self._class)
        if sort == "Function":
            module, name, bound, closure, disabled = parts
            return Function(_there(self._function(module, name)), self.value(bound), self.value(closure), disabled)
        kind, _ = _there(_BY_FIELDS.get(sort))
        return kind(*map(self.value, parts))


def _there(found: Any) -> Any:
    if found is None:
        raise CannotBeToldError
    return found
