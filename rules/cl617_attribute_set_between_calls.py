"""An attribute that compiled code reads and driving code sets between two calls compiles again for each value.

## What it does
Finds, in compiled code, the first read of a text, a list, a flag, or something that is None at times, where the code
that calls the compiled function gives it another value between two of its calls: directly, through a method or helper
it calls, or by entering a context manager. Of numbers it finds the loop that one bounds or the list that it picks from,
or else the comparison that asks about the value, or else the first computation with it.

## Why it costs
Dynamo guards on what it read: the value of a text or flag, the length of a list, the exact number that was compared.
The next call finds another one and compiles the function again, in the middle of serving. A text, a list that gets
longer, or a number that is compared costs one compilation for each value, up to the recompile limit. So does a number
that bounds a loop or picks from a list, a float that goes into `F.dropout`, `math.exp` and other operations for which
Dynamo keeps numbers as they are, any number that is computed with under `dynamic=False`, and an int on a class or in a
dict of a module. A flag that a schedule flips compiles in the middle of a run. A flag that goes on and off around each
call, any other number, what may be None and an object of another class cost one more in all, which a warm-up with both
hides: they are reported as possible only. Measured on torch 2.13.

## Write instead
Decide in the driving code: call another function, or compile one callable for each mode.

    with_adapter, without = torch.compile(model), torch.compile(base)      # not model.enabled = False between calls

A number goes into a tensor that is changed in place, `self.scale.fill_(…)`, or is passed as an argument. What is loaded
later is loaded before the first call, or the calls are warmed up again after loading.

## Limits
Only driving code in the project is seen. An int on a module that is counted on has a rule of its own, CL605.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, Setting, View, Watch
from compilelint.static.facts.kept_numbers import is_kept_at, keeper_of
from compilelint.static.facts.moving import names_moved_on
from compilelint.static.facts.number_uses import computed_with, is_dict, needed_as_constant, spellings
from compilelint.static.facts.state import (
    first_read,
    held,
    is_integer,
    is_module,
    of_module_or_global,
    used_at,
    written,
)
from compilelint.static.facts.texts import taken_for_text
from compilelint.static.values import (
    NONE,
    Class,
    Const,
    Instance,
    Scalar,
    Sequence,
    Value,
    options,
)

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Attribute,))
EACH, LENGTH, IN_TIME = "for each new one", "whenever that changes", "when a step flips it"
"""How often it compiles again, where no warm-up hides it."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of what driving code changes, or the comparison with it."""
    setting = view.changed(node) if isinstance(node, ast.Attribute) else None
    if setting is None or not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    if first_read(node, view) is not node or any(True for _ in written(node, view.function)):
        return
    value = held(node, view)
    owner = view.kind(node.value)
    fixed = is_integer(value) and (isinstance(owner, Class) or of_module_or_global(node, view))
    if fixed and is_module(owner) and node.attr in names_moved_on(view.module):
        return  # CL605
    found = [(node, "its value", EACH)] if fixed else _guarded(node, value, setting, view)
    for read, what, how in found:
        once = how not in (EACH, LENGTH, IN_TIME)
        yield Hit(
            read if isinstance(read, ast.Call) else used_at(read, view),
            f"`{view.text(node)}` is set between calls of the compiled code ({view.where(setting.place)}):"
            f" Dynamo guards on {what}, so this function compiles again {how}",
            "decide in the code that calls (one compiled function for each mode), pass a number as an argument, or warm"
            " up with every value",
            "possible" if once else "likely",
        )


def _guarded(node: ast.Attribute, value: Value, setting: Setting, view: View) -> Iterator[tuple[ast.expr, str, str]]:
    """The expression that makes Dynamo guard on what is kept at `node`, on what, and how often it compiles again."""
    kinds = options(value)
    types = {kind.type for kind in kinds if isinstance(kind, (Const, Scalar))}
    if any(isinstance(kind, Sequence) and kind.form in ("list", "set", "tuple") for kind in kinds):
        yield node, "its length", LENGTH
    elif types & {"float", "int"} or any(map(is_dict, kinds)):
        places = spellings(node, view)
        pinned = next((where for where, _ in needed_as_constant(places, view)), None)
        used = keeper_of(places, view) or computed_with(node, places, view)
        if pinned is not None:
            yield pinned, "its value", EACH
        elif used is not None:
            yield used, "its value", EACH if is_kept_at(used, node, view) else "with the number as an input"
    elif "str" in types or (setting.steps and taken_for_text(setting.value, node, view)):
        yield node, "its value", EACH
    elif "bool" in types:
        yield node, "its value", IN_TIME if setting.steps else "for the other side"
    elif NONE in kinds and len(kinds) > 1:
        yield node, "whether it is None", "when it is something"
    elif isinstance(value, Instance) and not value.is_module:
        yield node, "what class it is of", "for another one"


BAD = (
    Example(
        code="""\
from contextlib import contextmanager

import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(4, 4) for name in ("style", "toy", "pixel", "none")})
        self.active = "none"

    @contextmanager
    def using(self, name):
        self.active = name
        try:
            yield
        finally:
            self.active = "none"

    def forward(self, x):
        return self.layers[self.active](x)  # ~


def make():
    model = Adapted()
    compiled = torch.compile(model)

    def score(x):
        total = compiled(x)
        for name in model.layers:
            with model.using(name):
                total = total + compiled(x)
        return total

    return score
""",
        run="(make(), [(torch.ones(2, 4),) for _ in range(2)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.layers = nn.ModuleDict()
        self.active = []
        self.scale = {"default": 1.0}

    def add(self, name):
        self.layers[name] = nn.Linear(4, 4)
        self.active.append(name)

    def forward(self, x):
        y = self.base(x)
        for name in self.active:  # ~
            y = y + self.layers[name](x)
        scale = self.scale["default"]
        if scale == 1:  # ~
            return y
        return y * scale


class Service:
    def __init__(self):
        self.model = Adapted()
        self.model.compile()

    def load(self, name):
        self.model.add(name)

    def __call__(self, x, name, scale):
        self.load(name)
        self.model.scale["default"] = scale
        return self.model(x)
""",
        run="(Service(), [(torch.ones(2, 4), f'a{n}', 1.0 + n) for n in range(4)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # A schedule that walks through the modules; a float that an operation keeps; numbers under `dynamic=False`.
        code="""\
import math

import torch
import torch.nn.functional as F
from torch import nn


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.active = False
        self.rate = 0.0
        self.decay = 1.0
        self.knobs = {"shift": 1}

    def cool(self, step):
        self.decay = self.decay * 0.9**step

    def forward(self, x):
        y = F.dropout(self.base(x), self.rate, self.training)  # ~
        y = y * math.exp(-self.decay) + self.knobs["shift"]  # ~
        return y + torch.randn_like(y) if self.active else y  # ~


class Schedule:
    def __init__(self, start):
        self.start = start

    def apply(self, model, step):
        for part in model.modules():
            if isinstance(part, Noisy):
                part.active = step >= self.start


def train(x):
    model = nn.Sequential(Noisy(), nn.ReLU(), Noisy())
    compiled = torch.compile(model)
    schedule = Schedule(2)
    for step in range(4):
        schedule.apply(model, step)
        compiled(x)


def anneal(x):
    model = Noisy()
    compiled = torch.compile(model)
    for step in range(4):
        model.cool(step)
        model.rate = step / 10
        model.knobs["shift"] = 2 + step
        compiled(x)
""",
        run="(lambda x: (train(x), anneal(x)), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.tau = 2.0
        self.how = "soft"
        self.turns = 1

    def cool(self, step):
        self.tau = max(0.3, self.tau * 0.9**step)
        self.turns = min(8, 2 + step)

    def forward(self, x):
        for _ in range(self.turns):  # ~
            x = x + self.gate(x)
        y = torch.softmax(self.gate(x) / self.tau, -1)  # ~
        if self.how == "hard":  # ~
            return y.round()
        return y * y if self.how == "sharp" else y


def fit(x):
    router = Router()
    compiled = torch.compile(router, dynamic=False)
    for step in range(4):
        router.cool(step)
        compiled(x)
    for how in ("soft", "hard", "sharp"):
        router.how = how
        compiled(x)
""",
        run="(fit, [(torch.ones(2, 4),)])",
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


class Adapted(nn.Module):
    def __init__(self, enabled=True):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.enabled = enabled
        self.last = None
        self.names = []

    def forward(self, x):
        y = self.base(x)
        return y * 2 if self.enabled and len(self.names) == 1 else y


class Service:
    def __init__(self):
        self.model = Adapted()
        self.model.enabled = False
        self.model.names.append("default")
        self.compiled = torch.compile(self.model)

    def __call__(self, x):
        self.model.enabled = False
        y = self.compiled(x)
        self.model.last = y
        return y
""",
        run="(Service(), [(torch.ones(2, 4),) for _ in range(3)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        # Floats become an input after one recompile.
        code="""\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.scale = 0.5
        self.least = 0.5

    def forward(self, x):
        y = self.base(x) * self.scale
        return torch.where(y > self.least, y, -y)


def make():
    model = Scaled()
    compiled = torch.compile(model)

    def serve(x, scale):
        model.scale = scale
        model.least = scale / 2
        return compiled(x)

    return serve
""",
        run="(make(), [(torch.ones(2, 4), 0.5 + n) for n in range(4)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # What is set after a reset meets no compiled code, and a flag around each call compiles once for each side.
        code="""\
import math

import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.how = "mean"
        self.plain = False
        self.decay = 0.5

    def forward(self, x):
        y = self.base(x) * math.sqrt(self.decay)
        if self.plain:
            return y * 2
        return y.mean() if self.how == "mean" else y.sum()


def compare(x):
    model = Scaled()
    compiled = torch.compile(model)
    mean = compiled(x)
    torch._dynamo.reset()
    model.how = "sum"
    return mean, compiled(x)


def prepare(module):
    if isinstance(module, Scaled):
        module.how = "sum"


def serve(xs):
    model = Scaled()
    model.apply(prepare)
    compiled = torch.compile(model)
    for x in xs:
        model.plain = True
        y = compiled(x)
        model.plain = False
        y = y + compiled(x)
    return y
""",
        run="(lambda x: (compare(x), serve([x, x])), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)
