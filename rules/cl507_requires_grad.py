"""Changing requires_grad inside compiled code splits the graph.

## What it does
Finds `requires_grad_()`, assignments to `requires_grad` and tensors made with `requires_grad=True`, or in training
with `requires_grad=self.training`, in code that Dynamo traces.

## Why it costs
Whether a tensor wants a gradient is decided before a graph is made. `x.requires_grad_()` on an input or parameter
that does not want one yet is not traced (GB0125); on a tensor computed here Dynamo finds out at the end that it can't
hand the result back (GB8985). Assigning `y.requires_grad` is not traced at all (GB0206), nor a factory call with
`requires_grad=True` (GB0225). In a loop over parameters no graph is left.

## Write instead
Freeze and unfreeze where the model is built. For gradients with respect to an input call `x.requires_grad_()` in the
caller, or use `torch.func.grad`, which needs no flag.

## Limits
`requires_grad_(False)` on a tensor that wants no gradient, a change that changes nothing, compiles; so `False` is not
reported for calls. `requires_grad=False` and `x.new_zeros(..., requires_grad=True)` compile. Calls on modules are not
reported: they break only the first time. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0125, GB0206, GB0225, GB8985.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once, assigned_to
from compilelint.static.facts.state import names_in
from compilelint.static.values import UNKNOWN, tensor_certainty

HAZARD = "graph-break"
NAMES = (
    "tensor",
    "zeros",
    "ones",
    "empty",
    "full",
    "rand",
    "randn",
    "randint",
    "arange",
    "linspace",
    "eye",
    "randperm",
)
FACTORIES = frozenset(
    [f"torch.{name}" for name in NAMES]
    + [f"torch.{name}_like" for name in ("zeros", "ones", "empty", "full", "rand", "randn")]
)
OUTSIDE = "do it where the tensor is made, outside the compiled code, or use `torch.func.grad`, which needs no flag"
WATCH = Watch(
    nodes=(ast.Call, ast.Assign),
    callees=FACTORIES.__contains__,
    syntax=lambda node, module: names_requires_grad(node),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per change of a gradient flag."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == "requires_grad":
                yield from assigned(node, target, view)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_":
            yield from switched(node, node.func.value, view)
        elif view.callee(node) in FACTORIES:
            yield from made(node, view.argument(node, 99, "requires_grad"), view)


def names_requires_grad(node: ast.AST) -> bool:
    """Whether `node` assigns `x.requires_grad` or calls `x.requires_grad_()`."""
    names = [*getattr(node, "targets", ()), getattr(node, "func", None)]
    return any(isinstance(name, ast.Attribute) and name.attr.startswith("requires_grad") for name in names)


def assigned(node: ast.Assign, target: ast.Attribute, view: View) -> Iterator[Hit]:
    """`y.requires_grad = ...`, on anything that may be a tensor."""
    kind = view.kind(target.value)
    certainty = tensor_certainty(kind) or ("likely" if kind == UNKNOWN else None)
    if certainty:
        yield Hit(
            node,
            f"assigning `{view.text(target)}` is not traced: Dynamo splits the graph here",
            OUTSIDE,
            certainty,
        )


def switched(node: ast.Call, owner: ast.expr, view: View) -> Iterator[Hit]:
    """`x.requires_grad_(flag)`, unless the flag is False, nothing depends on it, or the receiver is a module."""
    flag = view.argument(node, 0, "requires_grad")
    # An unknown attribute may be a module; an unknown variable or result is taken for the tensor it mostly is.
    guessed = view.kind(owner) == UNKNOWN and isinstance(owner, (ast.Name, ast.Call))
    if (isinstance(flag, ast.Constant) and not flag.value) or not (guessed or tensor_certainty(view.kind(owner))):
        return
    asked = assigned_to(view.function, flag.id) if isinstance(flag, ast.Name) else ()
    if any(_names_asked(value) & names_in(owner) for value in asked):
        return  # `flag = data.requires_grad if … else False; as_tensor(data).requires_grad_(flag)`: what it has anyway
    made = assigned_once(view.function, owner.id) if isinstance(owner, ast.Name) else None
    if isinstance(made, ast.Call) and view.callee(made).endswith(".__call__"):
        return
    yield Hit(
        node,
        f"`{view.text(node)}` changes what autograd tracks in compiled code: Dynamo splits the graph here",
        OUTSIDE,
        "likely",
    )


def _names_asked(value: ast.expr) -> set[str]:
    """The names of the tensors of which an expression asks for the flag."""
    flags = [part for part in ast.walk(value) if isinstance(part, ast.Attribute) and part.attr == "requires_grad"]
    return {name for flag in flags for name in names_in(flag.value)}


def made(node: ast.Call, flag: ast.expr | None, view: View) -> Iterator[Hit]:
    """`torch.zeros(n, requires_grad=flag)`, where the flag is True or whether the module trains."""
    trains = isinstance(flag, ast.Attribute) and flag.attr == "training"
    if trains or (isinstance(flag, ast.Constant) and flag.value is True):
        yield Hit(
            node,
            f"`{view.text(node)}` makes a tensor that wants a gradient{' in training' if trains else ''}, which Dynamo"
            " does not trace: the graph splits here",
            OUTSIDE,
            "likely" if trains else "certain",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        probe = x.clone().requires_grad_()  # ~
        return torch.sigmoid(self.fc(probe))
""",
        run="(Probe(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


@torch.compile
def relaxed(x):
    y = x * 2
    y.requires_grad = True  # ~
    shift = torch.zeros(4, requires_grad=True)  # ~
    return y + shift
""",
        run="(relaxed, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Commitment(nn.Module):
    def forward(self, x, code):
        loss = torch.tensor([0.0], device=x.device, requires_grad=self.training)  # ~
        return loss + (x - code.detach()).square().mean()
""",
        run="(Commitment(), [(torch.ones(2, 4), torch.zeros(2, 4))])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)
        self.fc.bias.requires_grad_(False)
        self.fc.weight.requires_grad = True

    def forward(self, x):
        x = x.detach().requires_grad_(False)
        start = torch.zeros(1, requires_grad=False)
        wants = torch.ones(1, requires_grad=x.requires_grad)
        flag = x.requires_grad if isinstance(x, torch.Tensor) else False
        x = torch.as_tensor(x).requires_grad_(flag)
        return self.fc(x) + start + wants
""",
        run="(Probe(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
