"""A function that is put into the graph as it stands must not read or change anything but its arguments.

## What it does
Finds calls, in compiled code, of functions marked `torch.compiler.allow_in_graph` or `torch._dynamo.nonstrict_trace`
whose body reads what other functions of the file change, writes a global, adds to a list or dict outside, or prints.

## Why it costs
Either mark promises that the function computes its result from its arguments alone. Dynamo does not look inside and
guards on nothing it reads; the backend runs it once, with fake tensors, while it traces. What it read stays as it was,
and what it wrote is never written again. Measured on torch 2.13 with the aot_eager backend: a function that counts its
calls in a list and adds the count returns 8, 8, 8 where eager code returns 4, 6, 8.

## Write instead
- Pass what it reads in as an argument, and return what it would write.
- Or make it an operator: `torch.library.custom_op` with `mutates_args`, which runs anew at each call.

## References
PyTorch documentation, `torch.compiler.allow_in_graph` and `torch._dynamo.nonstrict_trace`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.changing import changing_reads
from compilelint.static.facts.questions import last_decorator_names
from compilelint.static.facts.state import own_names, own_nodes, root_of
from compilelint.static.values import Function, options

HAZARD = "stale-result"
WATCH = Watch(nodes=(ast.Call,), kinds=lambda kind: isinstance(kind, Function) and _is_marked(kind.ref.node))
MARKS = frozenset({"allow_in_graph", "nonstrict_trace"})
GROWING = frozenset({"append", "extend", "add", "update", "setdefault", "pop", "clear"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call, naming the first thing outside that the function reads or writes."""
    if not isinstance(node, ast.Call):
        return
    for option in options(view.kind(node.func)):
        function = view.definition(option) if isinstance(option, Function) else None
        if not isinstance(function, ast.FunctionDef) or not _is_marked(function):
            continue
        if not any(isinstance(part, ast.Return) and part.value is not None for part in own_nodes(function)):
            continue  # it computes nothing: its effect, once, is what it is for
        outside = next(chain(_effects(function), changing_reads(function, view.module)), None)
        if outside is not None:
            yield Hit(
                node,
                f"`{function.name}` goes into the graph unseen but uses `{outside}` outside it: that happens once,"
                " while the graph is made",
                "pass it in as an argument and return what changes, or make the function a `torch.library.custom_op`",
                "likely",
            )


def _is_marked(function: ast.AST) -> bool:
    return not MARKS.isdisjoint(last_decorator_names(function))


def _effects(function: ast.FunctionDef) -> Iterator[str]:
    """What a function changes outside, as written: a global it sets, a container it fills, the terminal."""
    local = own_names(function)
    for node in own_nodes(function):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield "print"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in GROWING:
            root = root_of(node.func.value)
            if isinstance(root, ast.Name) and root.id not in local:
                yield ast.unparse(node.func.value)


BAD = (
    Example(
        code="""\
import torch
from torch import nn

CALLS = []


@torch.compiler.allow_in_graph
def counted(x):
    CALLS.append(x.shape)
    return x + len(CALLS)


class Layer(nn.Module):
    def forward(self, x):
        return counted(x) * 2  # ~
""",
    ),
    Example(
        code="""\
import torch
from torch import nn

LIMITS = {"clip": 1.0}


@torch._dynamo.nonstrict_trace
def clipped(x):
    return x.clamp(max=LIMITS["clip"])


class Layer(nn.Module):
    def forward(self, x):
        return clipped(x) * 2  # ~


def set_limit(limit):
    LIMITS["clip"] = limit
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn

LIMITS = {"clip": 1.0}


@torch.compiler.allow_in_graph
def clipped(x, limit):
    parts = []
    for row in x:
        parts.append(row.clamp(max=limit))
    return torch.stack(parts) * LIMITS["clip"]


class Layer(nn.Module):
    def forward(self, x):
        return clipped(x, 0.5) * 2
""",
        run="(Layer(), [(torch.ones(2, 4),) for _ in range(2)])",
        default="clean",
        fullgraph="clean",
    ),
)
