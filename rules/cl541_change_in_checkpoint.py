"""What a checkpointed function changes outside of itself splits the graph.

## What it does
Finds, in a function that `torch.utils.checkpoint.checkpoint` runs in compiled code and in what it calls, statements
that change what was there before: `self.loss = loss`, `self.kept.append(h)`, a `global` or `nonlocal` that is set, an
entry of a dict or list that was handed in.

## Why it costs
Dynamo puts the checkpointed function into the graph as one operator, which is run again in the backward pass and so may
have no effects. At the first one the graph splits (GB0067): the call of `checkpoint` is left to Python, and what saves
memory there is compiled in pieces.

## Write instead
Return it, and keep it outside:

    h, loss = checkpoint(self.block, x, use_reentrant=False)
    self.loss = loss

## Limits
Tensors that are written in place (`self.count.add_(1)`) compile, and so does a new `.data` for one. Attributes set to
numbers, texts and None split the graph at the call of `checkpoint` if they change (GB4413) and are not looked for.
Where a flag such as `self.gradient_checkpointing` asks for it, this is possible only. Measured on torch 2.11, 2.13 and
2.14.

## References
PyTorch documentation: "torch.utils.checkpoint". GB0067.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Checkpointed, Example, Hit, View, Watch
from compilelint.static.facts.state import (
    GROWING,
    SHRINKING,
    is_module,
    own_names,
    own_nodes,
    parameters,
    root_of,
    without_alias,
)
from compilelint.static.project.answers import about_file
from compilelint.static.project.definitions import assignments
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Instance, Mapping, Sequence, Tensor, Value, options, tensor_certainty

HAZARD = "graph-break"
CHANGING = GROWING | SHRINKING | {"update", "setdefault", "add", "insert"}
STORES = (ast.Assign, ast.AnnAssign, ast.AugAssign)


def changes(node: ast.AST, module: ast.Module) -> bool:
    """Whether a node may change something that it did not make."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING
    if not isinstance(node, STORES):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return not all(isinstance(target, ast.Name) for target in targets) or rebinds(module)


@about_file(False)
def rebinds(module: ast.Module) -> bool:
    """Whether functions of a file set variables that are not theirs."""
    return any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in nodes_in(module))


WATCH = Watch(nodes=(ast.Call, *STORES), syntax=changes)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per function, at the first change: there the graph splits."""
    under = view.checkpointed
    if under is None or not isinstance(node, (ast.expr, ast.stmt)):
        return
    changed = _changed_outside(node, under, view)
    if changed is not None and node is _first_change(under, view):
        yield Hit(
            node,
            f"`{view.text(changed)}` is changed in a function that `checkpoint` runs, which may change nothing outside:"
            " Dynamo splits the graph",
            "return it from the checkpointed function, and keep it outside",
            "possible" if under.optional else "certain",
        )


def _first_change(under: Checkpointed, view: View) -> ast.AST | None:
    return next((node for node in own_nodes(view.function) if _changed_outside(node, under, view) is not None), None)


def _changed_outside(node: ast.AST, under: Checkpointed, view: View) -> ast.expr | None:
    return next((place for place in _changed(node, view) if _is_from_outside(place, under, view)), None)


def _changed(node: ast.AST, view: View) -> Iterator[ast.expr]:
    """The attributes, variables and containers that a statement or call changes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
        if _is_container(view.kind(node.func.value)):
            yield node.func.value
    elif isinstance(node, ast.AugAssign):
        yield from _stored(node.target, view.kind(node.target), view)
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target, value in assignments(node):
            yield from _stored(target, view.kind(value), view)


def _stored(target: ast.expr, value: Value, view: View) -> Iterator[ast.expr]:
    if isinstance(target, ast.Attribute) and target.attr == "data" and tensor_certainty(view.kind(target.value)):
        return
    if isinstance(target, ast.Subscript) and _is_container(view.kind(target.value)):
        yield target.value
    elif (isinstance(target, ast.Attribute) and _is_object(value)) or isinstance(target, ast.Name):
        yield target


def _is_container(value: Value) -> bool:
    return all(
        isinstance(option, Mapping) or (isinstance(option, Sequence) and option.form in ("list", "set"))
        for option in options(value)
    )


def _is_object(value: Value) -> bool:
    """Whether a value is none of Python's constants: those count only where they change."""
    return all(isinstance(option, (Tensor, Instance)) or _is_container(option) for option in options(value))


def _is_from_outside(place: ast.expr, under: Checkpointed, view: View) -> bool:
    """Whether what is changed was there before the checkpointed function was called."""
    if isinstance(place, ast.Name) and isinstance(place.ctx, ast.Store):
        return _is_declared(place.id, under, view)
    root = root_of(without_alias(place, view))
    if not isinstance(root, ast.Name):
        return False
    if is_module(view.kind(root)):
        return True
    if isinstance(place, ast.Name) and _is_made_by_call(place, view):
        return False
    mine = root.id in own_names(view.function)
    if not mine and root.id in own_names(view.module):
        return True
    return under.direct and (not mine or root.id in parameters(view.function))


def _is_made_by_call(place: ast.Name, view: View) -> bool:
    """Whether a parameter is a new container all the same: `**kwargs`, or one that the body puts a copy of in first."""
    if isinstance(view.function, ast.Module):
        return False
    collected = (view.function.args.vararg, view.function.args.kwarg)
    if any(argument is not None and argument.arg == place.id for argument in collected):
        return True
    body = () if isinstance(view.function, ast.Lambda) else view.function.body
    return any(
        isinstance(target, ast.Name)
        and target.id == place.id
        and isinstance(value, (ast.Call, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp))
        for statement in body
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.lineno < place.lineno
        for target, value in assignments(statement)
    )


def _is_declared(name: str, under: Checkpointed, view: View) -> bool:
    """Whether a variable is a global, or one of the function around the checkpointed one."""
    outer = (ast.Global, ast.Nonlocal) if under.direct else (ast.Global,)
    return any(isinstance(node, outer) and name in node.names for node in own_nodes(view.function))


BAD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.loss = torch.zeros(())
        self.register_buffer("load", torch.zeros(4))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        self.loss = weights.square().mean()  # ~
        self.load += weights.detach().mean(0)
        return x * weights


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = Router()

    def forward(self, x):
        return checkpoint(self.router, x, use_reentrant=False) + x
""",
        run="(Block(), [(torch.ones(2, 4, requires_grad=True),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch.utils.checkpoint import checkpoint

last = torch.zeros(4)


def noted(x):
    global last
    last = x.detach()  # ~
    return x.sin()


def kept(x, states):
    states["last"] = x  # ~
    return x.cos()


@torch.compile
def step(x):
    inner, states = [], {}

    def layer(y):
        inner.append(y)  # ~
        return y.exp()

    x = checkpoint(layer, x, use_reentrant=False)
    x = checkpoint(kept, x, states, use_reentrant=False)
    return checkpoint(noted, x, use_reentrant=False) + inner[0] + states["last"]
""",
        run="(step, [(torch.ones(4, requires_grad=True),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.loss = torch.zeros(())
        self.register_buffer("load", torch.zeros(4))

    def route(self, x, *parts, **options):
        parts = [*parts]
        parts.append(x)
        options["scale"] = 0.5
        weights = self.gate(sum(parts) * options["scale"]).softmax(-1)
        self.load.add_(weights.detach().mean(0))
        self.load.data = self.load.data * 0.5
        total = x

        def gather(row):
            nonlocal total
            total = total + row

        gather(weights)
        rows, sums = [], {}
        for row in weights:
            rows.append(row)
        sums["all"] = torch.stack(rows)
        return total * sums["all"], weights.square().mean()

    def forward(self, x):
        x, loss = checkpoint(self.route, x, x, scale=1.0, use_reentrant=False)
        self.loss = loss
        return x
""",
        run="(Router(), [(torch.ones(2, 4, requires_grad=True),)])",
        default="clean",
        fullgraph="clean",
    ),
)
