"""A dict that outlives the call and gets new keys or new numbers in compiled code recompiles for each of them.

## What it does

Finds `self.table[key] = value` and `CACHE[kind] = …` in compiled code, under a key that is not fixed, where the dict
lives on a module or in a global; and, in the same function, the `key in table` or `table.get(key)` that looks it up. A
key may be a text, a size, or several.

## Why it costs

Dynamo guards on the keys of a dict it touches and on the numbers and strings in it. A new key, or a running total
stored under an old one, fails the guard of the next call. Measured on torch 2.13: a table that is filled on first use
compiles once more for every new string key (7 of 8 calls), and a per-name total compiles on every call until the
recompile limit, 8.

## Write instead

- Fill the table before the first compiled call, for all keys, or key it by something that is known in `__init__`.
- Keep running totals in the calling code, or as tensors in buffers.

## Limits

Keys that are fixed for an object or a device (`"last"`, `self.layer_index`, `str(x.device)`), or that a loop takes from
attributes or a range of constants, cost one recompile and are not reported.

## References

PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import (
    held,
    is_same_object_next_call,
    names_in,
    own_names,
    own_nodes,
    root_of,
    same_place,
    without_alias,
)
from compilelint.static.values import Const, ExternalInstance, Mapping, Value, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Assign,), syntax=lambda node, module: _entry(node) is not None)
DICTS = frozenset({"collections.OrderedDict", "collections.defaultdict"})
PASSING_ON = frozenset({"range", "enumerate", "zip", "list", "tuple", "sorted", "reversed", "len"})
"""What gives the same when it is given the same."""
FIXED = frozenset({"device", "dtype", "ndim", "training"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the look-up that meets the changing keys, and the store where what is stored depends on what was there."""
    target = _entry(node)
    if target is None:
        return
    place = without_alias(target.value, view)
    if not is_same_object_next_call(place, view) or not _is_dict(held(place, view)):
        return
    tests, gets = _lookups(target.value, view)
    runs = not tests and _is_running(node, gets, view)
    if not runs and _fixed(target.slice, view):
        return
    name, key = view.text(place), view.text(target.slice)
    for lookup in (tests or gets)[:1]:
        yield Hit(
            lookup,
            f"`{name}` is looked up here and line {target.lineno} adds to it: Dynamo guards on its keys, so each"
            f" new `{key}` compiles again",
            f"fill `{name}` for every key before the first compiled call, or look it up in the calling code",
            confidence="possible" if view.assumed else "likely",
        )
    if runs or not (tests or gets):
        yield Hit(
            target,
            f"`{name}[{key}]` gets a new value in compiled code: Dynamo guards on the keys of `{name}` and on the"
            " numbers in it, so a new one compiles again",
            f"update `{name}` in the calling code, or keep the number in a buffer",
            confidence="possible" if view.assumed else "likely",
        )


def _entry(node: ast.AST) -> ast.Subscript | None:
    """The entry that a statement sets, `d[key]`, perhaps beside a variable."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    entries = [target for target in targets if isinstance(target, ast.Subscript)]
    sliced = any(isinstance(part, ast.Slice) for entry in entries for part in ast.walk(entry.slice))
    return entries[0] if entries and not sliced else None


def _is_running(store: ast.AST, gets: list[ast.expr], view: View) -> bool:
    """Whether what is stored is computed from what `.get` returned: a count or a total, which is new at each call."""
    assert isinstance(store, ast.Assign)
    stored = {part.id for part in ast.walk(store.value) if isinstance(part, ast.Name)}
    for node in own_nodes(view.function):
        if isinstance(node, ast.Assign) and node.value in gets:
            names = {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            if names & stored:
                return True
    return any(part in gets for part in ast.walk(store.value))


def _is_dict(value: Value) -> bool:
    return all(
        isinstance(option, Mapping) or (isinstance(option, ExternalInstance) and option.name in DICTS)
        for option in options(value)
    )


def _fixed(key: ast.expr, view: View) -> bool:
    """Whether the key is the same for every call of one object on one device."""
    if all(isinstance(view.kind(part), Const) for part in (key.elts if isinstance(key, ast.Tuple) else [key])):
        return True
    parts = [part for part in ast.walk(key) if isinstance(part, (ast.Name, ast.Attribute))]
    if any(isinstance(part, ast.Attribute) and part.attr in FIXED for part in parts):
        return True
    if any(isinstance(part, ast.Name) and part.id in FIXED for part in parts):
        return True
    root = root_of(key)
    return isinstance(root, ast.Name) and (root.id == "self" or _runs_through_fixed(root, view))


def _runs_through_fixed(name: ast.Name, view: View) -> bool:
    """Whether a variable runs through the same values at each call: of attributes, or of a range of constants."""
    loops = [node for node in own_nodes(view.function) if isinstance(node, ast.For)]
    around = [loop for loop in loops if name.id in names_in(loop.target)]
    return len(around) == 1 and all(
        part == "self" or (part in PASSING_ON and part not in own_names(view.function))
        for part in names_in(around[0].iter)
    )


def _lookups(container: ast.expr, view: View) -> tuple[list[ast.expr], list[ast.expr]]:
    """Where the function asks for a key: the `key in container` tests, and the `container.get(key)` calls."""
    tests: list[ast.expr] = []
    gets: list[ast.expr] = []
    for node in own_nodes(view.function):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            tests += [node] if same_place(node.comparators[0], container) else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            gets += [node] if same_place(node.func.value, container) else []
    return tests, gets


BAD = (
    Example(
        code="""
import torch
from torch import nn

TABLES = {}


def table(kind, size):
    if kind not in TABLES:  # ~
        TABLES[kind] = torch.arange(size).float()
    return TABLES[kind]


class Layer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, kind):
        return self.proj(x) * table(kind, x.shape[-1])
""",
        run='Layer(), [(torch.ones(2, 4), kind) for kind in ("a", "b", "c")]',
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""
import torch
from torch import nn


class Metered(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.totals = {}

    def count(self, name, rows):
        seen = self.totals.get(name, 0)  # ~
        self.totals[name] = seen + rows  # ~

    def forward(self, x, name):
        self.count(name, x.shape[0])
        return self.proj(x)
""",
        run='Metered(), [(torch.ones(2, 4), "train") for _ in range(3)]',
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        # A size in a key is pinned to its value.
        code="""
import torch
from torch import nn


class Anchors:
    def __init__(self):
        self.tables = {}

    def get(self, h, w):
        size = (h, w)
        found = self.tables.get(size)  # ~
        if found is None:
            found = self.tables[size] = torch.arange(h * w).view(h, w).float()
        return found


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(1, 1, 1)
        self.anchors = Anchors()
        self.masks = {}

    def forward(self, x):
        h, w = x.shape[-2:]
        if (h, w) not in self.masks:  # ~
            self.masks[h, w] = torch.ones(h, w)
        return self.proj(x) * self.masks[h, w] + self.anchors.get(h, w)
""",
        run="Head(), [(torch.ones(1, 1, n, n + 1),) for n in range(2, 6)]",
        default="recompile",
        fullgraph="recompile",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, index, dim=4):
        super().__init__()
        self.index = index
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, cache):
        h = self.proj(x)
        cache[self.index] = h
        return h


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention(i) for i in range(3))

    def forward(self, x):
        cache = {}
        for layer in self.layers:
            x = layer(x, cache)
        return x, cache
""",
        run="Model(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # The key is fixed once the device is: this compiles a second time, and no more.
        code="""
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.dim = dim
        self.tables = {}
        self.names = ("low", "high")

    def forward(self, x):
        for index, name in enumerate(self.names):
            self.tables[name] = x * index
        if str(x.device) not in self.tables:
            self.tables[str(x.device)] = torch.arange(self.dim, device=x.device).float()
        if ("shift", 1) not in self.tables:
            self.tables["shift", 1] = torch.ones(self.dim)
        return x * self.tables[str(x.device)] + self.tables["shift", 1]
""",
        run="Rotary(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="recompile",
        fullgraph="recompile",
    ),
)
