"""`value[index]`: reading by subscript, by the kinds of value and index."""

from __future__ import annotations

import ast

from compilelint.static.tracer import attributes
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import (
    UNKNOWN,
    Array,
    Class,
    Const,
    External,
    ExternalInstance,
    Instance,
    Mapping,
    Method,
    Scalar,
    Sequence,
    Tensor,
    Value,
    element_of,
    join_all,
)


def read(owner: Value, index: Value, node: ast.Subscript, frame: Frame) -> Value:
    """What `owner[index]` gives."""
    if isinstance(owner, Tensor) and isinstance(index, Const) and isinstance(index.value, str):
        return UNKNOWN  # `meta["shape"]`: a dict, or what answers like one
    if isinstance(owner, (Tensor, Array)):
        rank = _rank_after(owner.rank, index, node.slice)
        if isinstance(owner, Tensor):
            return Tensor(owner.element, rank, owner.sure, owner.host)
        return Array(owner.element, rank)
    if isinstance(owner, Sequence):
        return _from_sequence(owner, index, node)
    if isinstance(owner, Mapping):
        return _from_mapping(owner, index)
    if isinstance(owner, ExternalInstance):
        return _from_container(owner, index, node)
    if isinstance(owner, Instance):
        return _from_instance(owner, index, node, frame)
    if isinstance(owner, (Class, External)):
        return owner  # a parametrised type, `list[Tensor]`
    if isinstance(owner, (Const, Scalar)) and owner.type == "str":
        return Scalar("str")
    return UNKNOWN


def _rank_after(rank: int | None, index: Value, node: ast.expr) -> int | None:
    """The rank left after indexing, where the index is made of integers and slices alone."""
    if rank is None:
        return None
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    kinds = index.items if isinstance(index, Sequence) and index.items is not None else (index,) * len(parts)
    for part, kind in zip(parts, kinds, strict=False):
        if isinstance(part, ast.Slice):
            continue
        if (
            (isinstance(kind, Const) and isinstance(kind.value, int) and not isinstance(kind.value, bool))
            or (isinstance(kind, Scalar) and kind.type == "int")
            or (isinstance(kind, Tensor) and kind.rank == 0)
        ):
            rank -= 1
        elif isinstance(kind, Const) and kind.value is None:
            rank += 1
        else:
            return None
    return max(rank, 0)


def _from_sequence(owner: Sequence, index: Value, node: ast.Subscript) -> Value:
    if isinstance(node.slice, ast.Slice):
        form = "tuple" if owner.form == "size" else owner.form
        items = _sliced(owner.items, node.slice) if owner.items is not None else _cut(owner.head, node.slice)
        return Sequence(form, items, element_of(owner) if items is None else UNKNOWN)
    if owner.head and isinstance(index, Const) and isinstance(index.value, int):
        return owner.head[index.value] if 0 <= index.value < len(owner.head) else element_of(owner)
    if owner.items is not None and isinstance(index, Const) and isinstance(index.value, int):
        try:
            return owner.items[index.value]
        except IndexError:
            return UNKNOWN
    return element_of(owner)


def _cut(head: tuple[Value, ...], node: ast.Slice) -> tuple[Value, ...] | None:
    """The items under `[:n]` or `[m:n]` of a tuple of which no more than its first items are known."""
    end = node.upper.value if isinstance(node.upper, ast.Constant) else None
    return _sliced(head, node) if isinstance(end, int) and 0 <= end <= len(head) else None


def _sliced(items: tuple[Value, ...], node: ast.Slice) -> tuple[Value, ...] | None:
    """The items under a slice with constant bounds."""
    bounds: list[int | None] = []
    for part in (node.lower, node.upper, node.step):
        if part is None:
            bounds.append(None)
            continue
        try:
            value = ast.literal_eval(part)
        except ValueError:
            return None
        if not isinstance(value, int):
            return None
        bounds.append(value)
    return items[slice(*bounds)] if bounds[2] != 0 else None


def _from_mapping(owner: Mapping, index: Value) -> Value:
    if isinstance(index, Const):
        for key, value in owner.entries:
            if key == index.value and type(key) is type(index.value):
                return value
        return owner.unlisted
    return element_of(owner)


def _from_container(owner: ExternalInstance, index: Value, node: ast.Subscript) -> Value:
    if not owner.items:
        return UNKNOWN
    if isinstance(node.slice, ast.Slice):
        return owner
    if (
        isinstance(index, Const)
        and isinstance(index.value, int)
        and -len(owner.items) <= index.value < len(owner.items)
    ):
        return owner.items[index.value]
    return join_all(owner.items)


def _from_instance(owner: Instance, index: Value, node: ast.Subscript, frame: Frame) -> Value:
    getter = attributes.get(owner, "__getitem__", frame)
    if getter != UNKNOWN and not isinstance(getter, Method):
        return frame.tracer.call(getter, (index,), {}, node, frame)
    # Dataclasses of the ModelOutput kind answer to names and positions alike.
    if isinstance(index, Const) and isinstance(index.value, str):
        found = attributes.get(owner, index.value, frame)
        return UNKNOWN if isinstance(found, Method) else found
    return join_all(owner.attributes.values()) if owner.attributes else UNKNOWN
