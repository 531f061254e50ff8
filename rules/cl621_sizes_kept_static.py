"""Code compiled with all sizes static (`dynamic=False`) and called with many sizes compiles again for each size.

## What it does
Finds `torch.compile(…, dynamic=False)`, or a `torch.compile` in a file that switches
`torch._dynamo.config.automatic_dynamic_shapes` off, where the same file calls the result with a tensor whose size hangs
on the variable of a loop or on an argument of the calling function: `net(torch.randn(n, 4))`, `net(ids[:, :n])`,
`net(F.interpolate(x, size=n))`. What a function of the file returns is followed.

## Why it costs
With `dynamic=False` no size becomes a symbol. Every new shape is compiled from scratch, up to the recompile limit of 8;
further ones run uncompiled for good. Measured on torch 2.13: 4 sizes compile 4 times; without the argument, 2 times.

## Write instead
- Leave `dynamic` out and `automatic_dynamic_shapes` on: the second size makes the dimension a symbol.
  `torch._dynamo.mark_dynamic(x, 0)` does so at once.
- Where one size per graph is wanted, pad inputs to a few sizes (buckets) and warm up with each.

## Limits
Sizes that come with the data, out of a loader, are not seen here.

## References
PyTorch documentation "Dynamic shapes".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import (
    Scope,
    arguments_by_parameter,
    functions_in,
    names_in,
    own_nodes,
    parameters,
    written,
)
from compilelint.static.project.dynamo_settings import set_in

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"compile"}), regions=frozenset({"host", "decode-loop"}))
MANY = 3
"""So many sizes, written down in a loop, are worth a symbol."""
DEPTH = 2
"""So many functions are followed for what they return."""
MAKERS = frozenset("randn rand zeros ones empty full randint new_zeros new_ones new_empty arange".split())
SCALERS = {"interpolate": ("size", "scale_factor"), "resize": ("size",)}
"""Functions of torch and torchvision, with their parameters for the new size; the first is given by position too."""
SAME_SIZE = frozenset("to cuda cpu float half bfloat16 long int clone detach contiguous unsqueeze pin_memory".split())


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the torch.compile call that keeps sizes static although its callers vary them."""
    if not isinstance(node, ast.Call) or view.callee(node) != "torch.compile" or not _is_static(node, view):
        return
    parent = next(iter(view.parents(node)), None)
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return
    local = isinstance(target, ast.Name) and not isinstance(view.function, ast.Module)
    scopes: list[Scope] = [view.function] if local else [view.module, *functions_in(view.module)]
    for scope in scopes:
        for call in (node for node in own_nodes(scope) if isinstance(node, ast.Call)):
            size = _varying_size(call, ast.unparse(target), scope, view.module)
            if size is not None:
                yield Hit(
                    node,
                    f"`{view.text(target)}` keeps all sizes static ({_why(node)}), and line {call.lineno} calls it"
                    f" with sizes that `{size}` decides: each compiles again, up to the recompile limit",
                    f"{_instead(node)}, so that the second size becomes a symbol, or pad inputs to a few sizes",
                    "likely",
                )
                return


def _is_static(call: ast.Call, view: View) -> bool:
    dynamic = _dynamic(call)
    if isinstance(dynamic, ast.Constant) and dynamic.value is not None:
        return dynamic.value is False
    return dynamic is None and set_in(view.module, "automatic_dynamic_shapes") is False


def _why(call: ast.Call) -> str:
    return "`dynamic=False`" if _dynamic(call) is not None else "`automatic_dynamic_shapes = False`"


def _instead(call: ast.Call) -> str:
    return "leave `dynamic` out" if _dynamic(call) is not None else "leave `automatic_dynamic_shapes` on"


def _dynamic(call: ast.Call) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == "dynamic"), None)


def _varying_size(call: ast.Call, name: str, scope: Scope, module: ast.Module) -> str | None:
    """The variable that decides the size of an argument, if this calls `name`; None if none does."""
    if ast.unparse(call.func) != name:
        return None
    varying = set(parameters(scope)) - {"self", "cls"}
    for loop in own_nodes(scope):
        if isinstance(loop, ast.For) and not (
            isinstance(loop.iter, (ast.Tuple, ast.List)) and len(loop.iter.elts) < MANY
        ):
            varying |= names_in(loop.target)
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        for size in (size for made in _made(argument, scope) for size in _sizes(made, module)):
            found = [part.id for part in ast.walk(size) if isinstance(part, ast.Name) and part.id in varying]
            if found:
                return found[0]
    return None


def _made(argument: ast.expr, scope: Scope) -> list[ast.expr]:
    """What the function assigns to a variable; any other expression as it is."""
    if not isinstance(argument, ast.Name):
        return [argument]
    return [value for _, value in written(argument, scope) if value is not None]


def _sizes(made: ast.expr, module: ast.Module, depth: int = DEPTH) -> Iterator[ast.expr]:
    """The expressions that say how large a tensor is that is made, scaled, or sliced off another."""
    if isinstance(made, ast.Subscript):
        parts = made.slice.elts if isinstance(made.slice, ast.Tuple) else [made.slice]
        slices = [part for part in parts if isinstance(part, ast.Slice)]
        for part in slices:
            yield from (bound for bound in (part.lower, part.upper) if bound is not None)
        if not slices:
            yield from _sizes(made.value, module, depth)  # `x[None]`
    elif isinstance(made, ast.Call):
        name = last_name(made.func)
        if name in MAKERS:
            yield from made.args
        elif name in SCALERS:
            yield from (*made.args[1:2], *(part.value for part in made.keywords if part.arg in SCALERS[name]))
        elif name == "tensor":
            lists = (part for argument in made.args for part in ast.walk(argument))
            yield from (turn.iter for part in lists if isinstance(part, ast.ListComp) for turn in part.generators)
        elif name in SAME_SIZE and isinstance(made.func, ast.Attribute):
            yield from _sizes(made.func.value, module, depth)
        elif depth:
            yield from _sizes_returned(made, name, module, depth - 1)


def _sizes_returned(call: ast.Call, name: str, module: ast.Module, depth: int) -> Iterator[ast.expr]:
    """The arguments that decide how large a tensor is that a function of the file returns."""
    for function in functions_in(module):
        if function.name != name:
            continue
        given = arguments_by_parameter(call, function)
        for node in own_nodes(function):
            returned = node.value if isinstance(node, ast.Return) else None
            for made in _made(returned, function) if returned is not None else ():
                sizes = [part for size in _sizes(made, module, depth) for part in ast.walk(size)]
                yield from (given[part.id] for part in sizes if isinstance(part, ast.Name) and part.id in given)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Service:
    def __init__(self):
        self.net = torch.compile(nn.Linear(4, 4), dynamic=False)  # ~

    def __call__(self, rows):
        x = torch.ones(rows, 4)
        return self.net(x)
""",
        run="(Service(), [(rows,) for rows in (2, 3, 4)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


def growing(x):
    net = torch.compile(nn.Linear(4, 4), dynamic=False)  # ~
    total = 0
    for n in range(2, 6):
        total = total + net(x[:n]).sum()
    return total
""",
        run="(growing, [(torch.ones(8, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Reader:
    def __init__(self):
        self.encode = torch.compile(nn.Embedding(32, 4).requires_grad_(False), dynamic=False)  # ~
        self.convolve = torch.compile(nn.Conv2d(1, 1, 3).requires_grad_(False), dynamic=False)  # ~
        self.table = {letter: i for i, letter in enumerate("abcdefgh")}

    def tokens(self, text):
        return torch.tensor([[self.table[letter] for letter in text]])

    def read(self, texts):
        for text in texts:
            ids = self.tokens(text)
            yield self.encode(ids)

    def __call__(self, texts, image):
        for scale in (6, 8, 10):
            self.convolve(F.interpolate(image, size=(scale, scale)))
        return list(self.read(texts))
""",
        run="(Reader(), [(['abc', 'abcd', 'abcdef'], torch.ones(1, 1, 6, 6))])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Service:
    def __init__(self, rows=8):
        self.net = torch.compile(nn.Linear(4, 4).requires_grad_(False), dynamic=False)
        self.free = torch.compile(nn.Linear(4, 4))
        self.rows = rows

    def __call__(self, scale):
        x = torch.ones(8, 4) * scale
        for i in range(4):
            x = self.net(x + i)
        return x
""",
        run="(Service(), [(float(rows),) for rows in (2, 3, 4)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        # The helper's argument decides on no size.
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Reader:
    def __init__(self):
        self.encode = torch.compile(lambda ids: ids * 2, dynamic=False)
        self.convolve = torch.compile(nn.Conv2d(1, 1, 3).requires_grad_(False), dynamic=False)

    def tokens(self, start, length=4):
        return (torch.arange(length) + start).long()

    def __call__(self, image):
        for start in range(4):
            y = self.encode(self.tokens(start))
            y = y.sum() + self.convolve(F.interpolate(image * start, size=(8, 8))).sum()
        return y
""",
        run="(Reader(), [(torch.ones(1, 1, 6, 6),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
