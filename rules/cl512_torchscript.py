"""TorchScript modules and helpers are not traced.

## What it does
Finds calls of `torch.jit.isinstance`, `torch.jit.fork` and `torch.jit.wait`, and calls of modules that
`torch.jit.script`, `torch.jit.trace`, `torch.jit.freeze` or `torch.jit.load` made, in code that Dynamo traces.

## Why it costs
A scripted module runs in an interpreter of its own, which Dynamo does not enter (GB4695; GB0008 for a traced one): it
gives up the function around it. `torch.jit.isinstance` is marked as not traced (GB0007), although the plain builtin
compiles.

## Write instead
Compile the original module and drop the scripting; `isinstance(x, torch.Tensor)` for `torch.jit.isinstance`.

## Limits
A scripted or traced *function* compiles, and so do `torch.jit.is_scripting()`, `torch.jit.annotate` and methods under
`torch.jit.ignore` or `torch.jit.export`. Modules are found where the same file scripts them. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0007, GB0008, GB4695.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.project.answers import about_file
from compilelint.static.project.bindings import all_bound, bound_to
from compilelint.static.values import ExternalInstance, Instance, options

HAZARD = "graph-break"
HELPERS = frozenset({"torch.jit.isinstance", "torch.jit.fork", "torch.jit.wait", "torch.jit.script", "torch.jit.trace"})
LOADERS = frozenset({"torch.jit.load", "jit.load"})
MAKERS = LOADERS | {"torch.jit.script", "torch.jit.trace", "torch.jit.freeze", "jit.script", "jit.trace"}
JIT = frozenset(maker.rpartition(".")[2] for maker in MAKERS)
WATCH = Watch(
    nodes=(ast.Call,),
    callees=HELPERS.__contains__,
    syntax=lambda node, module: isinstance(node, ast.Call) and bool(_made_by_jit(node.func, module)),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per helper and per scripted module that is called."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    if callee in HELPERS:
        plain = callee.replace("torch.jit.", "")
        yield Hit(
            node,
            f"`{view.text(node)}` belongs to TorchScript, which Dynamo does not trace: the graph splits here",
            "use the builtin `isinstance`" if plain == "isinstance" else "call the function itself, and compile that",
        )
    elif is_scripted(node.func, view):
        yield Hit(
            node,
            f"`{view.text(node.func)}` is a TorchScript module, which Dynamo does not enter: the function"
            " runs uncompiled",
            "call the module that was scripted: Dynamo compiles it with the rest",
            hazard="frame-skip",
        )


def is_scripted(function: ast.expr, view: View) -> bool:
    """Whether this file binds the module that is called to something TorchScript made."""
    made = _made_by_jit(function, view.module)
    module = any(map(is_module, options(view.kind(function))))
    return bool(made) and (module or all(map(gives_module, made)))


def _made_by_jit(function: ast.expr, module: ast.Module) -> list[ast.Call]:
    """The calls of TorchScript whose result the file binds to the name that is called."""
    name = last_name(function)
    return [call for call in bound_to(module, name) if _is_jit(call)] if name in _bound_to_jit(module) else []


@about_file(frozenset())
def _bound_to_jit(module: ast.Module) -> frozenset[str]:
    """The names to which the file binds what TorchScript makes, and maybe other things."""
    return frozenset(name for name, made in all_bound(module).items() if any(map(_is_jit, made)))


def _is_jit(call: ast.Call) -> bool:
    return last_name(call.func) in JIT and ast.unparse(call.func) in MAKERS


def gives_module(call: ast.Call) -> bool:
    """Whether it shows in `torch.jit.trace(Net(), x)` that the result is a module: what is traced is made there."""
    built = call.args[0] if call.args else None
    name = last_name(built.func) if isinstance(built, ast.Call) else ""
    return ast.unparse(call.func) in LOADERS or name[:1].isupper()


def is_module(kind: object) -> bool:
    """Whether `kind` is a module: of the project, of torch, or one that TorchScript made."""
    if isinstance(kind, ExternalInstance):
        return not kind.name.endswith(".ScriptFunction")
    return isinstance(kind, Instance) and kind.is_module


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, skip=None):
        h = self.fc(x)
        if torch.jit.isinstance(skip, torch.Tensor):  # ~
            h = h + skip
        return h
""",
        run="(Unet(), [(torch.ones(2, 4), torch.ones(2, 4))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) * x


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.gate = torch.jit.script(Gate())

    def forward(self, x):
        return self.gate(self.fc(x))  # ~
""",
        run="(Mixed(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


@torch.jit.script
def gate(x):
    return torch.sigmoid(x) * x


def double(x):
    return x * 2


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.gate = torch.jit.script(gate)
        self.double = torch.jit.trace(double, torch.ones(2, 4))

    @torch.jit.export
    def helper(self, x):
        return x + 1

    def forward(self, x, skip=None):
        if torch.jit.is_scripting() or not isinstance(skip, torch.Tensor):
            return self.helper(x)
        return gate(self.fc(x)) + self.gate(self.double(skip))
""",
        run="(Unet(), [(torch.ones(2, 4), torch.ones(2, 4))])",
        default="clean",
        fullgraph="clean",
    ),
)
