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
`mark_dirty` in no form; where only a caller switches gradients off, that is not seen. For `jvp` and tensors that come
in twice this is possible only in a function on tensors that is compiled by itself, where nothing says whether one needs
a gradient; for `mark_dirty` where `forward` marks under a condition. Torch 2.11 compiles one tensor twice and any
`mark_dirty`. Measured on torch 2.11, 2.13 and 2.14.

## References
torch documentation: "Extending PyTorch", `torch.autograd.Function`. GB0144, GB0145, GB2464, GB6297.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_to, last_name
from compilelint.static.facts.state import own_nodes
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Class, Partial, Tensor, options, tensor_certainty

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name == "torch.autograd.Function.apply")
OFF = frozenset({"no_grad", "inference_mode"})
SWITCHES = OFF | {"enable_grad", "set_grad_enabled"}
MOST_STEPS = 4
"""How many variables what `forward` gives back is followed through."""
SHARED_INPUTS = (2, 13)
"""From this torch on Dynamo tells inputs apart, and gives up where a tensor is two of them or comes back as another."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """At most one hit per call of `apply`."""
    if not isinstance(node, ast.Call):
        return
    differentiated = _may_need_gradient(node, view)
    twice = _passed_twice(node, view) if differentiated and view.torch >= SHARED_INPUTS else None
    sure: Confidence = "possible" if view.entry and not view.of_module else "likely"
    for function in _functions(node, view):
        forward_mode = _forward_mode(function, view) if differentiated else None
        dirty = _not_returned(function, view) if view.torch >= SHARED_INPUTS else None
        if forward_mode is not None:
            yield Hit(
                node,
                f"`{function.ref.qualname}` defines `{forward_mode}`, which Dynamo does not trace: it splits the graph"
                " here and lets Python run the function",
                f"leave `{forward_mode}` out where nobody asks for forward-mode derivatives",
                sure,
            )
        elif twice is not None:
            yield Hit(
                node,
                f"`{twice}` is passed to `{function.ref.qualname}` twice: Dynamo can't tell the two gradients apart and"
                " splits the graph here",
                f"pass a view of the second one, `{twice}.view_as({twice})`, or take the tensor once",
                sure,
            )
        elif dirty is not None:
            name, conditional = dirty
            yield Hit(
                node,
                f"`{function.ref.qualname}.forward` marks `{name}` as dirty and gives back something else: Dynamo does"
                " not trace that and splits the graph here",
                f"change `{name}` in a statement of its own and return `{name}`",
                "possible" if conditional else "likely",
            )
        return


def _functions(call: ast.Call, view: View) -> Iterator[Class]:
    for option in options(view.kind(call.func)):
        if isinstance(option, Partial) and option.args and isinstance(option.args[0], Class):
            yield option.args[0]


def _may_need_gradient(call: ast.Call, view: View) -> bool:
    """Whether an argument may be one to differentiate by: no integer or mask, and gradients are not switched off."""
    around = [item.context_expr for w in view.parents(call) if isinstance(w, ast.With) for item in w.items]
    around += getattr(view.function, "decorator_list", ())
    switch = next((part for part in around if _switched(part) in SWITCHES), None)
    if switch is not None and (_switched(switch) in OFF or ast.unparse(switch).endswith("(False)")):
        return False
    tensors = [option for part in call.args for option in options(view.kind(part)) if isinstance(option, Tensor)]
    return not tensors or any(tensor.element not in ("int", "bool") for tensor in tensors)


def _switched(part: ast.expr) -> str:
    return last_name(part.func if isinstance(part, ast.Call) else part)


def _forward_mode(function: Class, view: View) -> str | None:
    """The method for forward mode that the class has and `torch.autograd.Function` has not."""
    members = _members(function, view)
    return next((n for n in ("jvp", "vjp") if n in members and not _is_taken_back(members[n], n)), None)


def _is_taken_back(member: ast.stmt, name: str) -> bool:
    """`jvp = torch.autograd.Function.jvp`, in place of what a base defines."""
    return isinstance(member, ast.Assign) and ast.unparse(member.value).endswith(f"Function.{name}")


def _members(function: Class, view: View) -> dict[str, ast.stmt]:
    """What the class and its bases in the project define or set, by name; of several the one that counts."""
    found: dict[str, ast.stmt] = {}
    for owner in (view.definition(function), *view.classes(function)[1:]):
        for member in owner.body if isinstance(owner, ast.ClassDef) else ():
            if isinstance(member, ast.FunctionDef):
                found.setdefault(member.name, member)
            for target in member.targets if isinstance(member, ast.Assign) else ():
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, member)
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


def _not_returned(function: Class, view: View) -> tuple[str, bool] | None:
    """An input that `forward` marks as dirty, but does not give back; and whether it marks it under a condition."""
    forward = _members(function, view).get("forward")
    if not isinstance(forward, ast.FunctionDef):
        return None
    nodes = own_nodes(forward)
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    names = {name for value in returned for name in _given(value, forward)}
    branches = [node for node in nodes if isinstance(node, ast.If)]
    for node in nodes:
        if isinstance(node, ast.Call) and last_name(node.func) == "mark_dirty":
            marked = [argument.id for argument in node.args if isinstance(argument, ast.Name)]
            missing = next((name for name in marked if name not in names), None)
            if missing is not None:
                return missing, any(node in nodes_in(branch) for branch in branches)
    return None


def _given(value: ast.expr, forward: ast.FunctionDef, steps: int = MOST_STEPS) -> Iterator[str]:
    """The variables that a function gives back as they are, alone or in a tuple, under this name or another."""
    for part in value.elts if isinstance(value, ast.Tuple) else [value]:
        if isinstance(part, ast.Name):
            yield part.id
            for made in assigned_to(forward, part.id) if steps else ():
                if isinstance(made, (ast.Name, ast.Tuple)):
                    yield from _given(made, forward, steps - 1)


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
        clamped = x
        return clamped

    @staticmethod
    def backward(ctx, grad):
        return grad


class ForwardMode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad

    @staticmethod
    def jvp(ctx, tangent, other):
        return tangent + other


class BackwardOnly(ForwardMode):
    jvp = torch.autograd.Function.jvp


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
        with torch.no_grad():
            fixed = ForwardMode.apply(h, h) + ForwardMode.apply(x > 0, x > 1)
        h = BackwardOnly.apply(h, fixed)
        return Cube.apply(Clamp.apply(h * 2))
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
