"""Lists and dicts made with None in them, for what is put there later: `[None] * layers`."""

from __future__ import annotations

from compilelint.static.values import NONE, Mapping, Sequence, Value, join


def has_empty_places(value: Value) -> bool:
    """Whether a list or dict holds None somewhere."""
    if isinstance(value, Sequence) and value.form == "list":
        return value.element == NONE if value.items is None else NONE in value.items
    return isinstance(value, Mapping) and (value.element == NONE or any(entry == NONE for _, entry in value.entries))


def with_places_filled(value: Value, later: Value) -> Value:
    """A list or dict of which `later` may stand where it held None."""

    def filled(item: Value) -> Value:
        return join(NONE, later) if item == NONE else item

    if isinstance(value, Sequence):
        items = None if value.items is None else tuple(map(filled, value.items))
        return Sequence(value.form, items, filled(value.element))
    if isinstance(value, Mapping):
        return Mapping(tuple((key, filled(entry)) for key, entry in value.entries), filled(value.element))
    return value
