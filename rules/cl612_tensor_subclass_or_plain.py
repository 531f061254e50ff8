"""An input that may be a tensor or one of a subclass of it is compiled once for each.

## What it does
Reports the first use of an input of a compiled function that the function tests with `isinstance(x, MetaTensor)`,
where `MetaTensor` is a class of the project that inherits from `torch.Tensor`.

## Why it costs
Dynamo guards on the exact type of every input. A call with the other type fails the guard and compiles the whole
function again; every further subclass adds one. Measured on torch 2.13: alternating types compile twice, then both are
kept.

## Write instead
Unwrap the subclass at one place, before the compiled code, and pass what it carries as an argument of its own:

    scale = 2.0 if isinstance(image, MetaImage) else 1.0
    out = compiled(image.as_subclass(torch.Tensor), scale)

## Limits
A warm-up with each type avoids the wait in production; the second graph remains.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import first_read, parameters, written
from compilelint.static.values import Class, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"isinstance"}))
TENSORS = frozenset({"torch.Tensor", "Tensor", "torch.nn.Parameter", "nn.Parameter"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of an input whose type the function asks for."""
    if not isinstance(node, ast.Call) or not view.entry or view.assumed or len(node.args) != 2:
        return
    tested, against = node.args
    if not isinstance(tested, ast.Name) or tested.id not in parameters(view.function):
        return
    if any(True for _ in written(tested, view.function)):
        return
    classes = [option for option in options(view.kind(against)) if isinstance(option, Class)]
    if classes and all(any(ast.unparse(base) in TENSORS for base in cls.ref.node.bases) for cls in classes):
        yield Hit(
            first_read(tested, view),
            f"`{tested.id}` may be a plain tensor or a `{view.text(against)}`: Dynamo guards on its type, so each of"
            " the two compiles the function for itself",
            f"unwrap it before the compiled code (`{tested.id}.as_subclass(torch.Tensor)`) and pass what it carries as"
            " an argument",
            "likely",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Tagged(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Segment(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, image):
        h = self.proj(image)  # ~
        if isinstance(image, Tagged):
            h = h * 2
        return torch.relu(h)
""",
        run="(Segment(), [(torch.ones(2, 4).as_subclass(Tagged),), (torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Tagged(torch.Tensor):
    pass


class Segment(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, image, mask=None):
        h = self.proj(image)
        if isinstance(mask, torch.Tensor):
            h = h * mask
        if isinstance(self.proj, nn.Linear):
            h = h + 1
        return h


def tagged(image):
    return image if isinstance(image, Tagged) else image.as_subclass(Tagged)
""",
        run="(Segment(), [(torch.ones(2, 4),) for _ in range(2)])",
        default="clean",
        fullgraph="clean",
    ),
)
