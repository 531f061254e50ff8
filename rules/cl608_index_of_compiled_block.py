"""Blocks compiled one by one that read their own `layer_idx` compile once each instead of sharing a graph.

## What it does

Finds the first read of an index attribute (`self.layer_idx`, `self.block_id`) in compiled code of a module, when the
file compiles modules in a loop: `for block in blocks: block.compile()`, or `[torch.compile(Block(i)) for i in
range(depth)]`. In the blocks that the loop compiles, also any other int or text that their constructor makes of an
argument which differs from block to block.

## Why it costs

Compiling blocks one by one ("regional compilation") is meant to compile once and reuse the graph for every block. An
int attribute is a constant to Dynamo, guarded by its value, and each block has another. Measured on torch 2.13: of 10
blocks that write `cache[self.index]`, 8 are compiled one after another, then the recompile limit is hit and the last
ones run uncompiled.

## Write instead

- Do what needs the index outside of the block: hand the block its own slot, `block(x, cache[i])`.
- Or set `torch._dynamo.config.allow_unspec_int_on_nn_module = True`, which makes the index dynamic where a symbol
  will do.
- Or compile the whole model, which unrolls the layers into one graph.

## References

PyTorch documentation, recipe "Reducing cold start compilation time with regional compilation"; config
`allow_unspec_int_on_nn_module`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.differing import differing_attributes, differs
from compilelint.static.facts.state import (
    class_node,
    first_read,
    functions_in,
    held,
    is_integer,
    is_module,
    is_text,
    own_nodes,
    parameters,
    used_at,
)
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import NONE, Const, Scalar, Value, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Attribute,), syntax=lambda node, module: _may_differ(node, module))
INDEX = re.compile(r"(?:^|_)(?:idx|index|layer_?id|block_?id|layer_?num(?:ber)?|layer_?no)$")


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of an index attribute in a module of which the file compiles several."""
    if not isinstance(node, ast.Attribute):
        return
    singly = view.singly()
    if singly is None and not INDEX.search(node.attr):
        return
    owner = class_node(view.kind(node.value), view) if is_module(view.kind(node.value)) else None
    place = _compiled_singly(node, view)
    if owner is None or place is None or first_read(node, view) is not node:
        return
    is_index = INDEX.search(node.attr) and _is_given(node.attr, owner)
    if not is_index and not (singly and differs(node.attr, owner, view.module)):
        return
    value = held(node, view)
    few = not is_index and not (is_integer(value) or is_text(value))
    if few and not all(option == NONE or _takes_two(option) for option in options(value)):
        return  # a float becomes an input, a submodule is another object of the same shape
    yield Hit(
        used_at(node, view),
        f"`{view.text(node)}` differs from block to block, and {place} compiles them one by one: Dynamo guards on"
        f" {'which of two it is' if few else 'its value'}, so every block with another one compiles again instead of"
        " sharing the graph",
        "use it outside of the block (`block(x, cache[i])`), or set"
        " `torch._dynamo.config.allow_unspec_int_on_nn_module = True` for an int",
        confidence="possible" if few else "likely",
    )


def _may_differ(node: ast.AST, module: ast.Module) -> bool:
    if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)):
        return False
    return bool(INDEX.search(node.attr)) or node.attr in differing_attributes(module)


def _compiled_singly(node: ast.Attribute, view: View) -> str | None:
    """Where blocks are compiled one by one, in words: this one, or any in the file if the attribute is an index."""
    place = view.singly()
    asks = place is None and INDEX.search(node.attr) and view.fact(_compiles_in_loop)
    line = _compiled_in_loop(view.module) if asks else None
    return view.where(place) if place is not None else f"line {line}" if line is not None else None


def _takes_two(value: Value) -> bool:
    """A flag, or an object that stands against None."""
    return not isinstance(value, (Const, Scalar)) or value.type == "bool"


def _is_given(attribute: str, owner: ast.ClassDef) -> bool:
    """Whether `__init__` stores one of its arguments under that name."""
    for function in functions_in(owner):
        if function.name == "__init__":
            for node in own_nodes(function):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                    is_it = any(isinstance(t, ast.Attribute) and t.attr == attribute for t in node.targets)
                    if is_it and node.value.id in parameters(function):
                        return True
    return False


def _compiles_in_loop(module: ast.Module) -> bool:
    return _compiled_in_loop(module) is not None


@about_file(None)
def _compiled_in_loop(module: ast.Module) -> int | None:
    """The line on which the file compiles the variable of a loop or comprehension; None if it does so nowhere."""
    for node in nodes_in(module):
        if isinstance(node, (ast.For, ast.ListComp, ast.GeneratorExp)):
            targets = [node.target] if isinstance(node, ast.For) else [part.target for part in node.generators]
            names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and _compiles(call, names):
                    return call.lineno
    return None


def _compiles(call: ast.Call, names: set[str]) -> bool:
    """`torch.compile(block)` and `block.compile()` for one of the names."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "compile"):
        return False
    model = call.args[0] if ast.unparse(call.func.value) == "torch" and call.args else call.func.value
    return isinstance(model, ast.Name) and model.id in names


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, layer_idx, dim=4):
        super().__init__()
        self.layer_idx = layer_idx
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, cache):
        h = torch.relu(self.proj(x))
        cache[self.layer_idx] = h  # ~
        return h


class Model(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block(i).requires_grad_(False) for i in range(depth))
        self.compiled = [torch.compile(block) for block in self.blocks]


def make():
    model = Model()

    def run(x):
        cache = [None] * 4
        for block in model.compiled:
            x = block(x, cache)
        return x

    return run
""",
        run="make(), [(torch.ones(2, 4),) for _ in range(2)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def forward(self, x):
        return x.narrow(-1, 0, self.window)  # ~


class Block(nn.Module):
    def __init__(self, level, dim=8):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.gate = Gate(2 + level)
        self.rate = 0.1 * level

    def forward(self, x):
        h = self.gate(self.proj(x))
        return x + self.rate * h.sum()


class Model(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList()
        for i in range(depth):
            self.blocks.append(torch.compile(Block(i).requires_grad_(False)))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
""",
        run="Model(), [(torch.ones(2, 8),) for _ in range(2)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, layer_idx, dim=4):
        super().__init__()
        self.layer_idx = layer_idx
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        return torch.relu(self.proj(x))


def make():
    blocks = [Block(i).requires_grad_(False) for i in range(4)]
    compiled = [torch.compile(block) for block in blocks]

    def run(x):
        cache = [None] * 4
        for block, inner in zip(compiled, blocks):
            x = block(x)
            cache[inner.layer_idx] = x
        return x

    return run
""",
        run="make(), [(torch.ones(2, 4),) for _ in range(2)]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
