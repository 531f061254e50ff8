"""The attributes of one object: those that are known, and those that are found out when something asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, ValuesView
from typing import TypeVar, overload

from compilelint.record import record

T = TypeVar("T")


@record(frozen=True, slots=True, eq=False)
class Postponed:
    """Something yet to be done to an object: which attributes it may set, and which of them may become modules."""

    names: frozenset[str]
    modules: frozenset[str]
    do: Callable[[], None]


class Attributes(MutableMapping[str, T]):
    """By name. What is postponed is done, in its order, when one of its names is asked for or set."""

    __slots__ = ("_as_kept", "_known", "_postponed")

    def __init__(self) -> None:
        self._known: dict[str, T] = {}
        self._postponed: list[Postponed] = []
        self._as_kept: Callable[[T], T] | None = None

    def postpone(self, what: Postponed) -> None:
        """Leave something to be done later."""
        self._postponed.append(what)

    def keep_as(self, convert: Callable[[T], T]) -> None:
        """Turn each value into what an object that has been built keeps of it, those found later too."""
        self._as_kept = convert
        self._known.update({name: convert(value) for name, value in self._known.items()})

    @overload  # type: ignore[override]
    def get(self, name: str, /) -> T | None: ...
    @overload
    def get(self, name: str, default: T, /) -> T: ...
    def get(self, name: str, default: T | None = None, /) -> T | None:
        """The value of one attribute."""
        if self._postponed:
            self._settle(name)
        return self._known.get(name, default)

    def names(self) -> list[str]:
        """The attributes that there are, and then those that there may be; nothing is done for it."""
        later = {name for what in self._postponed for name in what.names}
        return [*self._known, *sorted(later - self._known.keys())]

    def modules(self) -> ValuesView[T]:
        """As `values`, where nobody asks for those that are certainly no modules."""
        self._do_all(lambda what: bool(what.modules))
        return self._known.values()

    def values(self) -> ValuesView[T]:
        """All values."""
        self._settle()
        return self._known.values()

    def _settle(self, name: str | None = None) -> None:
        self._do_all(lambda what: name is None or name in what.names)

    def _do_all(self, wanted: Callable[[Postponed], bool]) -> None:
        # What is done may postpone a part of what it does, and ask for others itself.
        while (what := next(filter(wanted, self._postponed), None)) is not None:
            self._postponed.remove(what)
            what.do()
            if self._as_kept is not None:
                self._known.update({name: self._as_kept(self._known[name]) for name in what.names & self._known.keys()})

    def __getitem__(self, name: str) -> T:
        if self._postponed:
            self._settle(name)
        return self._known[name]

    def __setitem__(self, name: str, value: T) -> None:
        if self._postponed:
            self._settle(name)
        self._known[name] = value

    def __contains__(self, name: object) -> bool:
        if self._postponed and isinstance(name, str):
            self._settle(name)
        return name in self._known

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._settle()
        return iter(self._known)

    def __len__(self) -> int:
        self._settle()
        return len(self._known)
