"""Writing in place to an input of a compiled function switches CUDA graphs off for the whole graph.

## What it does

In code compiled with `mode="reduce-overhead"` or `"max-autotune"`, finds in-place writes (`x.add_(1)`, `x[i] = v`, `x
+= y`, `cache.k.index_copy_(…)`, `out=x`, an activation made with `inplace=True`) to an argument, to a view of one, or
to a tensor held by an argument that is not an `nn.Module`.

## Why it costs

A CUDA graph replays on fixed addresses. An input is copied to such an address first, so that a write would reach the
copy and not the caller's tensor; Inductor therefore gives up on CUDA graphs: "skipping cudagraphs due to mutated
inputs" (measured on an H200, torch 2.11, for an argument, a view of one, and a tensor in a cache object). The call
works, at the speed of the default mode.

## Write instead

- Hold what is written in a module: buffers and tensor attributes of an `nn.Module` keep their address, and writing to
  them keeps the CUDA graph (measured, both).
- Or mark the tensor once, before the first call: `torch._dynamo.mark_static_address(cache.k)`.
- Or return the new value instead of writing it.

## References

PyTorch documentation "CUDAGraph Trees", on input mutation support.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.cuda_graphs import recorded
from compilelint.static.facts.state import own_nodes, parameters, root_of, without_index
from compilelint.static.facts.writes import memory_of, written_in_place
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import UNKNOWN, Instance, Value, options, tensor_certainty

HAZARD = "cudagraph-skip"
WATCH = Watch(nodes=(ast.Call, ast.Assign, ast.AugAssign), syntax=lambda node, module: _may_write(node, module))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the in-place write to a tensor that comes into the region from outside."""
    if not recorded(view) or _is_marked(view.module):
        return
    place = written_in_place(node, view.module)
    if place is not None and _is_input(memory_of(place, view), view):
        confidence = _certainty(place, node, view)
        if confidence is not None:
            yield _hit(node, place, confidence, view)
    elif isinstance(node, ast.Call):
        for write, place in _by_unknown_object(node, view):
            yield _hit(write, place, "likely", view)


def _hit(node: ast.AST, place: ast.expr, confidence: Confidence, view: View) -> Hit:
    assert isinstance(node, (ast.expr, ast.stmt))
    return Hit(
        node,
        f"`{view.text(place)}` comes into the compiled code from outside and is written in place: CUDA graphs are"
        " skipped for the whole graph (mutated inputs)",
        "hold it in a module as a buffer, or mark it with `torch._dynamo.mark_static_address`, or return the new value",
        confidence=confidence,
    )


def _may_write(node: ast.AST, module: ast.Module) -> bool:
    method = node.func if isinstance(node, ast.Call) else None
    on_variable = isinstance(method, ast.Attribute) and isinstance(method.value, ast.Name)
    return on_variable or written_in_place(node, module) is not None


def _by_unknown_object(call: ast.Call, view: View) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The writes in the one method of the file that `cache.append(k, v)` can mean, on an unknown argument."""
    if not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)):
        return
    if call.func.value.id not in parameters(view.function)[1:] or view.kind(call.func.value) != UNKNOWN:
        return
    found = [
        (owner, method)
        for owner in nodes_in(view.module)
        if isinstance(owner, ast.ClassDef)
        for method in owner.body
        if isinstance(method, ast.FunctionDef) and method.name == call.func.attr
    ]
    if len(found) != 1 or len(parameters(found[0][1])) != len(call.args) + 1:
        return
    owner, method = found[0]
    tensors = {ast.unparse(target) for target in _tensors_made(owner)} if not owner.bases else set()
    for node in own_nodes(method):
        place = written_in_place(node, view.module)
        if place is not None and ast.unparse(place) in tensors:
            yield node, place


def _tensors_made(owner: ast.ClassDef) -> Iterator[ast.expr]:
    """The attributes for which a class's `__init__` calls a torch function."""
    for function in owner.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            for node in own_nodes(function):
                if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("torch."):
                    yield from node.targets


def _is_input(place: ast.expr, view: View) -> bool:
    """Whether a tensor is an argument of the region, or hangs off an object that is not a module."""
    place = without_index(place)
    root = root_of(place)
    if not isinstance(root, ast.Name) or root.id not in parameters(view.function):
        return False
    if isinstance(place, ast.Attribute):
        return all(_is_plain(option) for option in options(view.kind(place.value)))
    return view.handed_in(root.id) and not any(
        isinstance(node, ast.Name) and node.id == root.id and isinstance(node.ctx, ast.Store)
        for node in own_nodes(view.function)
        if not isinstance(node, ast.AugAssign)
    )


def _is_plain(value: Value) -> bool:
    return isinstance(value, Instance) and not value.is_module


def _certainty(place: ast.expr, node: ast.AST, view: View) -> Confidence | None:
    kind = view.kind(place)
    if tensor_certainty(kind) is not None:
        return tensor_certainty(kind)
    if kind != UNKNOWN:
        return None
    # `x[:, 0] = v` is no list or dict; `x[0] = v` and `x += v` could be anything.
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    is_grid = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Tuple)
    return "likely" if is_grid or isinstance(node, ast.Call) else None


@about_file(False)
def _is_marked(module: ast.Module) -> bool:
    """Whether the file gives tensors a fixed address itself."""
    return any(isinstance(node, ast.Attribute) and node.attr == "mark_static_address" for node in nodes_in(module))


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Cache:
    def __init__(self, length, dim):
        self.k = torch.zeros(1, length, dim)
        self.position = torch.zeros(1, dtype=torch.long)

    def append(self, k):
        self.k.index_copy_(1, self.position, k)  # ~
        self.position += 1  # ~
        return self.k


class Step(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, cache):
        return cache.append(self.proj(x)) * 2


step = torch.compile(Step(), mode="reduce-overhead")
""",
    ),
    Example(
        code="""
import torch


@torch.compile(mode="max-autotune")
def update(state: torch.Tensor, x: torch.Tensor):
    state[0] = x.sum()  # ~
    state.mul_(0.9)  # ~
    add(state, x)
    head = state[:2]
    head.copy_(x[:2])  # ~
    state.view(-1).clamp_(0, 1)  # ~
    torch.add(x, 1, out=state)  # ~
    return torch.nn.functional.relu(x, inplace=True) * state  # ~


def add(total, x):
    total.add_(x)  # ~
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Step(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("cache", torch.zeros(1, 16, dim))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))

    def forward(self, x: torch.Tensor):
        h = self.proj(x)
        h.mul_(2)
        self.clip(h)
        rows = x[torch.tensor([0])]
        rows.zero_()
        x = x + 1
        x.add_(1)
        self.cache.index_copy_(1, self.position, h)
        self.position.add_(1)
        return self.cache * x

    def clip(self, h):
        h.clamp_(-1, 1)


step = torch.compile(Step(), mode="reduce-overhead")
""",
    ),
    Example(
        code="""
import torch


@torch.compile
def update(state: torch.Tensor, x: torch.Tensor):
    state.mul_(0.9)
    return state * x
""",
        run="update, [(torch.ones(4), torch.ones(4)) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
