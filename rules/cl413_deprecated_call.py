"""Calling what is marked `@deprecated` splits the graph.

## What it does
Finds calls, in code that Dynamo traces, of functions, methods and classes with the decorator `deprecated` of
`warnings` or `typing_extensions`.

## Why it costs
The decorator puts a function around the marked one that calls `warnings.warn` on every call. That is C code which
Dynamo does not call (GB0007): the graph ends at the call, whether the warning is shown or filtered.

## Write instead
Call what replaces the deprecated function. Where the old name must stay, keep it out of the compiled path: give the
work a function of its own and let both call that.

    def _scaled(x):
        return x * 2

    @deprecated("use Scale")
    def scaled(x):
        return _scaled(x)

## Limits
`@deprecated(..., category=None)` only marks and is traced. A decorator of that name that the project defines itself is
looked into like other code. Measured on torch 2.13.

## References
Python documentation: `warnings.deprecated`. GB0007.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Class, Function, Value, options

HAZARD = "graph-break"
MARKS = frozenset({"warnings.deprecated", "typing_extensions.deprecated"})
WATCH = Watch(
    nodes=(ast.Call,),
    kinds=lambda kind: isinstance(kind, (Function, Class)) and _may_be_deprecated(kind.ref.node),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call of something that is deprecated, whatever it is."""
    if isinstance(node, ast.Call) and all(_warns(option, view) for option in options(view.kind(node.func))):
        yield Hit(
            node,
            f"`{view.text(node.func)}` is marked `@deprecated` and warns on each call, which Dynamo does not trace: the"
            " graph splits here, whether the warning is shown or not",
            "call what replaces it, or the undecorated function that does its work",
        )


def _warns(kind: Value, view: View) -> bool:
    return any(
        name in MARKS and isinstance(decorator, ast.Call) and not _is_quiet(decorator)
        for name, decorator in view.decorators(kind)
    )


def _may_be_deprecated(node: ast.AST) -> bool:
    given = [decorator.func for decorator in getattr(node, "decorator_list", ()) if isinstance(decorator, ast.Call)]
    return any(ast.unparse(name).endswith("deprecated") for name in given)


def _is_quiet(decorator: ast.Call) -> bool:
    given = [keyword.value for keyword in decorator.keywords if keyword.arg == "category"]
    return any(isinstance(category, ast.Constant) and category.value is None for category in given)


BAD = (
    Example(
        code="""\
import torch
from torch import nn
from typing_extensions import deprecated


@deprecated("use Scale")
def scaled(x):
    return x * 2


class Block(nn.Module):
    @staticmethod
    @deprecated("use scaled", category=FutureWarning)
    def doubled(x):
        return x * 2

    def forward(self, x):
        x = scaled(x)  # ~
        return self.doubled(x)  # ~
""",
        run="(Block(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
import typing_extensions
from torch import nn


@typing_extensions.deprecated("use a tuple")
class Pair:
    def __init__(self, first, second):
        self.first = first
        self.second = second


class Gate(nn.Module):
    def forward(self, x):
        pair = Pair(x * 2, x + 1)  # ~
        return torch.sigmoid(pair.first) * pair.second
""",
        run="(Gate(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import functools

import torch
from torch import nn
from typing_extensions import deprecated


def renamed(text):
    def mark(function):
        @functools.wraps(function)
        def call(*args):
            return function(*args)

        return call

    return mark


def _scaled(x):
    return x * 2


@deprecated("use Scale")
def scaled(x):
    return _scaled(x)


@deprecated("still fine", category=None)
def shifted(x):
    return x + 1


class own:
    @staticmethod
    def deprecated(text):
        def mark(function):
            function.note = text
            return function

        return mark


@renamed("use shifted")
def moved(x):
    return x + 2


@own.deprecated("only a note")
def turned(x):
    return -x


class Block(nn.Module):
    def forward(self, x):
        return _scaled(x) + shifted(x) + moved(x) + turned(x)
""",
        run="(Block(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
