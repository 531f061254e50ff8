"""Freezing or thawing other parameters from stage to stage compiles the model again at each stage.

## What it does
Finds `requires_grad_(…)` and `p.requires_grad = …` in code that runs once per turn of a loop which calls a compiled
model, where the turn decides which parameters it is done to: `blocks[stage].requires_grad_(True)`,
`for block in blocks[-depth:]`, `p.requires_grad = i >= depth`.

## Why it costs
Dynamo guards on `requires_grad` of every parameter that the graph reads, frozen ones included. Each stage leaves a set
of frozen parameters that no earlier graph was made for, so the whole model is compiled again, and beyond the recompile
limit of 8 it runs uncompiled for good. Measured on torch 2.13 and 2.14: 4 stages compile 4 times.

torch 2.11 has no such guard: it goes on with the graph of the first call, in which what was frozen then gets no
gradient, and trains only what was not. For torch before 2.13 this is reported as a stale result.

## Write instead
- Keep `requires_grad` as it is and let the optimizer leave out what is frozen: one parameter group per block, with a
  learning rate of 0 until its turn.
- Or compile each block by itself (`block.compile()`): only the one that is thawed compiles again.
- With few stages, count them into the warm-up, and raise `torch._dynamo.config.recompile_limit` above their number.

## Limits
Switching all parameters of a model off and on again, as between the two halves of a GAN's step, makes two graphs in all
and is not reported; nor is freezing before the first call.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import (
    arguments_by_parameter,
    functions_in,
    names_in,
    own_nodes,
    parameters,
    root_of,
)
from compilelint.static.project.syntax import nodes_in
from compilelint.static.regions.batch_loops import calls_compiled
from compilelint.static.tracer.varying import reached

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.Call, ast.Assign),
    syntax=lambda node, module: _switched(node) is not None,
    regions=frozenset({"host", "decode-loop", "batch-loop"}),
)
_GUARDED = (2, 13)
_COMPILES = ": Dynamo guards on `requires_grad` of each parameter, so every stage compiles the model again"
_STALE = ": this torch has no guard on it, so parameters thawed after the first call get no gradient"
FEW = 2
"""So many stages, written down in a loop, are met by a warm-up."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the statement that freezes or thaws what the turn of a loop around compiled code picks."""
    switched = _switched(node)
    if switched is None or not isinstance(node, (ast.expr, ast.stmt)) or isinstance(view.function, ast.Lambda):
        return
    around = [parent for parent in view.parents(node) if isinstance(parent, (ast.For, ast.If))]
    deciding = _deciding(switched, around, view.function)
    stage = _stage_here(deciding, around, view) or _stage_of_caller(deciding & set(parameters(view.function)), view)
    if stage is not None:
        name, line = stage
        guarded = view.torch >= _GUARDED
        yield Hit(
            node,
            f"which parameters this freezes or thaws hangs on `{name}`, and the loop on line {line} calls compiled code"
            + (_COMPILES if guarded else _STALE),
            "leave `requires_grad` as it is and give what is frozen a learning rate of 0, or compile each block by"
            " itself",
            "likely",
            None if guarded else "stale-result",
        )


def _switched(node: ast.AST) -> tuple[ast.expr, ast.expr | None] | None:
    """What is frozen or thawed, and the flag that it gets."""
    if isinstance(node, ast.Call):
        if not (isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_"):
            return None
        return node.func.value, node.args[0] if node.args else None
    if not isinstance(node, ast.Assign):
        return None
    target = node.targets[0]
    is_flag = isinstance(target, ast.Attribute) and target.attr == "requires_grad"
    return (target.value, node.value) if is_flag and isinstance(target, ast.Attribute) else None


def _deciding(
    switched: tuple[ast.expr, ast.expr | None], around: list[ast.For | ast.If], function: ast.AST
) -> set[str]:
    """The variables that decide which of several parameters it is done to."""
    receiver, flag = switched
    found = {name for index in _indices(receiver) for name in reached(index, function)}
    inner = names_in(root_of(receiver))  # the parameter at hand, what goes with it in a loop, and what is gone through
    for loop in (parent for parent in around if isinstance(parent, ast.For)):
        if names_in(loop.target) & inner:
            inner |= names_in(loop.target) | names_in(loop.iter)
            found |= {name for index in _indices(loop.iter) for name in reached(index, function)}
    for test in (*(parent.test for parent in around if isinstance(parent, ast.If)), *([flag] if flag else [])):
        names = reached(test, function)
        found |= names if names & inner else set()
    return found


def _indices(node: ast.expr) -> Iterator[ast.expr]:
    """The indices and bounds in `blocks[-depth:]`, within calls as well."""
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript):
            yield part.slice


def _stage_here(deciding: set[str], around: list[ast.For | ast.If], view: View) -> tuple[str, int] | None:
    """The variable of a loop around compiled code that decides, with the loop's line."""
    loops = (parent for parent in around if isinstance(parent, ast.For))
    return next((found for loop in loops if (found := _turned(deciding, loop, view)) is not None), None)


def _stage_of_caller(deciding: set[str], view: View) -> tuple[str, int] | None:
    """The same, of a loop in another function, which calls this one for each stage."""
    for caller, loop, call in _calls_in_loops(view) if deciding else ():
        given = arguments_by_parameter(call, view.function)
        passed = [given[parameter] for parameter in deciding if parameter in given]
        found = _turned({name for argument in passed for name in reached(argument, caller)}, loop, view)
        if found is not None:
            return found
    return None


def _calls_in_loops(view: View) -> Iterator[tuple[ast.AST, ast.For, ast.Call]]:
    """Each call of this function from a loop in the file, with the function and the loop that it stands in."""
    name = getattr(view.function, "name", "")
    for caller in functions_in(view.module):
        for loop in (node for node in own_nodes(caller) if isinstance(node, ast.For)):
            for call in (node for node in nodes_in(loop) if isinstance(node, ast.Call)):
                if last_name(call.func) == name:
                    yield caller, loop, call


def _turned(names: set[str], loop: ast.For, view: View) -> tuple[str, int] | None:
    """The variable of a loop among some names, if the loop calls compiled code and takes more than a few turns."""
    turning = sorted(names & names_in(loop.target))
    few = isinstance(loop.iter, (ast.List, ast.Tuple)) and len(loop.iter.elts) <= FEW
    if not turning or few or not calls_compiled(loop, view.function, view.module):
        return None
    return turning[0], loop.lineno


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x).relu()
        return x


def thaw(model, depth):
    for block in model.blocks[-depth:]:
        block.requires_grad_(True)  # ~


def finetune(x):
    model = Net().requires_grad_(False)
    fast = torch.compile(model)
    for stage in range(1, 4):
        thaw(model, stage)
        for _ in range(2):
            fast(x).sum().backward()
    return fast(x)
""",
        run="(finetune, [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x).relu()
        return x


class Trainer:
    def __init__(self):
        self.net = Net()
        self.step = torch.compile(self.net)

    def freeze_below(self, depth):
        for i, block in enumerate(self.net.blocks):
            for p in block.parameters():
                p.requires_grad = i >= depth  # ~

    def batch(self, x):
        return self.step(x).sum()

    def __call__(self, x):
        for epoch in range(4):
            self.freeze_below(3 - epoch)
            self.batch(x).backward()
        return self.step(x)


def drop(x):
    net = Net()
    fast = torch.compile(net)
    for turn in range(3):
        net.blocks[turn].requires_grad_(False)  # ~
        fast(x)
    return fast(x)


def by_name(x):
    net = Net()
    fast = torch.compile(net)
    for epoch in range(4):
        done = tuple(f"blocks.{k}." for k in range(epoch))
        for name, p in net.named_parameters():
            if name.startswith(done):
                p.requires_grad_(False)  # ~
        fast(x)
    return fast(x)
""",
        run="(lambda x: (Trainer()(x), drop(x), by_name(x)), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # Frozen once, before the first call.
        code="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x).relu()
        return x


def finetune(x, depth=2):
    model = Net()
    for block in model.blocks[:depth]:
        block.requires_grad_(False)
    for i, block in enumerate(model.blocks):
        for p in block.parameters():
            p.requires_grad = i > depth
    fast = torch.compile(model)
    for epoch in range(4):
        y = fast(x)
    return y
""",
        run="(finetune, [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        # All off and all on again: two graphs, however long it goes on.
        code="""\
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x).relu()


def switch(model, on):
    for p in model.parameters():
        p.requires_grad = on


def train(x):
    critic = Critic()
    fast = torch.compile(critic)
    for step in range(4):
        switch(critic, False)
        fast(x)
        switch(critic, True)
        fast(x)
    return fast(x)
""",
        run="(train, [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)
