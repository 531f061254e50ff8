"""Compiling a model before it is wrapped in DistributedDataParallel hides the gradient buckets from the compiler.

## What it does

Finds `DistributedDataParallel(net)` where `net` is already the result of `torch.compile`, and the line that compiled
it.

## Why it costs

When the wrapper is compiled, Dynamo's DDPOptimizer breaks the graph at the bucket boundaries, so that gradients of
one bucket are reduced while the backward of the next is still running. Compiled first, the model is one graph with
one backward: the hooks of all parameters fire after it, and nothing overlaps.

## Write instead

`torch.compile(DistributedDataParallel(net))`: wrap first, then compile the wrapper.

## References

PyTorch documentation "torch.compile FAQ", on distributed training and DDP; `torch._dynamo.config.optimize_ddp`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import own_nodes, same_place, written
from compilelint.static.values import Compiled, options

HAZARD = "placement"
WATCH = Watch(
    nodes=(ast.Call,), names=frozenset({"DistributedDataParallel", "DDP", "DataParallel"}), regions=frozenset({"host"})
)
WRAPPERS = ("torch.nn.parallel.", "torch.nn.DataParallel", "torch.nn.parallel.distributed.")


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the wrapping call, and the compilation before it."""
    if not isinstance(node, ast.Call) or not view.callee(node).startswith(WRAPPERS):
        return
    model = view.argument(node, 0, "module")
    kinds = options(view.kind(model)) if model is not None else ()
    if model is None or not any(isinstance(option, Compiled) for option in kinds):
        return
    # Of an attribute that another method compiles it is not known which of the two runs first.
    here = any(statement.lineno < node.lineno for statement, _ in written(model, view.function))
    elsewhere = isinstance(model, ast.Attribute) and not here
    if elsewhere and not all(isinstance(option, Compiled) for option in kinds):
        return
    wrapper = view.text(node.func)
    yield Hit(
        node,
        f"`{view.text(model)}` is compiled before `{wrapper}` wraps it: all gradients arrive after one backward graph,"
        " so their reduction overlaps with nothing",
        f"wrap first, then compile the wrapper: `torch.compile({wrapper}(…))`",
        "likely" if elsewhere else "certain",
    )
    for compiling in _compilations(model, node, view):
        yield Hit(
            compiling,
            f"compiled here, before line {node.lineno} wraps it in `{wrapper}`: the compiler never sees its"
            " gradient buckets",
            f"compile what `{wrapper}` returns",
        )


def _compilations(model: ast.expr, wrapping: ast.Call, view: View) -> Iterator[ast.expr]:
    """The torch.compile calls whose result the wrapped variable holds, on other lines than the wrapper."""
    for node in own_nodes(view.function):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.lineno < wrapping.lineno):
            continue
        is_model = any(same_place(target, model) for target in node.targets)
        if is_model and view.callee(node.value) == "torch.compile":
            yield node.value


BAD = (
    Example(
        code="""
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build(rank):
    net = nn.Linear(4, 4).to(rank)
    net = torch.compile(net)  # ~
    return DDP(net, device_ids=[rank])  # ~


def build_inline(net, rank):
    return nn.parallel.DistributedDataParallel(torch.compile(net), device_ids=[rank])  # ~
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build(rank):
    net = DDP(nn.Linear(4, 4).to(rank), device_ids=[rank])
    net = torch.compile(net)
    return net
""",
    ),
)
