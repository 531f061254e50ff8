"""A dropout rate, momentum or other setting of torch's own layers that changes between calls compiles for each value.

## What it does
Finds, in compiled code, the call of a layer of `torch.nn` of which the code that calls the compiled function sets an
attribute between two of its calls: `net.drop.p = rate`, or `for m in net.modules(): if isinstance(m, nn.Dropout): m.p =
rate`. It looks at the rate of dropouts, the momentum and epsilon of norms, and at numbers, texts and flags that are no
floats.

## Why it costs
These layers hand the number on to an operator that takes no symbol for it. Dynamo guards on it, `drop.p == 0.1`, and
compiles the whole model again for every new value, up to the recompile limit. A float that the model itself multiplies
by would become an input after one recompile. Measured on torch 2.13: 6 compilations for 6 rates, in `eval()` mode as
well, where the rate has no effect.

## Write instead
Write the operation with a tensor that is changed in place:

    self.keep = nn.Buffer(torch.tensor(0.9))                     # self.keep.fill_(1 - rate) between the calls
    x = x * torch.bernoulli(self.keep.expand_as(x)) / self.keep

Or change the setting in a few large steps, each of which compiles once.

## Limits
Only driving code in the project is seen.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, Setting, View, Watch
from compilelint.static.values import Const, ExternalInstance, Scalar, Sequence, options

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.Call,), kinds=lambda kind: isinstance(kind, ExternalInstance) and kind.name.startswith("torch.nn.")
)
KEPT_FLOATS = frozenset({"p", "momentum", "eps"})
"""The floats of which Dynamo makes no input; others, such as the slope of LeakyReLU, become one."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call of a layer whose setting changes."""
    if not isinstance(node, ast.Call):
        return
    setting = next((setting for setting in view.settings(node.func) if _is_guarded(setting)), None)
    if setting is None:
        return
    name = f"{view.text(node.func)}.{setting.name}"
    yield Hit(
        node,
        f"`{name}` is set between calls of the compiled code ({view.where(setting.place)}): Dynamo guards on its value,"
        " so the model compiles again for each new one",
        f"keep what changes in a tensor that is filled in place, or change `{setting.name}` in few steps",
        "likely",
    )


def _is_guarded(setting: Setting) -> bool:
    """Whether each value is a guard of its own; tensors and modules are none, and most floats become an input."""
    if setting.name == "training":
        return False
    if setting.name in KEPT_FLOATS:
        return True
    kinds = options(setting.value)
    return all(
        isinstance(kind, Sequence) or (isinstance(kind, (Const, Scalar)) and kind.type in ("int", "str", "bool"))
        for kind in kinds
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.0)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        x = self.drop(self.proj(x))  # ~
        return self.norm(x)  # ~


class Curriculum:
    def __init__(self, steps):
        self.steps = steps

    def apply(self, model, step):
        for part in model.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.5 * step / self.steps
            elif isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
                part.momentum = 0.1 / (1 + step)


def train(x):
    model = nn.Sequential(Block(), Block())
    compiled = torch.compile(model)
    curriculum = Curriculum(4)
    for step in range(4):
        curriculum.apply(model, step)
        compiled(x)


class Trainer:
    def __init__(self):
        self.model = Block()
        self.compiled = torch.compile(self.model)

    def warm(self, epoch):
        self.model.drop.p = min(0.5, 0.1 * epoch)

    def fit(self, x):
        for epoch in range(4):
            self.warm(epoch)
            self.compiled(x)
""",
        run="(lambda x: (train(x), Trainer().fit(x)), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.0)
        self.act = nn.LeakyReLU(0.1)
        self.register_buffer("keep", torch.ones(()))

    def forward(self, x):
        x = self.act(self.drop(self.proj(x)))
        return x * torch.bernoulli(self.keep.expand_as(x)) / self.keep


def set_dropout(model, rate):
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = rate


def train(x, rate=0.2):
    model = Block()
    set_dropout(model, rate)
    compiled = torch.compile(model)
    for step in range(4):
        model.keep.fill_(1.0 - 0.1 * step)
        model.drop.p = 0.2
        compiled(x)
""",
        run="(train, [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
