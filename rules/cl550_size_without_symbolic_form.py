"""Text or whole-number mathematics made of a size splits the graph once the size has become a symbol.

## What it does
Finds, in compiled code, `str(…)` and `repr(…)` of a size or shape and `math.isqrt`, `gcd`, `lcm`, `comb`, `perm`,
`factorial`, `isnan`, `isinf`, `isfinite`, `isclose` and `divmod` of one, where driving code passes inputs of another
size each time or the code is compiled with `dynamic=True`. And such a size with a format, `f"{x.shape[0]:03d}"`.

## Why it costs
The first size is a constant, and compiles. The second one makes it a symbol, for which Dynamo has no text (GB0059,
GB6053) and none of these functions (GB0208): the graph splits there from then on. A format makes Dynamo itself fail
(`InternalTorchDynamoError`), and after `divmod` of a symbol, from torch 2.13 on, the function stays with Python
(GB0088). Measured with sizes 4 to 9, on torch 2.11, 2.13 and 2.14; the format on 2.13.

## Write instead
`f"{x.shape[0]}"`, which pins the size and compiles once for each; better, make the text outside. For numbers operators
or what has a symbolic form:

    side = int(math.sqrt(x.shape[1]))       # not math.isqrt(x.shape[1])

## Limits
Only sizes that the text of the driving code shows to differ are known: of tensors that it makes, slices or scales. With
`dynamic=False`, or behind a loop over `range(x.shape[0])`, each size is a constant (CL632), and nothing is split.

## References
PyTorch documentation "Dynamic shapes". GB0059, GB0208, GB6053.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.passed_sizes import size_varies, varying_size
from compilelint.static.facts.state import own_nodes
from compilelint.static.facts.tensors import on_error_path
from compilelint.static.values import Scalar, Sequence, options

HAZARD = "graph-break"
TEXTS = frozenset({"builtins.str", "builtins.repr"})
NUMBERS = frozenset(f"math.{name}" for name in "isqrt gcd lcm comb perm factorial isnan isinf isfinite isclose".split())
MOST_DIMENSIONS = 4
DIVMOD = "builtins.divmod"
WATCH = Watch(
    nodes=(ast.Call, ast.JoinedStr),
    callees=lambda name: name in TEXTS or name in NUMBERS or name == DIVMOD,
    syntax=lambda node, module: isinstance(node, ast.JoinedStr),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per text or number that is made of a size which varies, and not only to be told in an error."""
    if on_error_path(node, view) or view.keeps("size"):
        return
    if isinstance(node, ast.JoinedStr):
        for part in node.values:
            formatted = isinstance(part, ast.FormattedValue) and part.format_spec is not None and part.conversion == -1
            size = _varying(part.value, view) if isinstance(part, ast.FormattedValue) and formatted else None
            if size is not None and not _is_pinned(size, node, view):
                yield Hit(
                    node,
                    f"`{size}` varies, and Dynamo fails on a size with a format once it is a symbol",
                    "leave the format away, or make the text outside of the compiled code",
                    "likely",
                )
                return
        return
    if not isinstance(node, ast.Call):
        return
    size = next((found for argument in node.args if (found := _varying(argument, view))), None)
    if size is not None and not _is_pinned(size, node, view):
        name = view.callee(node).removeprefix("builtins.")
        of_text = view.callee(node) in TEXTS
        given_up = name == "divmod" and view.torch >= (2, 13)
        then = "the whole function runs uncompiled" if given_up else "the graph splits here"
        yield Hit(
            node,
            f"`{size}` varies, and `{name}` has no form for a size that has become a symbol: {then}",
            f'write `f"{{{view.text(node.args[0])}}}"`, or make the text outside of the compiled code'
            if of_text
            else "compute it with operators or `math.sqrt`, or outside of the compiled code",
            "likely",
            hazard="frame-skip" if given_up else None,
        )


def _is_pinned(size: str, node: ast.AST, view: View) -> bool:
    """Whether a loop before `node` makes a constant of the size, which compiles again for each and splits nothing."""
    for before in own_nodes(view.function):
        if before is node:
            return False
        counted = before.args if isinstance(before, ast.Call) and view.callee(before) == "builtins.range" else []
        if any(_varying(bound, view) == size for bound in counted):
            return True
    return False


def _varying(part: ast.expr, view: View) -> str | None:
    """The size, or the shape with a size, that differs from call to call and that `part` is made of."""
    kinds = options(view.kind(part))
    if all(isinstance(kind, Scalar) and kind.origin == "shape" for kind in kinds):
        return view.text(part) if view.options.get("dynamic") is True else varying_size(part, view)
    if not all(isinstance(kind, Sequence) and kind.form in ("size", "tuple", "list") for kind in kinds):
        return None
    slices = {node.value: node.slice for node in ast.walk(part) if isinstance(node, ast.Subscript)}
    for shape in ast.walk(part):
        if isinstance(shape, ast.Attribute) and shape.attr == "shape" and isinstance(shape.value, ast.Name):
            name = shape.value.id
            if any(size_varies(name, dimension, view) for dimension in _dimensions(slices.get(shape))):
                return view.text(shape)
    return None


def _dimensions(index: ast.expr | None) -> list[int]:
    """The dimensions, among the first ones, that an index of a shape leaves: all but the first for `x.shape[1:]`."""
    every = [*range(MOST_DIMENSIONS)]
    if index is None:
        return every
    try:
        if not isinstance(index, ast.Slice):
            return [ast.literal_eval(index)]
        bounds = [ast.literal_eval(bound) if bound else None for bound in (index.lower, index.upper, index.step)]
    except ValueError:
        return []
    return every[slice(*bounds)]


BAD = (
    Example(
        code="""\
import math

import torch


@torch.compile
def grid(x):
    side = math.isqrt(x.shape[0])  # ~
    label = "n" + str(x.shape[0])  # ~
    return x * side, label, str([x.shape[0]])  # ~


@torch.compile
def described(x):
    return x * 2, str(x.shape)  # ~


def run():
    for count in range(4, 8):
        x = torch.ones(count)
        grid(x)
        described(x)
""",
        run="(run, [()])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import math

import torch


@torch.compile(dynamic=True)
def blocks(x):
    return x * math.gcd(x.shape[0], 4)  # ~


def run():
    blocks(torch.ones(6))
""",
        run="(run, [()])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch


@torch.compile(dynamic=True)
def padded(x):
    rows, rest = divmod(x.shape[0], 4)  # ~
    return x * rows + rest


def run():
    padded(torch.ones(6))
""",
        run="(run, [()])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch


@torch.compile
def labelled(x):
    return x * 2, f"{x.shape[0]:03d}"  # ~


def run():
    for count in range(4, 8):
        labelled(torch.ones(count))
""",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import math

import torch


@torch.compile
def grid(x):
    if x.shape[0] < 2:
        raise ValueError("too few: " + str(x.shape[0]))
    texts = str(x.shape[1]), str(x.shape[1:])
    return x * int(math.sqrt(x.shape[0])) * math.ceil(x.shape[0] / 2), texts, math.gcd(x.shape[1], 2)


@torch.compile(dynamic=False)
def fixed(x):
    return x * math.gcd(x.shape[0], 4), str(x.shape[0])


def run():
    for count in range(4, 8):
        grid(torch.ones(count, 3))
        fixed(torch.ones(count))
""",
        run="(run, [()])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)
