"""Functions that Python's own code is handed and asks about each item: the key of a sort, the test of a filter."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from compilelint.static.tracer import attributes
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import NONE, UNKNOWN, Sequence, Value, join, join_all, options

Args = tuple[Value, ...]
Keywords = Mapping[str, Value]


def items_of(iterable: Value, frame: Frame) -> Value:
    """What iterating over a value gives."""
    return join_all(attributes.iterate(option, frame) for option in options(iterable))


def ask(function: Value, item: Value, node: ast.AST | None, frame: Frame) -> None:
    """Walk `function(item)`, and note for the rules about the call `node` what it gives back."""
    if function == NONE or node is None:
        return
    answer = frame.tracer.call(function, (item,), {}, node, frame)
    known = frame.handed_back.get(node)
    frame.handed_back[node] = answer if known is None else join(known, answer)


def ordered(item: Value, keywords: Keywords, node: ast.AST | None, frame: Frame) -> None:
    """Walk the `key` of `sorted(items, key=…)` and the like, whose items are each like `item`."""
    ask(keywords.get("key", NONE), item, node, frame)


def sort(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`sorted(items, key=…)`."""
    if not args:
        return UNKNOWN
    item = items_of(args[0], frame)
    ordered(item, keywords, node, frame)
    return Sequence("list", None, item)


def choose(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`filter(test, items)`, and what `itertools` has like it."""
    if len(args) < 2:
        return UNKNOWN
    item = items_of(args[1], frame)
    ask(args[0], item, node, frame)
    return Sequence("iterator", None, item)


def largest(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`heapq.nlargest(n, items, key=…)`."""
    return sort(args[1:2], keywords, node, frame)


def group(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`itertools.groupby(items, key)`."""
    if not args:
        return UNKNOWN
    item = items_of(args[0], frame)
    ask(args[1] if len(args) > 1 else keywords.get("key", NONE), item, node, frame)
    key = frame.handed_back.get(node, item) if node is not None else item
    return Sequence("iterator", None, Sequence("tuple", (key, Sequence("iterator", None, item))))


def spread(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`itertools.starmap(function, tuples)`."""
    if len(args) < 2:
        return UNKNOWN
    found = [
        frame.tracer.call(args[0], option.items, {}, node, frame)
        for option in options(items_of(args[1], frame))
        if isinstance(option, Sequence) and option.items is not None
    ]
    return Sequence("iterator", None, join_all(found) if found else UNKNOWN)


def accumulate(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`itertools.accumulate(items, function)`."""
    if not args:
        return UNKNOWN
    item = items_of(args[0], frame)
    function = args[1] if len(args) > 1 else keywords.get("func", NONE)
    found = item if function == NONE else frame.tracer.call(function, (item, item), {}, node, frame)
    return Sequence("iterator", None, join(item, found))
