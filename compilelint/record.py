"""Data classes that cost little to define: how long they take is a good part of what a small file takes to lint.

`dataclass` writes out a class's methods and compiles each: half a millisecond for a frozen class, and seventy are made
at each start. Here only `__init__` is; and that of a frozen class sets attributes the quick way.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

__all__ = ["record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from dataclasses import dataclass, fields

    def record(*, frozen=False, slots=False, eq=True):
        """As `dataclass`, which the type checker takes it for, and which alone forbids that a frozen object is set."""

        def made(cls):
            cls = dataclass(slots=slots, eq=False, repr=False)(cls)
            cls.__repr__ = _repr
            if eq:
                _compare_by(cls, tuple(field.name for field in fields(cls) if field.compare), hashed=frozen)
            return cls

        return made

    def _compare_by(cls, names, hashed):
        values = attrgetter(*names) if names else lambda item: ()

        def equal(self, other):
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        cls.__eq__ = equal
        cls.__hash__ = (lambda self: hash(values(self))) if hashed else None

    def _repr(self):
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"
