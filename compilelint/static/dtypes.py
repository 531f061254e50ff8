"""torch's dtypes, by name."""

from __future__ import annotations

import re

from compilelint.static.values import Element, Value

_ELEMENTS: dict[str, Element] = {
    "bool": "bool",
    **dict.fromkeys(("long", "int", "short", "uint8", "int8", "int16", "int32", "int64"), "int"),
    **dict.fromkeys(("float", "half", "double", "float16", "float32", "float64", "bfloat16"), "float"),
}
_OTHERS = re.compile(r"complex\d+|c(half|float|double)|float[468]_\w+|q?u?int[1-9]\w*|quint\d\w*|bits\d\w*")


def is_dtype(value: Value) -> bool:
    """Whether a value is one of torch's dtypes."""
    name = getattr(value, "name", "")
    tail = name.removeprefix("torch.")
    return bool(name != tail and (tail in _ELEMENTS or _OTHERS.fullmatch(tail)))


def element_of_dtype(value: Value) -> Element | None:
    """What is in a tensor of the dtype that a value is; None where it is no dtype, or one of complex numbers."""
    name = getattr(value, "name", "")
    return _ELEMENTS.get(name.rpartition(".")[2]) if name.startswith("torch.") else None
