"""Compiled code can't make tensors of a subclass whose `__init__` takes arguments, nor plain ones of a subclass's.

## What it does
Finds, in code that Dynamo traces, calls of a class that inherits from `torch.Tensor` with an `__init__` that needs more
than the keywords of the call, calls of `torch.Tensor._make_wrapper_subclass` where Dynamo looks into them, calls of a
wrapper that are given an object or a function, calls of `x.as_subclass(torch.Tensor)`, and of torch's own `CausalBias`
and the functions that make one (`torch.nn.attention.bias.causal_lower_right`).

## Why it costs
Dynamo hands such an `__init__` the object and the keywords, but no argument by position, and what it needs is missing
(GB7312; torch 2.14 gives up the whole function). `_make_wrapper_subclass` is a C function that it does not trace
(GB0007), and the plain `torch.Tensor` is none of the classes that it lets `as_subclass` make. The graph ends there, at
each tensor.

## Write instead
Set in `__new__` what the tensor carries, and leave `__init__` out:

    def __new__(cls, data, spacing):
        made = torch.as_tensor(data).as_subclass(cls)
        made.spacing = spacing
        return made

Or pass all arguments by keyword. A class with `__torch_dispatch__` compiles if it has `__tensor_flatten__` and
`__tensor_unflatten__`: the call is then part of the graph.

Turn tensors into plain ones before they are passed to the compiled function, or by an operation whose class answers
with plain tensors. A causal bias can be made beforehand and passed in (GB0026 where it is made inside).

## Limits
Subclasses with `__new__` alone compile, so do an `__init__(self, *args, **kwargs)` and `x.as_subclass(Subclass)`. What
a wrapper's call is given besides tensors must be a constant of the graph: a number, a text, a tuple, list or dict of
such, a dtype, a member of an enumeration, a frozen dataclass. Measured on torch 2.11, 2.13 and 2.14.

## References
torch documentation: "Extending PyTorch", `torch.Tensor.as_subclass`. GB0007, GB7312.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Class, Const, External, Function, Instance, Partial, Scalar, Value, options

HAZARD = "graph-break"
WRAPPER = "torch.Tensor._make_wrapper_subclass"
TENSOR = "torch.Tensor"
PLAIN = External(TENSOR)
CAUSAL = frozenset(
    f"torch.nn.attention.bias.{name}" for name in ("CausalBias", "causal_lower_right", "causal_upper_left")
)
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
    elif (made := _subclass(node, view)) and _leaves_out_arguments(made, node):
        yield Hit(
            node,
            f"`{view.text(node)}` makes a tensor of the subclass `{made[0].name}`, into whose `__init__` Dynamo can't"
            " go: the graph splits here",
            "set in `__new__` what the tensor carries and leave `__init__` out, or make it outside the compiled code",
        )
    elif made and (passed := _object_passed(made, node, view)) is not None:
        yield Hit(
            node,
            f"`{view.text(node)}` would be one call in the graph, which can't hold the object `{view.text(passed)}`:"
            " the graph splits here",
            "pass numbers, texts, a member of an enumeration or a frozen dataclass instead of an object or function",
            "likely",
        )


def _object_passed(made: tuple[ast.ClassDef, ...], call: ast.Call, view: View) -> ast.expr | None:
    """The argument that no graph can hold, of a class whose tensors are taken apart and put together again."""
    members = {m.name for owner in made for m in owner.body if isinstance(m, ast.FunctionDef)}
    if not members.issuperset(("__tensor_flatten__", "__tensor_unflatten__")):
        return None
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return next((part for part in arguments if _may_be_object(view.kind(part), view)), None)


def _may_be_object(value: Value, view: View) -> bool:
    """Whether a value is an object that no graph holds, or one of several things of which the others are constants."""
    others = [kind for kind in options(value) if not isinstance(kind, (Const, Scalar))]
    return bool(others) and all(_is_object(kind, view) for kind in others)


def _is_object(kind: Value, view: View) -> bool:
    """Whether a value is a function, a module, or an object of the project that is no constant to Dynamo."""
    if not isinstance(kind, Instance) or kind.is_module:
        return isinstance(kind, (Function, Partial, Instance))
    frozen = any(
        isinstance(decorator, ast.Call) and any(keyword.arg == "frozen" for keyword in decorator.keywords)
        for _, decorator in view.decorators(Class(kind.ref))
    )
    return not frozen and not view.outside(kind)


def _subclass(node: ast.Call, view: View) -> tuple[ast.ClassDef, ...]:
    """The classes of the project that the class called is made of, if it inherits from `torch.Tensor`."""
    if not all(isinstance(option, Class) for option in options(view.kind(node.func))):
        return ()
    made = view.kind(node)
    return view.classes(made) if TENSOR in view.outside(made) else ()


def _leaves_out_arguments(made: tuple[ast.ClassDef, ...], call: ast.Call) -> bool:
    """Whether the class's `__init__` can't be called with the keywords alone, which is how Dynamo calls it.

    Where the class answers operators itself (`__torch_dispatch__`), its call is in the graph, or stops in `__new__`.
    """
    members = {m.name: m for owner in reversed(made) for m in owner.body if isinstance(m, ast.FunctionDef)}
    init = members.get("__init__")
    if init is None or "__torch_dispatch__" in members:
        return False
    given = {keyword.arg for keyword in call.keywords}
    if None in given:
        return False
    arguments = init.args
    names = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)]
    needed = names[1 : len(names) - len(arguments.defaults)]
    needed += [p.arg for p, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    taken = {*names[1:], *(parameter.arg for parameter in arguments.kwonlyargs)}
    return not given.issuperset(needed) or (arguments.kwarg is None and not given <= taken)


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
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)  # ~

    def __init__(self, inner, scale):
        self.inner = inner
        self.scale = scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [arg.inner * arg.scale if isinstance(arg, Scaled) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


@torch.compile
def scaled(x):
    return Scaled(x, 2.0) + 1
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
    Example(
        code="""\
from dataclasses import dataclass

import torch


@dataclass
class Format:
    bits: int


class Packed(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, form):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner, form):
        self.inner = inner
        self.form = form

    def __tensor_flatten__(self):
        return ["inner"], self.form

    @classmethod
    def __tensor_unflatten__(cls, tensors, form, size, stride):
        return cls(tensors["inner"], form)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [argument.inner if isinstance(argument, Packed) else argument for argument in args]
        return func(*plain, **(kwargs or {}))


@torch.compile
def packed(x, form: Format):
    return Packed(x * 2, form) + 1  # ~
""",
        run="(packed, [(torch.ones(2, 4), Format(8))])",
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


class Volume(torch.Tensor):
    @staticmethod
    def __new__(cls, data, spacing=None):
        made = torch.as_tensor(data).as_subclass(cls)
        made.spacing = spacing
        return made


class Tensor: ...


class Meta(Tensor):
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
    Example(
        code="""\
import torch


class Counted(torch.Tensor):
    @staticmethod
    def __new__(cls, data, unit="m"):
        return data.as_subclass(cls)

    def __init__(self, *args, **kwargs):
        super().__init__()


class Named(Counted):
    def __init__(self, data, unit="m"):
        super().__init__()


class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, scale):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner = inner
        made.scale = scale
        return made

    def __init__(self, inner, scale):
        self.made = True

    def __tensor_flatten__(self):
        return ["inner"], self.scale

    @classmethod
    def __tensor_unflatten__(cls, tensors, scale, size, stride):
        return cls(tensors["inner"], scale)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [arg.inner * arg.scale if isinstance(arg, Scaled) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


@torch.compile
def counted(x):
    with torch._C.DisableTorchFunctionSubclass():
        total = Counted(x * 2, "s") + Named(data=x, unit="s")
    return total, Scaled(x, 2.0) + 1
""",
        run="(counted, [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import enum
from dataclasses import dataclass

import torch


class Order(enum.Enum):
    ROWS = 1


@dataclass(frozen=True)
class Format:
    bits: int


class Packed(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, form):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner, form):
        self.inner = inner
        self.form = form

    def __tensor_flatten__(self):
        return ["inner"], self.form

    @classmethod
    def __tensor_unflatten__(cls, tensors, form, size, stride):
        return cls(tensors["inner"], form)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [argument.inner if isinstance(argument, Packed) else argument for argument in args]
        return func(*plain, **(kwargs or {}))


@torch.compile
def packed(x, form: Format, order: Order):
    return Packed(x * 2, form) + Packed(x * 3, order) + Packed(x * 4, (torch.int8, "rows", [1, None]))
""",
        run="(packed, [(torch.ones(2, 4), Format(8), Order.ROWS)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
