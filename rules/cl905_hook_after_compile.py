"""A forward hook that is registered after the compiled module has run is ignored without a word.

## What it does

Finds `register_forward_hook` and its relatives on a module, or a part of it, after the same function has already
called the compiled version, in a function that it hands such a module to then, and in a method that it calls once a
count of steps is reached.

## Why it costs

Guards on hooks are off by default (`torch._dynamo.config.skip_nnmodule_hook_guards`): the graph that was compiled
without the hook stays valid, and the hook never runs. Measured on torch 2.13: the output differs from eager, and
nothing is raised or logged. (Removing a hook that was there at compile time is noticed.)

## Write instead

Register hooks before the first call, or call `torch.compiler.reset()` after registering, or set
`torch._dynamo.config.skip_nnmodule_hook_guards = False`, which costs guard time on every call.

## References

Config `skip_nnmodule_hook_guards`; PyTorch documentation "torch.compile", on module hooks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.compiled_pairs import compiled_pairs, is_reset_after, runs_of
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import arguments_by_parameter, functions_in, names_in, own_nodes, parameters

HAZARD = "stale-result"
REGISTERING = frozenset(
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
    ]
)
WATCH = Watch(nodes=(ast.Call,), names=REGISTERING, regions=frozenset({"host", "decode-loop", "batch-loop"}))
PARTS = frozenset({"modules", "named_modules", "children", "named_children"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the registration on a module whose compiled version has run by then."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    hooked = _whole(node.func.value, view.function)
    if ran := _ran_before(hooked, node.lineno, view.function, view.module):
        yield _hit(node, f"`{ran[0]}` has run before (line {ran[1]})")
    elif handed := _handed_late(hooked, view):
        yield _hit(node, f"`{handed[0]}` calls this (line {handed[2]}) when `{handed[1]}` has run")
    elif isinstance(node.func.value, ast.Name) and (late := _attached_late(view)):
        yield _hit(node, f"`{late[0]}` calls this when `{late[1]}` has run")


def _hit(node: ast.Call, ran: str) -> Hit:
    return Hit(
        node,
        f"{ran}, and its graph is not guarded on hooks: this one never runs in compiled code",
        "register it before the first call, or call `torch.compiler.reset()` after registering",
        confidence="likely",
    )


def _whole(hooked: ast.expr, function: ast.AST) -> str:
    """What is hooked, as it is spelled; for the variable of a loop over a module's parts, that module."""
    if isinstance(hooked, ast.Name):
        for loop in own_nodes(function):
            if isinstance(loop, ast.For) and hooked.id in names_in(loop.target):
                for call in ast.walk(loop.iter):
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in PARTS:
                        return ast.unparse(call.func.value)
    return ast.unparse(hooked)


def _ran_before(hooked: str, line: int, function: ast.AST, module: ast.Module) -> tuple[str, int] | None:
    """What a function has run compiled, and on which line, before `line`, of which `hooked` is the module or a part."""
    for pair in compiled_pairs(module):
        names = (pair.compiled, pair.model)
        is_part = any(hooked == name or hooked.startswith((f"{name}.", f"{name}[")) for name in names)
        ran = [before for before in runs_of(pair, function, module) if before < line] if is_part else []
        if ran and not is_reset_after(line, function):
            return pair.compiled, ran[0]
    return None


def _handed_late(hooked: str, view: View) -> tuple[str, str, int] | None:
    """The function that passes for a parameter what it has run compiled: its name, what ran, the line of the call."""
    if isinstance(view.function, ast.Module) or hooked not in parameters(view.function):
        return None
    name = getattr(view.function, "name", "")
    for function in functions_in(view.module):
        for call in own_nodes(function) if function is not view.function else ():
            if isinstance(call, ast.Call) and last_name(call.func) == name:
                handed = arguments_by_parameter(call, view.function).get(hooked)
                text = ast.unparse(handed) if handed is not None else ""
                if ran := _ran_before(text, call.lineno, function, view.module):
                    return function.name, ran[0], call.lineno
    return None


def _attached_late(view: View) -> tuple[str, str] | None:
    """The function that calls this one in a later call of its own, and what it runs compiled: only by a count."""
    name = getattr(view.function, "name", "")
    for function in functions_in(view.module):
        pairs = compiled_pairs(view.module)
        compiled = next((pair.compiled for pair in pairs if runs_of(pair, function, view.module)), None)
        if compiled is None or function is view.function:
            continue
        for test in own_nodes(function):
            if isinstance(test, ast.If) and _is_later(test.test):
                called = [
                    node.func for statement in test.body for node in ast.walk(statement) if isinstance(node, ast.Call)
                ]
                if any(isinstance(func, ast.Attribute) and func.attr == name for func in called):
                    return function.name, compiled
    return None


def _is_later(test: ast.expr) -> bool:
    """Whether a test waits for a count to be reached: `step == self.start`, `epoch >= 3`; not `step == 0`."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], (ast.Eq, ast.Gt, ast.GtE))
        and all(not isinstance(side, ast.Constant) or _is_positive(side.value) for side in test.comparators)
        and any(word in _COUNTS for node in ast.walk(test.left) for word in _words(node))
    )


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


_COUNTS = frozenset("step steps epoch epochs iteration iter round turn count no n".split())


def _words(node: ast.AST) -> list[str]:
    """The words of a variable's or an attribute's name."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.lower().split("_")


BAD = (
    Example(
        code="""
import torch
from torch import nn


def double(module, inputs, output):
    return output * 2


def serve(x):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = torch.compile(model)
    first = compiled(x)
    model[1].register_forward_hook(double)  # ~
    return first, compiled(x)
""",
        run="serve, [(torch.ones(2, 4),)]",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


def double(module, inputs, output):
    return output * 2


class Runner:
    def __init__(self, net):
        self.net = net
        self.fast = torch.compile(net)

    def __call__(self, x):
        first = self.fast(x)
        self.net.register_forward_hook(double)  # ~
        return first, self.fast(x)
""",
        run="Runner(nn.Linear(4, 4)), [(torch.ones(2, 4),)]",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


def double(module, inputs, output):
    return output * 2


class Runner:
    def __init__(self, net, start=1):
        self.net, self.start = net, start
        self.fast, self.handles = torch.compile(net), []

    def __call__(self, x):
        first = self.fast(x)
        for layer in self.net.children():
            self.handles.append(layer.register_forward_hook(double))  # ~
        return first, self.fast(x)
""",
        run="Runner(nn.Sequential(nn.Linear(4, 4))), [(torch.ones(2, 4),)]",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


def double(module, inputs, output):
    return output * 2


class Tap:
    def __init__(self, model):
        self.model = model

    def attach(self):
        for name, part in self.model.named_modules():
            if isinstance(part, nn.Linear):
                part.register_forward_hook(double)  # ~


class Trainer:
    def __init__(self, net, start=2):
        self.fast, self.tap = torch.compile(net), Tap(net)
        self.start, self.step_count = start, 0

    def __call__(self, x):
        self.step_count += 1
        if self.step_count == self.start:
            self.tap.attach()
        return self.fast(x)
""",
        run="Trainer(nn.Sequential(nn.Linear(4, 4))), [(torch.ones(2, 4),), (torch.ones(2, 4),)]",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
    Example(
        code="""
import contextlib

import torch
from torch import nn


class Probe:
    def __init__(self, factor):
        self.factor = factor

    def attach(self, part):
        return part.register_forward_hook(lambda module, inputs, output: output * self.factor)  # ~


@contextlib.contextmanager
def zeroed(module: nn.Module):
    handle = module.register_forward_hook(lambda module, inputs, output: output * 0)  # ~
    try:
        yield
    finally:
        handle.remove()


class Lab:
    def __init__(self, net):
        self.raw = net
        self.fast = torch.compile(net)

    def __call__(self, x):
        before = self.fast(x)
        handle = Probe(0.0).attach(self.raw[1])
        with zeroed(self.raw[0]):
            after = self.fast(x)
        handle.remove()
        return before, after
""",
        run="Lab(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), [(torch.ones(2, 4),)]",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


def attach(part):
    return part.register_forward_hook(lambda module, inputs, output: output * 2)


class Lab:
    def __init__(self, net, other):
        self.raw, self.other = net, other
        self.fast = torch.compile(net)

    def __call__(self, x):
        before = self.other(x)
        handle = attach(self.raw[0])
        after = self.fast(x)
        second = attach(self.other)
        third = self.other(after)
        second.remove()
        handle.remove()
        return before, after, third
""",
        run="Lab(nn.Sequential(nn.Linear(4, 4)), nn.Linear(4, 4)), [(torch.ones(2, 4),)]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


def double(module, inputs, output):
    return output * 2


def serve(x):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model[1].register_forward_hook(double)
    compiled = torch.compile(model)
    other = nn.Linear(4, 4)
    first = compiled(x)
    other.register_forward_hook(double)
    return first, compiled(x), other(x)
""",
        run="serve, [(torch.ones(2, 4),)]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


def double(module, inputs, output):
    return output * 2


class Tap:
    def __init__(self, model):
        self.model, self.handles = model, []

    def attach(self):
        for part in self.model.modules():
            if isinstance(part, nn.Linear):
                self.handles.append(part.register_forward_hook(double))


class Trainer:
    def __init__(self, net):
        self.fast, self.tap, self.step_count = torch.compile(net), Tap(net), 0

    def __call__(self, x):
        if self.step_count == 0:
            self.tap.attach()
        if not self.tap.handles:
            self.tap.attach()
        self.step_count += 1
        return self.fast(x)
""",
        run="Trainer(nn.Sequential(nn.Linear(4, 4))), [(torch.ones(2, 4),), (torch.ones(2, 4),)]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
