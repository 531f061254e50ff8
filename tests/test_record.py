"""Data classes as `record` makes them are those of `dataclass`, to all who use them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, field, replace

import pytest

from compilelint.record import record


@record(frozen=True, slots=True)
class Point:
    """Two numbers, and a note that is neither shown nor compared."""

    x: int
    y: int = 0
    note: str = field(default="", repr=False, compare=False)


@record(slots=True)
class Box:
    """What is set later."""

    items: list[int] = field(default_factory=list)


@record(frozen=True, slots=True, eq=False)
class Token:
    """Equal to itself only."""

    name: str


@record(frozen=True, slots=True)
class Nothing:
    """No field at all."""


def test_equal_fields_make_equal_objects_of_one_class() -> None:
    assert Point(1, 2) == Point(1, y=2) != Point(2, 1)
    assert Point(1, 2, "here") == Point(1, 2, "there")
    assert hash(Point(1, 2, "here")) == hash(Point(1, 2, "there"))
    assert len({Point(1), Point(1, 0), Point(2)}) == 2
    assert Nothing() == Nothing() and hash(Nothing()) == hash(Nothing())
    assert Point(1) != (1, 0) and Nothing() != ()


def test_what_may_change_has_no_hash() -> None:
    box = Box()
    box.items.append(1)
    assert box == Box([1]) and box.items is not Box().items
    with pytest.raises(TypeError, match="unhashable"):
        hash(box)


def test_without_comparison_an_object_is_itself() -> None:
    token = Token("a")
    assert token == token and token != Token("a")
    assert len({token, Token("a")}) == 2


def test_the_tools_of_dataclasses_know_them() -> None:
    point = replace(Point(1), y=3)
    assert asdict(point) == {"x": 1, "y": 3, "note": ""}
    assert repr(point) == "Point(x=1, y=3)"
    assert pickle.loads(pickle.dumps(point)) == copy.copy(point) == point
    assert pickle.loads(pickle.dumps(Point(1, 2, "kept"))).note == "kept"
