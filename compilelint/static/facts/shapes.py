"""Argument kinds -> the shapes under which the knowledge table keeps what Dynamo did with a call."""

from __future__ import annotations

from itertools import islice, product

from compilelint.knowledge.table import Fact, Probe
from compilelint.static.values import (
    Array,
    Class,
    Const,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Partial,
    Scalar,
    Sequence,
    Tensor,
    Value,
    element_of,
    options,
)

MAX_TRIES = 24
"""Shapes looked up for one call; arguments of several possible kinds multiply."""


def probe_of(fact: Fact, args: tuple[Value, ...], keywords: dict[str, Value], receiver: Value | None) -> Probe | None:
    """What torch did with a call of these argument kinds; None if none was tried that fits, or the tries disagree.

    An argument of unknown kind fits nothing: only an outcome that is the same for all shapes answers then.
    """
    settled = fact.settled
    if settled is not None:
        return settled
    if "*" in keywords or "**" in keywords:
        return None
    kinds = [*([] if receiver is None else [_receiver(receiver)]), *map(_kinds, args)]
    if not all(kinds):
        return None
    found = {fact.probes[shape] for shape in islice(_shapes(kinds), MAX_TRIES) if shape in fact.probes}
    return found.pop() if len(found) == 1 else None


def fits(shapes: frozenset[str], args: tuple[Value, ...], keywords: dict[str, Value], receiver: Value | None) -> bool:
    """Whether a call of these argument kinds may be one of `shapes`: what is unknown is taken for a tensor.

    Keywords are left out: those of the functions concerned are settings.
    """
    if "*" in keywords or "**" in keywords:
        return False
    kinds = [*([] if receiver is None else [_receiver(receiver)]), *map(_kinds, args)]
    kinds = [words or ["tensor"] for words in kinds]
    return any(shape in shapes for shape in islice(_shapes(kinds), MAX_TRIES))


def _receiver(value: Value) -> list[str]:
    """As `_kinds`, for what a method is called on: an object of the class that has the method is tried as `self`."""
    return ["self"] if isinstance(value, ExternalInstance) else _kinds(value)


def _shapes(kinds: list[list[str]]) -> list[str]:
    if not kinds:
        return ["none"]
    return [",".join(parts) for parts in product(*kinds)]


def _kinds(value: Value) -> list[str]:
    """The shape words that describe a value, most exact first; empty if its kind is not known."""
    found: list[str] = []
    for option in options(value):
        words = _words(option)
        if not words:
            return []
        found.extend(word for word in words if word not in found)
    return found


def _words(value: Value) -> list[str]:
    if isinstance(value, Tensor):
        base = "tensor0d" if value.rank == 0 else "tensor"
        exact = f"{base}:{value.element}" if value.element in ("int", "bool") else base
        return [exact, base] if base == "tensor" or exact == base else [exact, base, "tensor"]
    if isinstance(value, Array):
        return [f"array:{value.element}", "array"] if value.element in ("int", "bool") else ["array"]
    if isinstance(value, Const):
        return ["None"] if value.value is None else [value.type]
    if isinstance(value, Scalar):
        return [value.type] if value.type in ("int", "float", "bool", "str") else []
    if isinstance(value, Sequence):
        return _sequence_words(value)
    if isinstance(value, Mapping):
        return ["dict"]
    if isinstance(value, (Function, Partial, Class)):
        return ["callable"]
    if isinstance(value, (Instance, ExternalInstance)):
        return ["module" if isinstance(value, Instance) and value.is_module else "object"]
    return []


def _sequence_words(value: Sequence) -> list[str]:
    inner = element_of(value)
    if value.form in ("tuple", "size"):
        return ["tuple"]
    if isinstance(inner, Tensor):
        return ["list[tensor]"]
    if isinstance(inner, (Const, Scalar)) and inner.type == "str":
        return ["list[str]"]
    return ["list"]
