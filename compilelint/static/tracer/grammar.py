"""The return kinds of the knowledge table (`tensor:bool`, `tuple[tensor,tensor:int]`, `a|b`) -> values."""

from __future__ import annotations

from functools import lru_cache

from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Array,
    Element,
    ExternalInstance,
    Scalar,
    Sequence,
    Tensor,
    Value,
    join_all,
)

_PLAIN: dict[str, Value] = {
    "bool": Scalar("bool"),
    "int": Scalar("int"),
    "float": Scalar("float"),
    "str": Scalar("str"),
    "none": NONE,
    "size": Sequence("size", None, Scalar("int", "shape")),
    "dtype": Scalar("object"),
    "device": Scalar("object"),
    "scalar": Scalar("number", "tensor"),
    "array": Array(),
    "list": Sequence("list"),
    "tuple": Sequence("tuple"),
}
_ELEMENTS: dict[str, Element] = {"bool": "bool", "int": "int", "float": "float"}


def value_of_return(text: str, like: Value = UNKNOWN) -> Value:
    """The value a table entry describes; `like` gives the element type for `tensor:same`."""
    value = _parse(text)
    if isinstance(value, Tensor) and text == "tensor:same" and isinstance(like, Tensor):
        return Tensor(like.element, like.rank, True, like.host)
    return value


@lru_cache(maxsize=512)
def _parse(text: str) -> Value:
    alternatives = _split(text, "|")
    if len(alternatives) > 1:
        return join_all(_parse(part) for part in alternatives)
    head, bracket, rest = text.partition("[")
    if bracket:
        items = [_parse(part) for part in _split(rest[:-1], ",")]
        if head == "list":
            return Sequence("list", None, join_all(items))
        return Sequence("tuple", tuple(items))
    name, _, element = text.partition(":")
    if name == "object":
        return ExternalInstance(element)
    if name == "tensor":
        return Tensor(_ELEMENTS.get(element))
    if name == "array":
        return Array(_ELEMENTS.get(element))
    return _PLAIN.get(name, UNKNOWN)


def _split(text: str, separator: str) -> list[str]:
    """Split at a separator outside of brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return parts
