"""An attribute that compiled code reads and driving code sets between two calls compiles again for each value.

## What it does
Finds, in compiled code, the first read of a text, a list, a flag, or something that is None at times, where the code
that calls the compiled function gives it another value between two of its calls: directly, through a method or helper
it calls, or by entering a context manager. Of numbers it finds the comparison that asks about the value, or else the
first computation with it.

## Why it costs
Dynamo guards on what it read: the value of a text or flag, the length of a list, the exact number that was compared.
The next call finds another one and compiles the function again, in the middle of serving. A text, a list that gets
longer, or a number that is compared costs one compilation for each value, up to the recompile limit. A flag, what may
be None, a number that is only computed with and an object of another class cost one more in all, which a warm-up with
both hides: they are reported as possible only. Measured on torch 2.13.

## Write instead
Decide in the driving code: call another function, or compile one callable for each mode.

    with_adapter, without = torch.compile(model), torch.compile(base)      # not model.enabled = False between calls

A number goes into a tensor that is changed in place, `self.scale.fill_(…)`, or is passed as an argument. What is loaded
later is loaded before the first call, or the calls are warmed up again after loading.

## Limits
Only driving code in the project is seen. An int on a module that is counted on has a rule of its own, CL605.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.moving import moved_on
from compilelint.static.state import first_read, held, is_integer, is_module, own_nodes, used_at, written
from compilelint.static.values import NONE, Const, ExternalInstance, Instance, Mapping, Scalar, Sequence, Value, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Attribute,))
EACH, LENGTH = "for each new one", "whenever that changes"
"""How often it compiles again, where that is more than once."""

BAD = (
    Example(
        code="""\
from contextlib import contextmanager

import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(4, 4) for name in ("style", "toy", "pixel", "none")})
        self.active = "none"

    @contextmanager
    def using(self, name):
        self.active = name
        try:
            yield
        finally:
            self.active = "none"

    def forward(self, x):
        return self.layers[self.active](x)  # ~


def make():
    model = Adapted()
    compiled = torch.compile(model)

    def score(x):
        total = compiled(x)
        for name in model.layers:
            with model.using(name):
                total = total + compiled(x)
        return total

    return score
""",
        run="(make(), [(torch.ones(2, 4),) for _ in range(2)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.layers = nn.ModuleDict()
        self.active = []
        self.scale = {"default": 1.0}

    def add(self, name):
        self.layers[name] = nn.Linear(4, 4)
        self.active.append(name)

    def forward(self, x):
        y = self.base(x)
        for name in self.active:  # ~
            y = y + self.layers[name](x)
        scale = self.scale["default"]
        if scale == 1:  # ~
            return y
        return y * scale


class Service:
    def __init__(self):
        self.model = Adapted()
        self.model.compile()

    def load(self, name):
        self.model.add(name)

    def __call__(self, x, name, scale):
        self.load(name)
        self.model.scale["default"] = scale
        return self.model(x)
""",
        run="(Service(), [(torch.ones(2, 4), f'a{n}', 1.0 + n) for n in range(4)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, enabled=True):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.enabled = enabled
        self.last = None
        self.names = []

    def forward(self, x):
        y = self.base(x)
        return y * 2 if self.enabled and len(self.names) == 1 else y


class Service:
    def __init__(self):
        self.model = Adapted()
        self.model.enabled = False
        self.model.names.append("default")
        self.compiled = torch.compile(self.model)

    def __call__(self, x):
        self.model.enabled = False
        y = self.compiled(x)
        self.model.last = y
        return y
""",
        run="(Service(), [(torch.ones(2, 4),) for _ in range(3)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        # Floats become an input after one recompile.
        code="""\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.scale = 0.5

    def forward(self, x):
        return self.base(x) * self.scale


def make():
    model = Scaled()
    compiled = torch.compile(model)

    def serve(x, scale):
        model.scale = scale
        return compiled(x)

    return serve
""",
        run="(make(), [(torch.ones(2, 4), 0.5 + n) for n in range(4)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of what driving code changes, or the comparison with it."""
    place = view.changed(node) if isinstance(node, ast.Attribute) else None
    if place is None or not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    if first_read(node, view) is not node or any(True for _ in written(node, view.function)):
        return
    value = held(node, view)
    fixed = is_integer(value) and is_module(view.kind(node.value))
    if fixed and node.attr in moved_on(view.module):
        return  # CL605
    found = [(node, "its value", EACH)] if fixed else _guarded(node, value, view)
    for read, what, how in found:
        once = how not in (EACH, LENGTH)
        yield Hit(
            used_at(read, view),
            f"`{view.text(node)}` is set between calls of the compiled code ({view.where(place)}):"
            f" Dynamo guards on {what}, so this function compiles again {how}",
            "decide in the code that calls (one compiled function for each mode), pass a number as an argument, or warm"
            " up with every value",
            "possible" if once else "likely",
        )


def _guarded(node: ast.Attribute, value: Value, view: View) -> Iterator[tuple[ast.expr, str, str]]:
    """The expression that makes Dynamo guard on what is kept at `node`, on what, and how often it compiles again."""
    kinds = options(value)
    types = {kind.type for kind in kinds if isinstance(kind, (Const, Scalar))}
    if any(isinstance(kind, Sequence) and kind.form in ("list", "set", "tuple") for kind in kinds):
        yield node, "its length", LENGTH
    elif types & {"float", "int"} or any(map(_is_dict, kinds)):
        used = _used(node, view)
        compared = isinstance(used, ast.Compare)
        if used is not None:
            yield used, "its value", EACH if compared else "with the number as an input"
    elif "str" in types:
        yield node, "its value", EACH
    elif "bool" in types:
        yield node, "its value", "for the other side"
    elif NONE in kinds and len(kinds) > 1:
        yield node, "whether it is None", "when it is something"
    elif isinstance(value, Instance) and not value.is_module:
        yield node, "what class it is of", "for another one"


def _is_dict(value: Value) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, ExternalInstance) and value.name.endswith("defaultdict"))


def _used(node: ast.Attribute, view: View) -> ast.expr | None:
    """The first use of a number, or of an entry of a dict, also by a variable that is set to it; a comparison if any.

    A dict that is only iterated over, or asked for a key, tells nothing.
    """
    spellings: list[ast.expr] = [node]
    for statement in own_nodes(view.function):
        if isinstance(statement, ast.Assign) and _starts_with(statement.value, node):
            spellings += statement.targets
    compared = [
        part
        for part in own_nodes(view.function)
        if isinstance(part, ast.Compare)
        and not any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in part.ops)
        and any(_starts_with(side, spelling) for side in (part.left, *part.comparators) for spelling in spellings)
    ]
    if compared:
        return min(compared, key=lambda part: (part.lineno, part.col_offset))
    of_dict = any(map(_is_dict, options(held(node, view))))
    for part in own_nodes(view.function):
        if isinstance(part, ast.BinOp):
            for side in (part.left, part.right):
                is_number = not of_dict or not _starts_with(side, node) or isinstance(side, ast.Subscript)
                if is_number and any(_starts_with(side, spelling) for spelling in spellings):
                    return side
    return None


def _starts_with(node: ast.expr, place: ast.expr) -> bool:
    """Whether `node` is `place` or an entry of it."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return type(node) is type(place) and ast.unparse(node) == ast.unparse(place)
