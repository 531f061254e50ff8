"""A message of `torch._check` that Dynamo cannot work out while it traces splits the graph, though the check holds.

## What it does
Finds `torch._check`, `torch._check_value`, `torch._check_type`, `torch._check_index` and `torch._check_not_implemented`
with a message that is a string, or a function that reads a tensor, a module or another object from around it:
`lambda: f"got {x.shape}"`, `lambda: f"expected {self.dim}"`.

## Why it costs
Dynamo puts the check into the graph together with its message, and asks for that when it traces, whether or not the
check fails. It calls a function that needs nothing from around it or only numbers, texts, sizes and containers of them;
a tensor or an object it cannot turn into something to call with, and the graph splits (GB ids "Can't convert
torch._check*() message closure", "Can't extract message from torch._check*()"). `fullgraph=True` raises.

## Write instead
Take what the message needs out before, so that the function closes over plain values:

    shape = x.shape
    torch._check(x.dim() == 2, lambda: f"expected a matrix, got {shape}")

## Limits
torch 2.14 takes a string; torch 2.11 takes no message that reads anything around it, and of the checks only
`torch._check`. A size that varies becomes a symbol, which a message cannot show either: there only a text without
it compiles. Functions that nothing in the project compiles are left alone: most that check like this are fake kernels
of operators, which Dynamo does not trace.

## References
PyTorch documentation, `torch._check`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.objects import is_object
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import loads, own_names, own_statements, written
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import UNKNOWN, Mapping, Sequence, Tensor, Value, constant, tensor_certainty

HAZARD = "graph-break"
CHECKS = frozenset(f"torch._check{which}" for which in ("", "_value", "_type", "_index", "_not_implemented"))
WATCH = Watch(nodes=(ast.Call,), callees=CHECKS.__contains__)
TAKES_TEXT = (2, 14)
CLOSES_OVER_VALUES = (2, 12)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per check whose message breaks, at the check."""
    if not isinstance(node, ast.Call) or view.callee(node) not in CHECKS or view.assumed:
        return
    message = view.argument(node, 1, "message")
    if message is None or not node.args or view.kind(node.args[0]) == constant(False):
        return
    if _is_text(message):
        if view.torch < TAKES_TEXT:
            yield Hit(
                node,
                f"the message of `{view.text(node)}` is a string, where Dynamo expects a function: it splits the graph"
                " here, whether the check holds or not",
                _as_function(message, view),
            )
        return
    function = _function_of(message, view)
    read = next(_read_around(function, view), None) if function is not None else None
    if read is not None:
        name, what, confidence = read
        yield Hit(
            node,
            f"the message of `{view.text(node)}` reads `{name}`, {what}: Dynamo cannot work it out while tracing and"
            " splits the graph here, whether the check holds or not",
            f"take what it shows of `{name}` into a variable before (`shape = x.shape`, `dim = self.dim`), and let the"
            " message read that"
            if view.torch >= CLOSES_OVER_VALUES
            else 'give it a text that reads nothing from around it: `lambda: "expected a matrix"`',
            confidence,
        )
    elif view.torch < CLOSES_OVER_VALUES and view.callee(node) != "torch._check":
        yield Hit(
            node,
            f"this torch does not trace `{view.callee(node)}` with a message: the graph splits here",
            "use `torch._check`, with a text that reads nothing from around it",
        )


def _as_function(message: ast.expr, view: View) -> str:
    """How to write a text as a function; what it reads that a function may not, has to be taken out before."""
    told = f"make it a function that reads plain values only: `lambda: {view.text(message)}`"
    parts = [part for part in ast.walk(message) if isinstance(part, ast.Name)]
    bad = sorted({part.id for part in parts if part.id == "self" or _unreadable(view.kind(part), view) is not None})
    return f"{told}, with what it shows of `{bad[0]}` in a variable (`shape = x.shape`)" if bad else told


def _is_text(message: ast.expr) -> bool:
    return isinstance(message, ast.JoinedStr) or (isinstance(message, ast.Constant) and isinstance(message.value, str))


def _function_of(message: ast.expr, view: View) -> ast.Lambda | ast.FunctionDef | None:
    """The function written here that gives the message: a lambda, or one defined in this function."""
    if isinstance(message, ast.Lambda):
        return message
    for statement in own_statements(view.function) if isinstance(message, ast.Name) else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == last_name(message):
            return statement
    return None


def _read_around(function: ast.Lambda | ast.FunctionDef, view: View) -> Iterator[tuple[str, str, Confidence]]:
    """The variables around a function that its message cannot show: name, what it is, how sure that is."""
    outer = own_names(view.function) - own_names(function)
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    read = {part.id for statement in body for part in nodes_in(statement) if isinstance(part, ast.Name)}
    for name in sorted(read & outer):
        found = _unreadable(_kind_at(name, function, view), view)
        if found is not None:
            yield name, *found
        elif name == "self" and "." in view.qualname:
            yield name, "an object", "certain"
        elif view.torch < CLOSES_OVER_VALUES:
            yield name, "a variable around it", "certain"


def _kind_at(name: str, function: ast.AST, view: View) -> Value:
    """What a variable holds where the function that reads it is written."""
    line = function.lineno  # type: ignore[attr-defined]
    bound = [(statement.lineno, value) for statement, value in written(ast.Name(name, ast.Load()), view.function)]
    since, value = max((each for each in bound if each[0] < line), key=lambda each: each[0], default=(0, None))
    uses = [use for use in loads(name, view.function) if use.lineno > since and view.reached(use)]
    if uses and (uses[0].lineno <= line or value is None):
        return view.kind(uses[0])
    return UNKNOWN if value is None else view.kind(value)


def _unreadable(kind: Value, view: View) -> tuple[str, Confidence] | None:
    """What a value is that a message cannot show, and how sure that is."""
    certainty = _tensors(kind)
    if certainty is not None:
        return "a tensor" if isinstance(kind, Tensor) else "which may hold a tensor", certainty
    return ("an object", "certain") if is_object(kind, view) else None


def _tensors(value: Value) -> Confidence | None:
    """How sure it is that a value is a tensor, or a list, tuple or dict with one."""
    parts = [value]
    if isinstance(value, Sequence) and value.form != "size":
        parts = [value.element] if value.items is None else list(value.items)
    elif isinstance(value, Mapping):
        parts = [value.element, *(entry for _, entry in value.entries)]
    return next((found for part in parts if (found := tensor_certainty(part)) is not None), None)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.width = width
        self.proj = nn.Linear(width, 2)

    def forward(self, x):
        torch._check(x.dim() == 2, lambda: f"expected a matrix, got {tuple(x.shape)}")  # ~
        x = x * 2
        torch._check_value(x.shape[-1] == self.width, lambda: f"expected {self.width} features")  # ~
        return self.proj(x)
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Pair(nn.Module):
    def forward(self, a, b):
        return pair(a, b)


def pair(a: torch.Tensor, b: torch.Tensor):
    a = a + 1

    def differ():
        return f"{a.dtype} and {b.dtype}"

    torch._check_type(a.dtype == b.dtype, differ)  # ~
    parts = {"a": a}
    torch._check(a.dim() == b.dim(), lambda: f"{len(parts)} part")  # ~
    return a + b
""",
        run="(Pair(), [(torch.ones(2), torch.ones(2))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Norm(nn.Module):
    def forward(self, x, width: int = 4):
        x = x * 2
        torch._check(x.shape[-1] == width, f"expected {width} features")  # ~
        return x / width
""",
        run="(Norm(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
from typing import NamedTuple

import torch
from torch import nn


class Limits(NamedTuple):
    low: int
    high: int


class Head(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.width = width
        self.proj = nn.Linear(width, 2)

    def forward(self, x, mask=None):
        shape, width = tuple(x.shape), self.width
        torch._check(x.dim() == 2)
        torch._check(x.dim() == 2, lambda: "expected a matrix")
        torch._check_value(shape[-1] == width, lambda: f"expected {width} features, got {shape}")
        torch._check_type(x.is_floating_point(), lambda dtype=x.dtype: f"expected floats, got {dtype}")
        torch._check(mask is None, lambda: f"no mask is taken, got {mask}")
        limits = Limits(0, width)
        torch._check(x.dim() < 3, lambda: f"at most {limits.high}")
        if x.dim() != 2:
            torch._check(False, lambda: f"expected a matrix, got {x.shape}")
        found = self.proj(x)
        kept = found * 2
        found = tuple(found.shape)
        torch._check(kept.dim() == 2, lambda: f"a matrix is due, not {found}")
        return self.proj(x)
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


def meta_norm(x: torch.Tensor, width: int = 4):
    torch._check(x.shape[-1] == width, lambda: f"expected {width} features, got {x.shape}")
    return torch.empty_like(x)
""",
    ),
)
