"""A counter on an object that is no module compiles again once, and once more for each comparison with it.

## What it does
Finds, in a compiled method of a class that is no `torch.nn.Module` (a scheduler, a solver, a cache), the first read of
an attribute that the method counts on, `self.step_index += 1`, and comparisons with it. A property that returns the
attribute is seen through.

## Why it costs
The first compilation keeps the number as a constant, `self._step_index == 0`. The second call fails that guard and
compiles the method again, now with the number as a symbol, which fits all later calls as long as nobody asks about it:
each `if self.step_index == n` is guarded with the side it took, and compiles again when the answer changes. Behind a
graph break all of this happens a second time. Measured on torch 2.13: two compilations, three with one comparison. On a
module, or an object that a module keeps, the number stays a constant and every call compiles (CL601).

## Write instead
Count in the loop that calls the method and pass the count in, as a tensor where it is only used in arithmetic; or keep
it in a 0-d tensor that is changed in place, and index with `index_select`.

## Limits
Two warm-up calls cover the first recompile. Attributes of objects that are handed in are not looked at: they may be
others at each call. Where no number becomes a symbol, as under `dynamic=False`, CL601 speaks.

## References
PyTorch documentation "Dynamic shapes", on specialization of ints.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.counting import is_restored
from compilelint.static.facts.state import (
    class_node,
    first_read,
    held,
    of_module_or_global,
    own_nodes,
    same_place,
    written,
)
from compilelint.static.values import tensors_in

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.AugAssign,))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """The first read of what `node` counts on, and every comparison with it."""
    if not isinstance(node, ast.AugAssign) or not isinstance(node.op, (ast.Add, ast.Sub)) or not view.same_self:
        return
    place = node.target
    if not (isinstance(place, ast.Attribute) and ast.unparse(place.value) == "self"):
        return
    if view.keeps("int") or _starts_over(place, node, view):
        return
    if of_module_or_global(place, view) and not is_restored(place, node, view):
        return  # CL601 tells that each call compiles again
    if not _is_number(node.value) or tensors_in(held(place, view)):
        return
    spellings = [place, *_properties(place, view)]
    reads = [first_read(spelling, view) for spelling in spellings]
    first = min(reads, key=lambda read: (read.lineno, read.col_offset))
    compared = [part for part in own_nodes(view.function) if _compares(part, spellings)]
    yield Hit(
        first,
        f"`{view.text(place)}` counts the calls (line {node.lineno}): Dynamo keeps its first value as a constant and"
        " compiles again on the second call",
        "count in the calling loop and pass the count in, or keep it in a tensor that is changed in place",
        "likely",
    )
    for comparison in compared:
        if isinstance(comparison, ast.Compare) and first not in ast.walk(comparison):
            yield Hit(
                comparison,
                f"`{view.text(comparison)}` asks about a number that each call moves on: Dynamo guards on the answer"
                " and compiles again when it changes",
                "decide it in the calling loop, or compute both and pick with `torch.where`",
                "likely",
            )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _starts_over(place: ast.Attribute, step: ast.AugAssign, view: View) -> bool:
    """Whether every call also stores the number some other way, and not only on some path."""
    body = getattr(view.function, "body", [])
    return any(statement is not step and statement in body for statement, _ in written(place, view.function))


def _properties(place: ast.Attribute, view: View) -> Iterator[ast.Attribute]:
    """`self.index` for `self._index`, where a property of the class returns that."""
    owner = class_node(view.kind(place.value), view)
    for method in owner.body if owner is not None else ():
        if isinstance(method, ast.FunctionDef) and _gives(method, place):
            yield ast.Attribute(place.value, method.name, ast.Load(), lineno=place.lineno, col_offset=place.col_offset)


def _gives(method: ast.FunctionDef, place: ast.Attribute) -> bool:
    """Whether a method is a property that returns what is kept at `place`."""
    last = method.body[-1]
    returned = last.value if isinstance(last, ast.Return) else None
    is_property = any(ast.unparse(decorator) == "property" for decorator in method.decorator_list)
    return is_property and isinstance(returned, ast.Attribute) and same_place(returned, place)


def _compares(node: ast.AST, spellings: list[ast.Attribute]) -> bool:
    """Whether a comparison with something else than None has the number on one side."""
    if not isinstance(node, ast.Compare) or isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return False
    sides = [side for side in (node.left, *node.comparators) if isinstance(side, ast.Attribute)]
    return any(same_place(side, spelling) for side in sides for spelling in spellings)


BAD = (
    Example(
        code="""\
import torch


class Sampler:
    def __init__(self, steps=8):
        self.sigmas = torch.linspace(1.0, 0.0, steps + 1)
        self.steps = steps
        self._index = 0

    @property
    def index(self):
        return self._index

    def step(self, x, noise: torch.Tensor):
        dt = self.sigmas[self.index + 1] - self.sigmas[self.index]  # ~
        x = x + noise * dt
        if self.index < 2:  # ~
            x = x + 0.1 * noise
        self._index += 1
        return x


advance = torch.compile(Sampler().step)
""",
        run="(advance, [(torch.ones(2), torch.ones(2)) for _ in range(5)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # Each call starts to count anew.
        code="""\
import torch


class Window:
    def __init__(self):
        self.seen = 0

    def begin(self):
        self.seen = 0

    def weight(self, x):
        self.seen += 1
        return x / self.seen


class Scheduler:
    def __init__(self):
        self.window = Window()

    def step(self, x):
        self.window.begin()
        for _ in range(2):
            x = self.window.weight(x)
        return x
""",
        run="Scheduler().step, [(torch.ones(2),) for _ in range(4)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


class Sampler:
    def __init__(self, steps=8):
        self.sigmas = torch.linspace(1.0, 0.0, steps + 1)
        self.calls = 0
        self.index = torch.zeros(1, dtype=torch.long)

    def step(self, x, noise: torch.Tensor):
        dt = self.sigmas.index_select(0, self.index + 1) - self.sigmas.index_select(0, self.index)
        self.index += 1
        self.calls = 1
        return x + noise * dt


advance = torch.compile(Sampler().step)
""",
        run="(advance, [(torch.ones(2), torch.ones(2)) for _ in range(5)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
