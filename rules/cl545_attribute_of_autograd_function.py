"""A number or other setting that a `torch.autograd.Function` keeps as a class attribute splits the graph when used.

## What it does
Finds, in code that Dynamo traces, uses of attributes of a class that inherits from `torch.autograd.Function`, where the
body of the class sets them: `x + Normalize.eps`, `if Round.enabled:`, `len(Pack.fields)`. And comparisons with None of
one that is None, `Normalize.hook is None`.

## Why it costs
Dynamo holds such a class as something that has an `apply` and methods, and never looks up what else its body sets: it
can neither compute with the attribute (GB4841) nor compare it (GB6215) nor pass it to torch (GB0055). The graph ends
there, or the whole function is left to Python. Inside `forward` or `backward` of the class it is the same. Whether such
an attribute is None it answers without looking, with no: where it is None, compiled code takes the other branch than
eager code does.

## Write instead
Keep it in the file, in another class, or in the module that calls the function:

    EPS = 1e-6                                  # not Normalize.eps

    def forward(ctx, x):
        return x / (x.norm() + EPS)

## Limits
Methods of the class compile, and so does one under `allow_in_graph`. An attribute that a variable takes, or that is
passed to a function of the project, splits the graph where that is used, and is not reported. Measured on torch
2.11, 2.13 and 2.14.

## References
torch/_dynamo/variables/misc.py: `AutogradFunctionVariable.var_getattr`. GB0055, GB4841, GB6215.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import NONE, Class, Value, options

HAZARD = "graph-break"


def _may_be_setting(node: ast.AST, module: ast.Module) -> bool:
    """Whether this reads an attribute of what is named like a class, is one of the file, or is `cls`."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load) or node.attr == "apply":
        return False
    owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return owner == "cls" or owner.lstrip("_")[:1].isupper() or owner in class_names(module)


@about_file(frozenset())
def class_names(module: ast.Module) -> frozenset[str]:
    """The names of the classes of a file."""
    return frozenset(node.name for node in nodes_in(module) if isinstance(node, ast.ClassDef))


@about_file(())
def set_outside(module: ast.Module) -> tuple[str, ...]:
    """The attributes that a file sets otherwise than in the body of a class."""
    stores = (node for node in nodes_in(module) if isinstance(node, ast.Attribute))
    return tuple(sorted({node.attr for node in stores if isinstance(node.ctx, ast.Store)}))


WATCH = Watch(nodes=(ast.Attribute,), syntax=_may_be_setting)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per use of an attribute that the body of the class sets."""
    if not isinstance(node, ast.Attribute):
        return
    owner = view.kind(node.value)
    if not all(isinstance(option, Class) for option in options(owner)):
        return
    setting = _setting(owner, node.attr, view)
    if setting is None:
        return
    asks = next(view.parents(node), None)
    if isinstance(setting, ast.Constant) and setting.value is None:
        kept = node.attr not in view.fact(set_outside)
        if kept and isinstance(asks, ast.Compare) and _of_identity(asks) and view.kind(node) == NONE:
            yield Hit(
                asks,
                f"Dynamo takes `{view.text(node)}`, a setting of a `torch.autograd.Function`, for something else than"
                f" None: compiled code goes on as if `{view.text(asks)}` was {isinstance(asks.ops[0], ast.IsNot)}",
                "keep it outside of the class: in a global of the file, or in the module that calls the function",
                "likely",
                hazard="stale-result",
            )
    elif _used(node, view):
        yield Hit(
            node,
            f"`{view.text(node)}` is a setting of a `torch.autograd.Function`, which Dynamo does not look up: the graph"
            " splits here",
            "keep it outside of the class: in a global of the file, or in the module that calls the function",
            "likely",
        )


def _setting(owner: Value, name: str, view: View) -> ast.expr | None:
    """What the body of a `torch.autograd.Function`, or of a base of it, sets `name` to; None where none does."""
    if not any(base.endswith("autograd.Function") for base in view.outside(owner)):
        return None
    if any(name.endswith("allow_in_graph") for option in options(owner) for name, _ in view.decorators(option)):
        return None
    for definition in view.classes(owner):
        for member in definition.body:
            if isinstance(member, (ast.Assign, ast.AnnAssign)) and member.value is not None:
                targets = member.targets if isinstance(member, ast.Assign) else [member.target]
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    return member.value
    return None


def _of_identity(asks: ast.Compare) -> bool:
    return len(asks.ops) == 1 and isinstance(asks.ops[0], (ast.Is, ast.IsNot))


def _used(node: ast.Attribute, view: View) -> bool:
    """Whether what is around `node` computes with it or asks for its value, and does not only hand it on."""
    around = next(view.parents(node), None)
    if isinstance(around, ast.Compare):
        return not _of_identity(around)
    if isinstance(around, (ast.If, ast.While, ast.IfExp)):
        return around.test is node
    if isinstance(around, (ast.For, ast.comprehension)):
        return around.iter is node
    if isinstance(around, ast.keyword):
        around = next(view.parents(around), None)
    if isinstance(around, ast.Call):
        callee = view.callee(around)
        return callee != "torch.autograd.Function.apply" and callee.startswith(("torch.", "builtins."))
    return isinstance(around, (ast.BinOp, ast.UnaryOp, ast.Subscript))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class round_ste(torch.autograd.Function):
    levels = 16
    parts = ("scale", "shift")
    enabled = True

    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 4) / 4

    @staticmethod
    def backward(ctx, grad):
        return grad


class Quantize(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        x = round_ste.apply(self.proj(x))
        if round_ste.enabled:  # ~
            x = x.clamp(max=round_ste.levels)  # ~
        return x / len(round_ste.parts)  # ~
""",
        run="(Quantize(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Normalize(torch.autograd.Function):
    eps = 1e-6

    @staticmethod
    def forward(ctx, x):
        return x / (x.norm() + Normalize.eps)  # ~

    @staticmethod
    def backward(ctx, grad):
        return grad


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return Normalize.apply(self.proj(x))
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Double(torch.autograd.Function):
    scale = None

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        x = Double.apply(self.proj(x))
        if Double.scale is None:  # ~
            return x
        return x * 3
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="stale",
        fullgraph="stale",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn

EPS = 1e-6


class Settings:
    levels = 16


class Normalize(torch.autograd.Function):
    hook = staticmethod(torch.tanh)

    @staticmethod
    def forward(ctx, x):
        return x / (x.norm() + EPS)

    @staticmethod
    def backward(ctx, grad):
        return grad

    @staticmethod
    def halved(x):
        return x * 0.5


@torch.compiler.allow_in_graph
class Triple(torch.autograd.Function):
    factor = 3.0

    @staticmethod
    def forward(ctx, x):
        return x * Triple.factor

    @staticmethod
    def backward(ctx, grad):
        return grad * Triple.factor


class Double(torch.autograd.Function):
    scale = None

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


Double.scale = 3.0


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        x = Normalize.apply(self.proj(x)) * Settings.levels
        x = x if Double.scale is None else Double.apply(x)
        return Triple.apply(x) + x if Normalize.hook is None else Normalize.halved(x)
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
