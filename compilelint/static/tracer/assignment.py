"""Where a value is kept: variables, attributes, items, and what unpacking gives each of them."""

from __future__ import annotations

import ast

from compilelint.static.tracer import overloads
from compilelint.static.tracer.accessors import stores
from compilelint.static.tracer.expressions import evaluate, iterate
from compilelint.static.tracer.frame import Env, Frame, path_of
from compilelint.static.values import (
    UNKNOWN,
    Compiled,
    Const,
    ExternalInstance,
    Instance,
    Mapping,
    Sequence,
    Value,
    element_of,
    join,
    join_all,
    options,
)


def store(target: ast.expr, value: Value, frame: Frame) -> None:
    """Bind `value` to an assignment target."""
    if isinstance(target, ast.Name):
        known = target.id in frame.env
        frame.env[target.id] = value
        if known:
            _forget_below(target.id, frame.env)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(target.elts, value, frame)
    elif isinstance(target, ast.Starred):
        store(target.value, Sequence("list", None, value), frame)
    elif isinstance(target, ast.Attribute):
        _store_attribute(target, value, frame)
    elif isinstance(target, ast.Subscript):
        _store_item(target, value, frame)


def _unpack(targets: list[ast.expr], value: Value, frame: Frame) -> None:
    star = next((i for i, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    for target, part in zip(targets, parts(value, len(targets), star, frame), strict=True):
        store(target, part, frame)


def side_by_side(target: ast.expr, node: ast.expr, frame: Frame) -> list[tuple[ast.expr, Value]] | None:
    """What each target takes in `b, n, device = *x.shape, x.device`, where one starred item stands for several.

    The items before it and behind it have their places from either end. None for other assignments.
    """
    if not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(node, (ast.Tuple, ast.List)):
        return None
    several = [i for i, item in enumerate(node.elts) if isinstance(item, ast.Starred)]
    if len(several) != 1:
        return None
    before, behind = node.elts[: several[0]], node.elts[several[0] + 1 :]
    star = next((i for i, part in enumerate(target.elts) if isinstance(part, ast.Starred)), len(target.elts))
    if star == len(target.elts) < len(before) + len(behind):
        return None
    spread = node.elts[several[0]]
    inner = iterate(frame.kind(spread.value), frame) if isinstance(spread, ast.Starred) else UNKNOWN
    shares = [inner] * len(target.elts)
    last = min(len(behind), len(target.elts) - star - 1 if star < len(target.elts) else len(behind))
    for place, item in enumerate(before[:star]):
        shares[place] = frame.kind(item)
    for place, item in enumerate(behind[len(behind) - last :], start=len(target.elts) - last):
        shares[place] = frame.kind(item)
    if star < len(target.elts):
        shares[star] = join_all([inner, *map(frame.kind, [*before[star:], *behind[: len(behind) - last]])])
    return list(zip(target.elts, shares, strict=True))


def parts(value: Value, count: int, star: int | None, frame: Frame) -> list[Value]:
    """What each of `count` targets takes of a value that is unpacked; the one at `star`, what its list holds."""
    shares = [_shares(option, count, star, frame) for option in options(value)]
    return [join_all(share[position] for share in shares) for position in range(count)]


def _shares(value: Value, count: int, star: int | None, frame: Frame) -> list[Value]:
    items = value.items if isinstance(value, Sequence) else None
    if items is not None and star is None and len(items) == count:
        return list(items)
    if items is not None and star is not None and len(items) >= count - 1:
        end = len(items) - (count - 1 - star)
        return [*items[:star], join_all(items[star:end]), *items[end:]]
    if isinstance(value, Sequence) and value.head and star is None:
        return [*value.head[:count], *[iterate(value, frame)] * (count - len(value.head))]
    return [iterate(value, frame)] * count


def _store_attribute(target: ast.Attribute, value: Value, frame: Frame) -> None:
    owner = evaluate(target.value, frame)
    own = [option for option in options(owner) if isinstance(option, Instance)]
    left_to_class = [stores(option, target.attr, value, target, frame) for option in own]
    if left_to_class and all(left_to_class) and not frame.is_receiver(target.value):
        return  # what an object does to itself tells what its property gives, however that keeps it
    for option in options(owner):
        # Only what a class does to itself is kept with the object: an instance stands for many.
        if isinstance(option, Instance) and frame.is_receiver(target.value):
            frame.tracer.keep(option, target.attr, value)
        elif isinstance(option, Instance) and target.attr == "forward" and isinstance(value, Compiled):
            option.compiled = True
    key = path_of(target)
    if key is not None:
        frame.env[key] = value
        _forget_below(key, frame.env)


def _forget_below(path: str, env: Env) -> None:
    """Forget the attribute paths that start with `path`: it is another object now."""
    prefix = path + "."
    stale = [key for key in env if key.startswith(prefix)]
    for key in stale:
        del env[key]


def _store_item(target: ast.Subscript, value: Value, frame: Frame) -> None:
    owner = evaluate(target.value, frame)
    index = evaluate(target.slice, frame)
    if isinstance(owner, Mapping):
        if isinstance(index, Const) and len(owner.entries) < 64:
            entries = {**dict(owner.entries), index.value: value}
            store(target.value, Mapping(tuple(entries.items()), owner.element), frame)
        else:
            merged = value if owner.element == UNKNOWN else join(owner.element, value)
            store(target.value, Mapping(owner.entries, merged), frame)
    elif isinstance(owner, Sequence) and owner.form == "list":
        store(target.value, _with_item(owner, index, value), frame)
    elif isinstance(owner, ExternalInstance) and owner.name == "torch.nn.ModuleDict":
        store(target.value, ExternalInstance(owner.name, (*owner.items, value)[:32]), frame)
    else:
        overloads.store_item(owner, index, value, target, frame)


def _with_item(owner: Sequence, index: Value, value: Value) -> Sequence:
    """A list after `owner[index] = value`.

    Where nobody knows which item that is, each may be what it was or what is new about `value`: code that reads an item
    and writes it back (`args[i] = args[i] or default`) leaves the others what they are.
    """
    place = index.value if isinstance(index, Const) else None
    if owner.items is not None and isinstance(place, int) and -len(owner.items) <= place < len(owner.items):
        items = list(owner.items)
        items[place] = value
        return Sequence(owner.form, tuple(items))
    if owner.items and place is None and not isinstance(index, Sequence):
        known = [option for item in owner.items for option in options(item)]
        new = [option for option in options(value) if option is not UNKNOWN and option not in known]
        return Sequence(owner.form, tuple(join_all([item, *new]) for item in owner.items))
    inside = element_of(owner)
    return Sequence(owner.form, None, value if inside == UNKNOWN else join(inside, value))
