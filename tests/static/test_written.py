"""Values as text: what is read back is what was written, and what cannot be written is refused."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from compilelint.static.project.definitions import ClassRef, FunctionRef
from compilelint.static.tracer.written import CannotBeToldError, Reader, Writer
from compilelint.static.units.told import found_in, packed, text_of
from compilelint.static.values import (
    UNKNOWN,
    Class,
    Closure,
    Compiled,
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
    Value,
)

NODE = ast.parse("def f(): pass\nclass C: pass")
REF = FunctionRef("m", "f", 1, 0, NODE.body[0])  # type: ignore[arg-type]
CLASS = ClassRef("m", "C", NODE.body[1])  # type: ignore[arg-type]
VALUES: list[Value] = [
    UNKNOWN,
    Tensor("int", 2, False, True),
    Const(True),
    Const(1),
    Const(1.0),
    Const(None),
    Scalar("int", "shape"),
    Sequence("tuple", None, Tensor(), (Const("a"), Scalar())),
    Sequence("list", (Const(1), Const(True), Const(1.0))),
    Mapping((("key", Const(1.5)), (3, UNKNOWN)), Tensor()),
    Union((Const("b"), External("torch.add"))),
    ExternalInstance("torch.nn.ModuleList", (ExternalInstance("torch.nn.Linear"),)),
    Method(Tensor(), "sum"),
    ProjectModule("m"),
    Class(CLASS),
    Super(Class(CLASS), CLASS),
    Function(REF, Tensor()),
    Partial(Function(REF), (Const(1),), (("key", Const(2)),)),
]


def told(*values: object) -> tuple[list[int], list[Any]]:
    """The places of values in a table, and what stands there once that has been text."""
    writer = Writer(lambda ref: ref.qualname, [], {})
    places = [writer.place(value) for value in values]
    reader = Reader(json.loads(json.dumps(writer.table)), lambda *_: REF, lambda *_: CLASS, {})
    return places, [reader.value(place) for place in places]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_the_same_when_it_is_read_back(value: Value) -> None:
    assert told(value)[1] == [value]
    assert repr(told(value)[1]).replace("Named", "ClassRef") == repr([value])  # 1 and True are equal


def test_equal_values_share_a_place_and_numbers_of_another_type_do_not() -> None:
    places, _ = told(Const(1), Const(True), Const(1), Const(1.0), Sequence("list", (Const(1),)))
    assert places[0] == places[2]
    assert len(set(places)) == 4


def test_two_objects_of_a_class_stay_two_and_what_they_hold_is_not_told() -> None:
    first, second = Instance(CLASS, {"a": Tensor()}, is_module=True), Instance(CLASS)
    places, read = told(first, second, Sequence("list", (first,)))
    assert places[0] != places[1]
    assert read[2].items[0] is read[0] is not read[1]
    assert (read[0].ref, read[0].is_module, read[1].is_module) == (CLASS, True, False)
    with pytest.raises(CannotBeToldError):
        read[0].attributes.get("a")


def test_two_functions_of_one_name_with_other_variables_stay_two() -> None:
    closure = Closure({})
    places, read = told(
        Function(REF, closure=closure), Function(REF, closure=closure), Function(REF, closure=Closure({}))
    )
    assert places[0] == places[1] != places[2]
    assert read[0] == read[1] != read[2]


@pytest.mark.parametrize(
    "value",
    [
        Compiled(Function(REF)),
        Instance(CLASS, compiled=True),
        Union((Tensor(), Compiled(UNKNOWN))),
        Const(b"raw"),
        Function(FunctionRef("m", "<lambda>", 1, 0, NODE.body[0])),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_told_is_not_written(value: Value) -> None:
    with pytest.raises(CannotBeToldError):
        Writer(lambda ref: ref.qualname, [], {}).place(value)


@pytest.mark.parametrize("entry", [["Function", "m", "f", 1, 1, False], ["Compiled", 1]])
def test_what_is_gone_or_was_never_written_is_refused(entry: list[Any]) -> None:
    with pytest.raises(CannotBeToldError):
        Reader([entry, ["=", None]], lambda *_: None, lambda *_: None, {}).value(0)


def test_a_class_is_looked_up_when_that_is_asked_for() -> None:
    looked_up: list[tuple[str, str]] = []

    def find(module: str, name: str) -> ClassRef:
        looked_up.append((module, name))
        return CLASS

    ref = Reader([["ClassRef", "m", "C"]], lambda *_: REF, find, {}).value(0)
    assert (ref, looked_up) == (CLASS, [])
    assert ref.node is CLASS.node
    assert looked_up == [("m", "C")]


def test_of_what_is_kept_each_function_is_found_by_its_name() -> None:
    data = packed([text_of("a.py", "f", {"small": True}), text_of("a.py", "C.f", {"small": False})])
    assert found_in(data, "a.py", "f") == '{"small":true}'
    assert found_in(data, "a.py", "C.f") == '{"small":false}'
    assert found_in(data, "a.py", "C") is found_in(data, "b.py", "f") is None
    assert packed([]) == b""
    assert found_in(b"", "a.py", "f") is found_in(data[:-9], "a.py", "f") is found_in(b"damaged", "a.py", "f") is None
