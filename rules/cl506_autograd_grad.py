"""Asking autograd for gradients inside compiled code splits the graph.

## What it does
Finds `torch.autograd.grad`, the functions of `torch.autograd.functional`, anomaly detection, hooks on saved tensors
and reads of `grad_fn` in code that Dynamo traces.

## Why it costs
By default Dynamo does not trace `torch.autograd.grad` (GB9186, with the flag below it does) and can't represent the
recorded graph: reading `y.grad_fn` of a tensor with one gives up the whole function (GB0104). `jacobian` and `vjp` of
`torch.autograd.functional` fail while compiling. `with torch.autograd.detect_anomaly():`, `saved_tensors_hooks` and
`save_on_cpu` can't be entered (GB0142).

## Write instead
`torch.func.grad`, `torch.func.vjp` and `torch.func.jacrev` compile:

    forces = -torch.func.grad(lambda p: energy(p).sum())(positions)

Or set `torch._dynamo.config.trace_autograd_ops = True` (torch 2.11 on) for `torch.autograd.grad`. Recompute instead
of offloading: `torch.utils.checkpoint` compiles.

## Limits
`x.requires_grad`, `x.is_leaf`, `parameter.grad` and `grad_fn` of a tensor without a history are read without a break.
Reads of `grad_fn` are reported on results of a known module, where the history is called or looked into, and behind
`if y.requires_grad`; an argument that is compared with None there may be a leaf and is left alone. Measured on torch
2.13.

## References
torch.compile documentation: "Common Graph Breaks"; torch.func documentation. GB0104, GB0142, GB8985, GB9186.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.state import parameters
from compilelint.static.values import tensor_certainty

HAZARD = "graph-break"
FUNCTIONAL = ("jacobian", "hessian", "vjp", "jvp", "vhp", "hvp")
CALLS = frozenset({"torch.autograd.grad", *(f"torch.autograd.functional.{name}" for name in FUNCTIONAL)})
CONTEXTS = frozenset(
    {
        "torch.autograd.detect_anomaly",
        "torch.autograd.set_detect_anomaly",
        "torch.autograd.graph.saved_tensors_hooks",
        "torch.autograd.graph.save_on_cpu",
    }
)
WATCH = Watch(
    nodes=(ast.Call, ast.Attribute),
    callees=lambda name: name in CALLS | CONTEXTS,
    syntax=lambda node, module: isinstance(node, ast.Attribute) and node.attr == "grad_fn",
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call into autograd, and per read of a recorded history."""
    if isinstance(node, ast.Attribute) and node.attr == "grad_fn" and has_history(node, view):
        yield Hit(
            node,
            f"`{view.text(node)}` is the recorded graph, which Dynamo can't represent: the whole function runs"
            " uncompiled",
            "ask for `requires_grad` instead",
            "likely",
            "frame-skip",
        )
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    if callee in CALLS:
        yield Hit(
            node,
            f"`{view.text(node)}` asks autograd for gradients, which Dynamo does not trace: the graph splits here",
            "use `torch.func.grad` or `torch.func.vjp`, or set `torch._dynamo.config.trace_autograd_ops`",
        )
    elif callee in CONTEXTS:
        yield Hit(
            node,
            f"Dynamo can't enter `{view.text(node)}`: the whole function runs uncompiled",
            "enter it around the compiled call; to save memory use `torch.utils.checkpoint`, which compiles",
            hazard="frame-skip",
        )


def has_history(node: ast.Attribute, view: View) -> bool:
    """Whether `y.grad_fn` is a graph and not None: `y` came out of a layer, or the code goes on as if it had one."""
    if is_result_of_module(node.value, view):
        return True
    if tensor_certainty(view.kind(node.value)) is None:
        return False
    above = next(view.parents(node), None)
    if isinstance(above, ast.Attribute) or (isinstance(above, ast.Call) and above.func is node):
        return True
    given = isinstance(node.value, ast.Name) and node.value.id in parameters(view.function)
    if given and isinstance(above, ast.Compare):
        return False  # an input may be a leaf, which wants a gradient and has no history
    asked = f"{ast.unparse(node.value)}.requires_grad"
    below: ast.AST = node
    for parent in view.parents(node):
        if isinstance(parent, ast.If) and below in parent.body and _requires(parent.test, asked):
            return True
        below = parent
    return False


def _requires(test: ast.expr, asked: str) -> bool:
    """Whether a test holds only where `asked` does: `y.requires_grad and self.check`."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(ast.unparse(part) == asked for part in parts)


def is_result_of_module(node: ast.expr, view: View) -> bool:
    """Whether `node` came out of a layer of torch.nn, so that it has a history where that layer is trained."""
    made = assigned_once(view.function, node.id) if isinstance(node, ast.Name) else node
    callee = view.callee(made) if isinstance(made, ast.Call) else ""
    return callee.startswith("torch.nn.") and callee.endswith(".__call__")


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)

    def forward(self, positions):
        energy = torch.tanh(self.fc(positions)).sum()
        return torch.autograd.grad(energy, self.fc.weight)[0]  # ~
""",
        run="(Potential(), [(torch.ones(2, 3),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn

layer = nn.Linear(4, 4)


@torch.compile
def offloaded(x):
    with torch.autograd.graph.save_on_cpu():  # ~
        return layer(x)
""",
        run="(offloaded, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x, target):
        error = (self.fc(x).sum(-1) - target).square()
        if error.requires_grad and self.training:
            slopes = error.grad_fn(torch.ones_like(error))  # ~
            error = error * slopes.isfinite()
        return error.sum()
""",
        run="(Checked(), [(torch.ones(2, 3), torch.ones(2))])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)

    def energy(self, positions):
        return torch.tanh(self.fc(positions)).sum()

    def forward(self, positions):
        if positions.requires_grad:
            assert positions.grad_fn is None, "positions are no results"
            positions = positions.detach()
        if positions.grad_fn is None:
            positions = positions * 1.0
        return -torch.func.grad(self.energy)(positions)
""",
        run="(Potential(), [(torch.ones(2, 3),)])",
        default="clean",
        fullgraph="clean",
    ),
)
