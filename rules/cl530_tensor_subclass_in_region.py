"""Compiled code can't make tensors of a subclass that has an `__init__`, nor plain ones of a subclass's.

## What it does
Finds, in code that Dynamo traces, calls of a class that inherits from `torch.Tensor` and has an `__init__`, calls of
`torch.Tensor._make_wrapper_subclass`, of `x.as_subclass(torch.Tensor)`, and of torch's own `CausalBias` and the
functions that make one (`torch.nn.attention.bias.causal_lower_right`).

## Why it costs
Dynamo passes the class for the object when it enters such an `__init__`, and the arguments do not fit (GB7312; torch
2.14 gives up the whole function). `_make_wrapper_subclass` is a C function that it does not trace (GB0007), and the
plain `torch.Tensor` is none of the classes that it lets `as_subclass` make. The graph ends there, at each tensor.

## Write instead
Set in `__new__` what the tensor carries, and leave `__init__` out:

    def __new__(cls, data, spacing):
        made = torch.as_tensor(data).as_subclass(cls)
        made.spacing = spacing
        return made

Turn tensors into plain ones before they are passed to the compiled function, or by an operation whose class answers
with plain tensors. A causal bias can be made beforehand and passed in (GB0026 where it is made inside).

## Limits
Subclasses with `__new__` alone compile, so does `x.as_subclass(Subclass)`. Measured on torch 2.11, 2.13 and 2.14.

## References
torch documentation: "Extending PyTorch", `torch.Tensor.as_subclass`. GB0007, GB7312.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Class, External, options

HAZARD = "graph-break"
WRAPPER = "torch.Tensor._make_wrapper_subclass"
PLAIN = External("torch.Tensor")
CAUSAL = frozenset(
    f"torch.nn.attention.bias.{name}" for name in ("CausalBias", "causal_lower_right", "causal_upper_left")
)
TENSOR = frozenset({"torch.Tensor", "Tensor"})
"""How a class names the one it inherits from."""
NAMES = frozenset({"cls", "as_subclass", "_make_wrapper_subclass", "causal_lower_right", "causal_upper_left"})


def _may_make_tensor(node: ast.AST, module: ast.Module) -> bool:
    """Whether this is a call of what looks like a class, or of one of the functions that this rule knows."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Attribute, ast.Name)):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
    return name.lstrip("_")[:1].isupper() or name in NAMES


WATCH = Watch(nodes=(ast.Call,), syntax=_may_make_tensor)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per tensor of a subclass that is made, or made plain, in a way that does not compile."""
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr == "as_subclass":
        wanted = view.argument(node, 0, "cls")
        if wanted is not None and view.kind(wanted) == PLAIN:
            yield Hit(
                node,
                f"`{view.text(node)}` makes a plain tensor of another class's, which Dynamo does not trace: the graph"
                " splits here",
                "pass plain tensors to the compiled code, or turn them into plain ones behind it",
            )
    elif view.callee(node) == WRAPPER:
        yield Hit(
            node,
            "`_make_wrapper_subclass` is C code that Dynamo does not trace: the graph splits here",
            "wrap tensors before the compiled code",
        )
    elif view.callee(node) in CAUSAL:
        yield Hit(
            node,
            f"`{view.text(node)}` makes a tensor of the subclass `CausalBias`, which Dynamo does not trace: the graph"
            " splits here",
            "make it before the compiled code and pass it in, or use `is_causal=True`",
        )
    elif (made := _subclass(node, view)) and any(_has_init(owner) for owner in made):
        yield Hit(
            node,
            f"`{view.text(node)}` makes a tensor of the subclass `{made[0].name}`, into whose `__init__` Dynamo can't"
            " go: the graph splits here",
            "set in `__new__` what the tensor carries and leave `__init__` out, or make it outside the compiled code",
        )


def _subclass(node: ast.Call, view: View) -> tuple[ast.ClassDef, ...]:
    """The classes of the project that the class called is made of, if it inherits from `torch.Tensor`."""
    if not all(isinstance(option, Class) for option in options(view.kind(node.func))):
        return ()
    owners = view.classes(view.kind(node))
    return owners if any(ast.unparse(base) in TENSOR for owner in owners for base in owner.bases) else ()


def _has_init(owner: ast.ClassDef) -> bool:
    return any(isinstance(member, ast.FunctionDef) and member.name == "__init__" for member in owner.body)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Volume(torch.Tensor):
    @staticmethod
    def __new__(cls, data, spacing=None):
        return torch.as_tensor(data).as_subclass(cls)

    def __init__(self, data, spacing=None):
        super().__init__()
        self.spacing = spacing


class Resample(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, 1)

    def forward(self, x):
        out = self.conv(x)
        return Volume(out, 2.0) * 2  # ~
""",
        run="(Resample(), [(torch.ones(1, 1, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


class Masked(torch.Tensor):
    pass


@torch.compile
def plain(x):
    y = x.as_subclass(Masked) * 2
    return y.as_subclass(torch.Tensor) + 1  # ~
""",
        run="(plain, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner, scale):
        self.inner = inner
        self.scale = scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [arg.inner * arg.scale if isinstance(arg, Scaled) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


@torch.compile
def scaled(x):
    return Scaled(x, 2.0) + 1  # ~
""",
        run="(scaled, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        q = self.proj(x)
        bias = causal_lower_right(q.shape[-2], x.shape[-2])  # ~
        upper = CausalBias(CausalVariant.UPPER_LEFT, 2, 2)  # ~
        return F.scaled_dot_product_attention(q, x, x, bias) + F.scaled_dot_product_attention(q, x, x, upper)
""",
        run="(Attention(), [(torch.ones(1, 1, 2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Volume(torch.Tensor):
    @staticmethod
    def __new__(cls, data, spacing=None):
        made = torch.as_tensor(data).as_subclass(cls)
        made.spacing = spacing
        return made


class Meta:
    def __init__(self, spacing):
        self.spacing = spacing


class Resample(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, 1)

    def forward(self, x):
        out = self.conv(x)
        meta = Meta(2.0)
        volume = Volume(out, meta.spacing)
        with torch._C.DisableTorchFunctionSubclass():
            return volume * volume.spacing + out.as_subclass(Volume)
""",
        run="(Resample(), [(torch.ones(1, 1, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
