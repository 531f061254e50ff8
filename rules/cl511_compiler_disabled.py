"""A call to a function that was kept out of the compiler splits the graph, as asked.

## What it does
Finds calls, in code that Dynamo traces, to functions under `torch.compiler.disable`, to
`torch._dynamo.graph_break()`, and calls that turn the compiler off or reset it there, decorators of nested functions
included.

## Why it costs
The break is intended; what it costs may not be. The call ends the graph (GB0098, with `recursive=False` GB0099,
`graph_break()` GB0025), and in a loop, a `try` or a `with` no graph is left of the whole function. A disabled hook or
helper that every layer calls costs one break per layer. Wrapping inside the compiled function
(`torch.compiler.disable(f)(x)`, or a nested function under `@torch.compiler.disable`) breaks twice.

## Write instead
Nothing, if the break is worth it: suppress this finding where it is. Otherwise call the disabled function once,
before or after the layers; or let Dynamo keep it in the graph as one opaque operator with `torch.library.custom_op`.

## Limits
Functions under `torch.jit.ignore` are traced and not reported. Measured on torch 2.13.

## References
torch.compile documentation: "Disabling and Suppressing Errors". GB0025, GB0098, GB0099, GB0148, GB4297.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.project.answers import about_file
from compilelint.static.project.bindings import bound_alone_to
from compilelint.static.values import UNKNOWN, External, Function, Instance, Value, options

HAZARD = "graph-break"
ASKED = frozenset({"torch._dynamo.graph_break", "torch._dynamo.skip_frame", "torch.compiler.cudagraph_mark_step_begin"})
SWITCHES = frozenset({"torch.compiler.disable", "torch._dynamo.disable", "torch.compiler.reset", "torch._dynamo.reset"})
WATCH = Watch(
    nodes=(ast.Call, ast.FunctionDef),
    callees=(ASKED | SWITCHES).__contains__,
    kinds=lambda kind: _may_be_disabled(kind),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call, or decorator of a nested function, that leaves the compiler on purpose."""
    if isinstance(node, ast.FunctionDef):
        yield from wrapped_there(node, view)
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    disabled = is_disabled(node.func, view)
    if disabled:
        yield Hit(
            node,
            f"`{view.text(node.func)}` is kept out of the compiler, so the graph splits at this call",
            "suppress this if the break is intended; else call it outside the layers or as a `torch.library.custom_op`",
            disabled,
        )
    elif callee in ASKED or callee in SWITCHES:
        yield Hit(
            node,
            f"`{view.text(node)}` splits the graph here on purpose",
            "suppress this if the break is intended; else remove it, or wrap once, outside the compiled code",
        )


def wrapped_there(node: ast.FunctionDef, view: View) -> Iterator[Hit]:
    """`@torch.compiler.disable` over a function that the compiled one defines: the decorator runs there."""
    for decorator in node.decorator_list:
        kind = view.kind(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if isinstance(kind, External) and kind.name in SWITCHES:
            yield Hit(
                decorator,
                f"`@{view.text(decorator)}` is called where `{node.name}` is defined, in compiled code: the graph"
                f" splits here and again where `{node.name}` is called",
                f"define `{node.name}` once, outside the compiled code",
            )


def is_disabled(function: ast.expr, view: View) -> Confidence | None:
    """How sure it is that what is called was kept out; a wrapped module is known by what this file binds."""
    kinds = options(view.kind(function))
    if any(isinstance(kind, Function) and kind.disabled for kind in kinds):
        return "certain" if len(kinds) == 1 else "likely"
    if kinds and all(isinstance(kind, Instance) and forward_is_disabled(kind) for kind in kinds):
        return "certain"
    return "likely" if kinds == (UNKNOWN,) and last_name(function) in view.fact(_disabled) else None


@about_file(())
def _disabled(module: ast.Module) -> tuple[str, ...]:
    """The names to which the file binds only what it keeps out."""
    return bound_alone_to(module, SWITCHES)


def _may_be_disabled(kind: Value) -> bool:
    if isinstance(kind, Function):
        return kind.disabled
    return kind == UNKNOWN or (isinstance(kind, Instance) and forward_is_disabled(kind))


def forward_is_disabled(kind: Instance) -> bool:
    """Whether the method that calling an object runs stands under `torch.compiler.disable`."""
    return _leaves_forward_alone(kind.ref.node)


@cache
def _leaves_forward_alone(owner: ast.ClassDef) -> bool:
    return any(
        isinstance(member, ast.FunctionDef)
        and member.name in ("forward", "__call__")
        and any(ast.unparse(decorator).partition("(")[0] in SWITCHES for decorator in member.decorator_list)
        for member in owner.body
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


@torch.compiler.disable
def record(h):
    return h.mean()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        level = record(h)  # ~
        return h / (level + 1)
""",
        run="(Block(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


class Staging:
    def __init__(self):
        self.loads = 0

    @torch.compiler.disable(recursive=False)
    def fetch(self):
        self.loads += 1


staging = Staging()


@torch.compile
def step(x):
    y = torch.tanh(x)
    staging.fetch()  # ~
    torch._dynamo.graph_break()  # ~
    return y * 2
""",
        run="(step, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        scores = self.head(x)

        @torch.compiler.disable  # ~
        def boxes(scores):
            return scores.softmax(-1)

        return boxes(scores)  # ~
""",
        run="(Detector(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


@torch.compiler.disable
def record(h):
    return h.mean()


@torch.jit.ignore
def ignored(h):
    return h * 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        if not torch.compiler.is_compiling():
            record(x)
        return ignored(self.fc(x))
""",
        run="(Block(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
