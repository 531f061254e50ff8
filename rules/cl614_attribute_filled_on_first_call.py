"""An attribute that compiled code fills in on its first call makes the second call compile again.

## What it does
Finds `if self.table is None: self.table = …`, `if not self.ready: …; self.ready = True` and `if not hasattr(self,
"table"): self.table = …` in compiled code, on a module or on the object whose method is compiled.

## Why it costs
The first call is compiled with the branch that fills the attribute, and guarded on it being unset. The second call
finds it set and compiles the function a second time; only then is it ready. A model of minutes of compile time takes
twice as long to warm up, and a warm-up of a single call leaves the wait to the first user. Measured on torch 2.13.

## Write instead
Fill it in `__init__`, or in a method that is called before the model is compiled; what depends on the input's size
is made for the largest one and sliced.

    self.register_buffer("table", self.build_table(max_length))

## Limits
Two warm-up calls cover it. An attribute that other code sets before the first call is filled already, which is not
known here.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import class_node, held, is_same_object_next_call, written
from compilelint.static.values import NONE, Const, Mapping, Sequence, Value, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.If,))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the test for an attribute that its branch fills in."""
    if not isinstance(node, ast.If):
        return
    for test in node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]:
        place = _asked_for(test)
        if place is None or not is_same_object_next_call(place, view) or not _is_filled(place, node):
            continue
        if view.assumed or not _starts_unset(test, place, view) or _is_emptied(place, view):
            continue
        yield Hit(
            test,
            f"`{view.text(place)}` is unset on the first call and filled in here: Dynamo guards on that, so the second"
            " call compiles the function again",
            "fill it in `__init__`, or before the model is compiled",
            "likely",
        )
        return


def _asked_for(test: ast.expr) -> ast.Attribute | None:
    """The attribute that `self.x is None`, `not self.x` or `not hasattr(self, "x")` finds unset."""
    asked: ast.expr | None = None
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is):
        is_none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        asked = test.left if is_none else None
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        asked = _of_hasattr(test.operand) or test.operand
    return asked if isinstance(asked, ast.Attribute) else None


def _of_hasattr(node: ast.expr) -> ast.Attribute | None:
    """`self.x` for `hasattr(self, "x")`."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr" and len(node.args) == 2):
        return None
    name = node.args[1]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        return None
    return ast.Attribute(node.args[0], name.value, ast.Load(), lineno=node.lineno, col_offset=node.col_offset)


def _is_filled(place: ast.Attribute, branch: ast.If) -> bool:
    """Whether the branch stores something else than None, False or an empty container there."""
    body = ast.Module(branch.body, [])
    return any(
        value is not None and not (isinstance(value, ast.Constant) and not value.value)
        for statement, value in written(place, body)
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
    )


def _starts_unset(test: ast.expr, place: ast.Attribute, view: View) -> bool:
    """Whether a new object is one that the test finds unset."""
    if isinstance(test, ast.UnaryOp) and _of_hasattr(test.operand) is not None:
        owner = class_node(view.kind(place.value), view)
        return owner is not None and not any(any(True for _ in written(place, made)) for made in _constructors(owner))
    first = options(_first_value(place, view))
    if isinstance(test, ast.Compare):
        return any(option == NONE for option in first)
    return any(
        (isinstance(option, Const) and not option.value)
        or (isinstance(option, Sequence) and option.items == ())
        or (isinstance(option, Mapping) and not option.entries)
        for option in first
    )


def _first_value(place: ast.Attribute, view: View) -> Value:
    """What `__init__` stores, as far as that is one constant; else what is kept there over all calls."""
    owner = class_node(view.kind(place.value), view)
    for made in _constructors(owner) if owner is not None else ():
        stored = [value for _, value in written(place, made)]
        if stored and isinstance(stored[0], ast.Constant):
            return Const(stored[0].value)
    return held(place, view)


def _constructors(owner: ast.ClassDef) -> list[ast.FunctionDef]:
    return [part for part in owner.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]


def _is_emptied(place: ast.Attribute, view: View) -> bool:
    """Whether the function itself unsets the attribute too, so that every call begins alike."""
    return any(
        value is None or (isinstance(value, ast.Constant) and not value.value)
        for _, value in written(place, view.function)
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.dim = dim
        self.table = None
        self.checked = False

    def forward(self, x):
        if self.table is None:  # ~
            self.table = torch.arange(self.dim, dtype=x.dtype)
        if not self.checked:  # ~
            x = x.clamp(-8, 8)
            self.checked = True
        return self.proj(x) + self.table
""",
        run="(Positions(), [(torch.ones(2, 4),) for _ in range(3)])",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        if not hasattr(self, "table"):  # ~
            self.table = torch.arange(x.shape[-1], dtype=x.dtype)
        return self.proj(x) + self.table
""",
        run="(Positions(), [(torch.ones(2, 4),) for _ in range(3)])",
        default="recompile",
        fullgraph="recompile",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, dim=4, scale=None):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.scale = scale
        self.register_buffer("table", torch.arange(dim, dtype=torch.float))
        self.last = None

    def forward(self, x, mask=None):
        if self.scale is None:
            x = x * 2
        if mask is None:
            mask = x > 0
        if self.training and self.last is None:
            x = x + 1
        return (self.proj(x) + self.table) * mask
""",
        run="(Positions(), [(torch.ones(2, 4),) for _ in range(3)])",
        default="clean",
        fullgraph="clean",
    ),
)
