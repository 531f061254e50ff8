"""Compiling a model before it is wrapped in DistributedDataParallel hides the gradient buckets from the compiler.

## What it does

Finds `DistributedDataParallel(net)` where `net` is already the result of `torch.compile`, and the line that compiled
it, also in the `__init__` of the class whose other method wraps it.

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

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import class_node, functions_in, own_nodes, same_place, written
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Compiled, options

HAZARD = "placement"
NAMES = frozenset({"DistributedDataParallel", "DDP", "DataParallel"})
WATCH = Watch(nodes=(ast.Call,), names=NAMES | {"compile"}, regions=frozenset({"host"}))
WRAPPERS = ("torch.nn.parallel.", "torch.nn.DataParallel", "torch.nn.parallel.distributed.")


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the wrapping call, and the compilation before it."""
    if not isinstance(node, ast.Call):
        return
    if view.callee(node) == "torch.compile":
        for wrapping in _wrapped_by_method(node, view)[:1]:
            yield _compiled_first(node, wrapping, "likely")
    if not view.callee(node).startswith(WRAPPERS):
        return
    model = view.argument(node, 0, "module")
    kinds = options(view.kind(model)) if model is not None else ()
    if model is None or not any(isinstance(option, Compiled) for option in kinds):
        return
    # Of an attribute that another method compiles it is not known which of the two runs first, but of `__init__`.
    here = any(statement.lineno < node.lineno for statement, _ in written(model, view.function))
    elsewhere = isinstance(model, ast.Attribute) and not here
    if (
        elsewhere
        and not _compiled_by_constructor(model, node, view)
        and not all(isinstance(option, Compiled) for option in kinds)
    ):
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
        yield _compiled_first(compiling, node, "certain")


def _compiled_first(compiling: ast.expr, wrapping: ast.Call, confidence: Confidence) -> Hit:
    wrapper = ast.unparse(wrapping.func)
    return Hit(
        compiling,
        f"compiled here, before line {wrapping.lineno} wraps it in `{wrapper}`: the compiler never sees its gradient"
        " buckets",
        f"compile what `{wrapper}` returns",
        confidence,
    )


def _compilations(model: ast.expr, wrapping: ast.Call, view: View) -> Iterator[ast.expr]:
    """The torch.compile calls whose result the wrapped variable holds, on other lines than the wrapper."""
    for node in own_nodes(view.function):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.lineno < wrapping.lineno):
            continue
        is_model = any(same_place(target, model) for target in node.targets)
        if is_model and view.callee(node.value) == "torch.compile":
            yield node.value


def _compiled_by_constructor(model: ast.expr, wrapping: ast.Call, view: View) -> bool:
    """Whether the wrapped attribute of `self` holds what `__init__` compiled, and not instead of being wrapped."""
    owner = _own_class(model, view)
    constructor = next((f for f in functions_in(owner) if f.name == "__init__"), None) if owner is not None else None
    if constructor is None or constructor is view.function:
        return False
    return any(
        isinstance(value, ast.Call)
        and ast.unparse(value.func) == "torch.compile"
        and not _asked(wrapping, view.function) & _asked(value, constructor)
        for _, value in written(model, constructor)
    )


def _wrapped_by_method(compiling: ast.Call, view: View) -> list[ast.Call]:
    """The calls by which other methods wrap the attribute that `__init__` sets to what it compiles."""
    statement = next(view.parents(compiling), None)
    if getattr(view.function, "name", "") != "__init__" or not isinstance(statement, ast.Assign):
        return []
    target = statement.targets[0]
    owner = _own_class(target, view)
    return [
        call
        for method in (functions_in(owner) if owner is not None else ())
        if method is not view.function
        for call in own_nodes(method)
        if isinstance(call, ast.Call)
        and last_name(call.func) in NAMES
        and call.args
        and same_place(call.args[0], target)
        and not any(other.lineno < call.lineno for other, _ in written(target, method))
        and not _asked(compiling, view.function) & _asked(call, method)
    ]


def _own_class(attribute: ast.expr, view: View) -> ast.ClassDef | None:
    """The class of the object whose attribute this is, if it stands in the same file."""
    owner = class_node(view.kind(attribute.value), view) if isinstance(attribute, ast.Attribute) else None
    return owner if owner is not None and owner in nodes_in(view.module) else None


def _asked(node: ast.expr, function: ast.AST) -> set[str]:
    """What the tests around a node of a function ask for: where compiling and wrapping hang on the same, one may be
    done instead of the other."""
    tests = [branch.test for branch in own_nodes(function) if isinstance(branch, ast.If) and node in nodes_in(branch)]
    parts = [part for test in tests for part in nodes_in(test)]
    return {ast.unparse(part) for part in parts if isinstance(part, (ast.Name, ast.Attribute))} - {"self"}


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
    Example(
        code="""
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, net, compiled=True):
        self.model = net
        if compiled:
            self.model = torch.compile(self.model)  # ~

    def prepare(self, world_size):
        if world_size > 1:
            self.model = DistributedDataParallel(self.model)  # ~
        return self.model


def start(world_size):
    return Trainer(nn.Linear(4, 4)).prepare(world_size)
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


class Trainer:
    def __init__(self, net, distributed=True):
        self.model, self.distributed = net, distributed
        if not self.distributed:
            self.model = torch.compile(self.model)

    def prepare(self):
        if self.distributed:
            self.model = torch.compile(DDP(self.model))
        return self.model


class Late:
    def __init__(self, net):
        self.model = net

    def speed_up(self):
        self.model = torch.compile(self.model)

    def prepare(self):
        self.model = DDP(self.model)


def start():
    late = Late(nn.Linear(4, 4))
    late.prepare()
    late.speed_up()
    return Trainer(nn.Linear(4, 4)).prepare(), late.model
""",
    ),
)
