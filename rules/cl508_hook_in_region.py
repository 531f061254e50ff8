"""Registering a module hook, or keeping a gradient, inside compiled code splits the graph.

## What it does
Finds `register_forward_hook` and the other hooks of modules, their global forms, and `Tensor.retain_grad()` in code
that Dynamo traces.

## Why it costs
A module hook is a change to the module while it is being compiled: Dynamo can't make the handle (GB0467) and, where
the handle is kept, gives up the function (GB0013). Backward hooks of modules are not traced either (GB0083).
`retain_grad()` has no meaning for a tensor inside a graph (GB0108). A hook that is registered after the first compile
may be ignored by the compiled code.

## Write instead
Register hooks before compiling, or return the intermediate values from `forward`. For the gradient of an intermediate
value return it and call `torch.autograd.grad` outside.

## Limits
`Tensor.register_hook(fn)` compiles and stays silent; only removing its handle in the same function fails. Measured on
2.13.

## References
torch.compile documentation: "Common Graph Breaks"; "nn.Module hooks support". GB0013, GB0083, GB0108, GB0467.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
MODULE_HOOKS = frozenset(
    [
        f"register_{scope}{name}"
        for scope in ("", "module_")
        for name in (
            "forward_hook",
            "forward_pre_hook",
            "full_backward_hook",
            "full_backward_pre_hook",
            "backward_hook",
        )
    ]
)
WATCH = Watch(nodes=(ast.Call,), names=MODULE_HOOKS | {"retain_grad"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per hook that is registered and per gradient that is kept."""
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in MODULE_HOOKS:
        yield Hit(
            node,
            f"`{view.text(node)}` changes a module while it is compiled: Dynamo splits the graph here",
            "register hooks before compiling, or return the values that the hook collects",
        )
    elif name == "retain_grad":
        yield Hit(
            node,
            f"`{view.text(node)}` can't be in a graph: Dynamo splits the graph here",
            "return the tensor and ask for its gradient outside: `torch.autograd.grad(loss, tensor)`",
            "certain" if view.callee(node) == "torch.Tensor.retain_grad" else "likely",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Collector(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.kept = {}

    def keep(self, module, args, output):
        self.kept["fc"] = output

    def forward(self, x):
        handle = self.fc.register_forward_hook(self.keep)  # ~
        y = self.fc(x)
        handle.remove()
        return y
""",
        run="(Collector(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn

layer = nn.Linear(4, 4)


@torch.compile
def saliency(x):
    h = torch.relu(layer(x))
    h.retain_grad()  # ~
    return h.sum(), h
""",
        run="(saliency, [(torch.ones(2, 4),)])",
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


class Collector(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.fc.register_forward_hook(self.double)

    def double(self, module, args, output):
        return output * 2

    def forward(self, x):
        y = torch.relu(self.fc(x))
        y.register_hook(lambda gradient: gradient * 2)
        return y
""",
        run="(Collector(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
