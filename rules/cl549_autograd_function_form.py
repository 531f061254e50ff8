"""Some forms of `torch.autograd.Function` are not traced: `jvp` or `vjp`, one tensor twice, `mark_dirty` of a copy.

## What it does
Finds calls of `F.apply(...)` in code that Dynamo traces, where `F` is a `torch.autograd.Function` of the project that
defines `jvp` or `vjp`, that is handed the same tensor for two inputs, or whose `forward` marks an input as dirty and
gives back something else than this input.

## Why it costs
Dynamo puts `forward` and `backward` of such a function into the graph. It has no place there for a derivative in
forward mode (GB0144, GB0145), can't tell apart the gradients of one tensor that comes in twice (GB6297), and wants what
was marked as dirty back by its own name (GB2464). The graph splits at the call, and the function runs in Python.

## Write instead
Leave `jvp` out where nobody asks for forward mode. Pass a view of the second one, `Attend.apply(q, k, k.view_as(k))`,
or let the function take the tensor once. Return what was marked:

    x.clamp_(0, 1)
    ctx.mark_dirty(x)
    return x                # not x.clamp_(0, 1)

## Limits
Functions with `setup_context`, `vmap`, `generate_vmap_rule`, `once_differentiable` or `custom_fwd` compile. Where no
input needs a gradient, as under `torch.no_grad()`, `jvp` and tensors that come in twice compile as well, and
`mark_dirty` in no form. Torch 2.11 compiles one tensor twice and any `mark_dirty`. Measured on torch 2.11, 2.13 and
2.14.

## References
torch documentation: "Extending PyTorch", `torch.autograd.Function`. GB0144, GB0145, GB2464, GB6297.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import own_nodes
from compilelint.static.values import Class, Partial, options, tensor_certainty

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name == "torch.autograd.Function.apply")
SHARED_INPUTS = (2, 13)
"""From this torch on Dynamo tells inputs apart, and gives up where a tensor is two of them or comes back as another."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """At most one hit per call of `apply`."""
    if not isinstance(node, ast.Call):
        return
    twice = _passed_twice(node, view) if view.torch >= SHARED_INPUTS else None
    for function in _functions(node, view):
        forward_mode = next((name for name in ("jvp", "vjp") if name in _methods(function, view)), None)
        dirty = _not_returned(function, view) if view.torch >= SHARED_INPUTS else None
        if forward_mode is not None:
            yield Hit(
                node,
                f"`{function.ref.qualname}` defines `{forward_mode}`, which Dynamo does not trace: it splits the graph"
                " here and lets Python run the function",
                f"leave `{forward_mode}` out where nobody asks for forward-mode derivatives",
                "likely",
            )
        elif twice is not None:
            yield Hit(
                node,
                f"`{twice}` is passed to `{function.ref.qualname}` twice: Dynamo can't tell the two gradients apart and"
                " splits the graph here",
                f"pass a view of the second one, `{twice}.view_as({twice})`, or take the tensor once",
                "likely",
            )
        elif dirty is not None:
            yield Hit(
                node,
                f"`{function.ref.qualname}.forward` marks `{dirty}` as dirty and gives back something else: Dynamo does"
                " not trace that and splits the graph here",
                f"change `{dirty}` in a statement of its own and return `{dirty}`",
                "likely",
            )
        return


def _functions(call: ast.Call, view: View) -> Iterator[Class]:
    for option in options(view.kind(call.func)):
        if isinstance(option, Partial) and option.args and isinstance(option.args[0], Class):
            yield option.args[0]


def _methods(function: Class, view: View) -> dict[str, ast.FunctionDef]:
    """What the class and its bases in the project define, by name; of several the one that counts."""
    found: dict[str, ast.FunctionDef] = {}
    for owner in (view.definition(function), *view.classes(function)[1:]):
        for member in owner.body if isinstance(owner, ast.ClassDef) else ():
            if isinstance(member, ast.FunctionDef):
                found.setdefault(member.name, member)
    return found


def _passed_twice(call: ast.Call, view: View) -> str | None:
    """A tensor that stands among the arguments more than once, as written."""
    seen: set[str] = set()
    for argument in call.args:
        if isinstance(argument, (ast.Name, ast.Attribute)) and tensor_certainty(view.kind(argument)) is not None:
            text = ast.unparse(argument)
            if text in seen:
                return text
            seen.add(text)
    return None


def _not_returned(function: Class, view: View) -> str | None:
    """An input that `forward` marks as dirty, but does not give back under its name."""
    forward = _methods(function, view).get("forward")
    if forward is None:
        return None
    nodes = own_nodes(forward)
    marked = [
        argument.id
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "mark_dirty"
        for argument in node.args
        if isinstance(argument, ast.Name)
    ]
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    names = {
        part.id
        for value in returned
        for part in (value.elts if isinstance(value, ast.Tuple) else [value])
        if isinstance(part, ast.Name)
    }
    return next((name for name in marked if name not in names), None)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * tangent


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return Cube.apply(self.proj(x)).sum()  # ~
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value):
        weights = (query @ key.mT).softmax(-1)
        ctx.save_for_backward(weights, value)
        return weights @ value

    @staticmethod
    def backward(ctx, grad):
        weights, value = ctx.saved_tensors
        return grad, grad, weights.mT @ grad


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.clamp_(0, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        h = Attend.apply(h, h, h)  # ~
        return Clamp.apply(h * 2)  # ~
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, scale=1.0):
        weights = (query @ key.mT).mul(scale).softmax(-1)
        ctx.save_for_backward(weights, value)
        return weights @ value

    @staticmethod
    def backward(ctx, grad):
        weights, value = ctx.saved_tensors
        return grad, grad, weights.mT @ grad, None


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.clamp_(0, 1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.width = 2.0

    def forward(self, x):
        h = self.proj(x)
        h = Attend.apply(h, h.view_as(h), h * 1.0, self.width) + self.width
        return Cube.apply(Clamp.apply(h * 2))
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
