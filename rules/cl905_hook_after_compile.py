"""A forward hook that is registered after the compiled module has run is ignored without a word.

## What it does

Finds `register_forward_hook` and its relatives on a module, or a part of it, after the same function has already
called the compiled version.

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
from functools import lru_cache

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.state import functions_in, own_nodes

HAZARD = "stale-result"
REGISTERING = frozenset(
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
    ]
)
WATCH = Watch(nodes=(ast.Call,), names=REGISTERING, regions=frozenset({"host", "decode-loop"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the registration on a module whose compiled version has run by then."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    hooked = ast.unparse(node.func.value)
    for compiled, model in _compiled(view.module):
        is_part = any(hooked == name or hooked.startswith((f"{name}.", f"{name}[")) for name in (compiled, model))
        ran = [line for line in _calls(compiled, view) if line < node.lineno]
        if is_part and ran and not _resets(node.lineno, view):
            yield Hit(
                node,
                f"`{compiled}` has run before (line {ran[0]}), and its graph is not guarded on hooks: this one"
                " never runs in compiled code",
                "register it before the first call, or call `torch.compiler.reset()` after registering",
                confidence="likely",
            )
            return


@lru_cache(maxsize=256)
def _compiled(module: ast.Module) -> tuple[tuple[str, str], ...]:
    """Each `a = torch.compile(b)` of the file, as it is spelled: (a, b); also (a, c) where `c = b` stands beside it."""
    found = []
    for function in (module, *functions_in(module)):
        assigned = [node for node in own_nodes(function) if isinstance(node, ast.Assign)]
        for node in assigned:
            if not (isinstance(node.value, ast.Call) and node.value.args):
                continue
            if ast.unparse(node.value.func) == "torch.compile":
                compiled = ast.unparse(node.value.args[0])
                names = [ast.unparse(target) for other in assigned for target in other.targets if _is(other, compiled)]
                found += [(ast.unparse(target), name) for target in node.targets for name in (compiled, *names)]
    return tuple(found)


def _is(assigned: ast.Assign, name: str) -> bool:
    """Whether an assignment gives another name, an attribute of `self`, to what `name` is: `self.net = net`."""
    return (
        isinstance(assigned.value, ast.Name)
        and assigned.value.id == name
        and isinstance(assigned.targets[0], ast.Attribute)
    )


def _calls(name: str, view: View) -> list[int]:
    """The lines on which the function calls `name`."""
    calls = [node for node in own_nodes(view.function) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if ast.unparse(call.func) == name]


def _resets(line: int, view: View) -> bool:
    """Whether compiled code is thrown away after `line`."""
    return any(
        isinstance(node, ast.Call)
        and node.lineno > line
        and ast.unparse(node.func).endswith(("_dynamo.reset", "compiler.reset"))
        for node in own_nodes(view.function)
    )


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
)

GOOD = (
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
)
