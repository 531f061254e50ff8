"""A tensor where a size or another Python number is due is read back.

## What it does
Reports tensors passed as sizes, counts or dimensions: to `zeros`, `arange`, `randint` and other factories, to `view`,
`reshape`, `expand`, `repeat`, `new_zeros`, to `pad`, `interpolate`, `topk`, `split`, `roll`, `narrow`, `one_hot`, to
Fourier transforms and windows, to convolutions and pooling as stride, padding or kernel size, and to the builtin
`slice`. And as other numbers: what `new_full`, `full_like` and `pad` fill in, the slope of `leaky_relu`, `eps` of a
norm or loss, `alpha` of `add`, the tolerances of `isclose`, the rate of a dropout, the bounds of `uniform_`, one bound
of `clamp` where the other one is a number. An element of a numpy array is a tensor in a graph, and so is what numpy
multiplies or adds up while the code is traced, `np.prod(x.shape[1:])`, even of Python numbers. So is each element of a
tensor that is spread out, `x.permute(*order)`, or made a list or tuple, `x.split(tuple(lengths))`.

## Why it costs
Sizes are Python numbers to the compiler. Torch fetches the value of a computed 0-d tensor to get one (GB0033): the
graph splits, and on a GPU the host waits. The new size is then a dynamic shape in all that follows.

## Write instead
Use a bound that Python knows and a mask:

    steps = torch.arange(self.max_length, device=x.device)
    mask = steps < lengths.max()                 # not torch.arange(lengths.max())

or compute the number outside the compiled region and pass it in as an int: `math.prod(shape)` where it is `np.prod`, in
`__init__` `self.dilations = dilations.tolist()` for a numpy array. Fill with `torch.full((n,), t)`, which takes a
tensor, or `torch.where`; clamp twice, `x.clamp(min=0.0).clamp(max=t)`; write slopes and weights out as arithmetic.

## Limits
Many values may be tensors: `full((n,), t)`, `clamp(max=t)`, `linspace(0, t, n)`, `masked_fill(m, t)`, `fill_(t)`
compile. A 0-d int64 CPU tensor that is an *input* of the region is made a constant and compiles anew per value instead.
So are, behind a break, the tensors in a list or tuple that a function was handed: it is reported where the function
itself reads nothing back before. `fullgraph=True` accepts most sizes from torch 2.10 on, but not for `randint`, `roll`
or a dimension. Measured on torch 2.13.

## References
torch.compile programming model: "Dealing with Data-Dependent Errors". GB0033.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.number_arguments import BOUNDS, COUNTS, VALUES, numbers_of, rows_of_numbers, values_of
from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.state import own_nodes, parameters
from compilelint.static.facts.tensors import (
    data,
    element_of_array,
    int_from_outside,
    is_array,
    kept_number,
    python_number,
    scalar_tensor,
    tensors_within,
    written_constant,
)
from compilelint.static.values import Sequence, Tensor, options, tensors_in

HAZARD = "graph-break"
CAPTURED = "numbers"
WATCH = Watch(nodes=(ast.Call,), names=frozenset(COUNTS) | frozenset(VALUES) | BOUNDS | {"slice"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call; the first number that is a tensor gives the words."""
    if not isinstance(node, ast.Call):
        return
    numbers = list(numbers_of(node, view))
    for part in (*numbers, *values_of(node, view)):
        value = view.kind(part)
        # A guess is not enough here: most numbers of unknown origin in such places are ints.
        certain = scalar_tensor(value) or (data(value) if data(value) == "certain" else None)
        if certain is None and element_of_array(part, view):
            certain = "likely"
        if certain and isinstance(part, ast.Name) and _is_handed_over(part, view):
            certain = "likely"  # a break on its way may have made an input of it, and of that a constant
        known = written_constant(part, view) or kept_number(part, view) or int_from_outside(part, view)
        if certain is not None and not known:
            name = view.callee(node).rpartition(".")[2]
            instead = (
                "use a bound known to Python and a mask" if part in numbers else "use an operation that takes a tensor"
            )
            of_numpy = is_array(part, view)
            text = f"`{view.text(part)}`" + (", a NumPy number that Dynamo holds as a tensor," if of_numpy else "")
            yield Hit(
                node,
                f"`{name}` needs a Python number: {'' if of_numpy else 'the tensor '}{text} is read back and splits the"
                " graph",
                python_number(part) if of_numpy else f"{instead}, or pass the number into the region",
                certain,
            )
            return
    for row in rows_of_numbers(node, view):
        certain = gives_tensors(row, view)
        if certain is not None:
            yield Hit(
                node,
                f"`{view.callee(node).rpartition('.')[2]}` needs Python numbers: the tensors in `{view.text(row)}` are"
                " read back, and each splits the graph",
                "make the list of Python numbers that are known (`x.shape`, `range`), or pass it into the region",
                certain,
            )
            return


def _is_handed_over(name: ast.Name, view: View) -> bool:
    """Whether a variable is what a caller passed, or what stands for the None that another one would not pass."""
    return not view.entry and name.id in parameters(view.function)


def gives_tensors(row: ast.expr, view: View) -> Confidence | None:
    """How sure it is that what `row` gives one by one are tensors; of a tensor passed whole nothing is said."""
    kinds = options(view.kind(row))
    spread = isinstance(next(view.parents(row), None), ast.Starred)
    if not all(isinstance(kind, Sequence) or (spread and isinstance(kind, Tensor)) for kind in kinds):
        return None
    passed_in = isinstance(row, ast.Name) and not spread and row.id in parameters(view.function)
    if passed_in and (view.entry or _splits_before(row, view)):
        return None  # its parts are inputs then, of which Dynamo makes constants
    made = assigned_once(view.function, row.id) if isinstance(row, ast.Name) else None
    if isinstance(made, (ast.Tuple, ast.List)) and any(written_constant(part, view) for part in made.elts):
        return None
    parts = [kind.element if kind.items is None else kind.items for kind in kinds if isinstance(kind, Sequence)]
    items = [item for part in parts for item in (part if isinstance(part, tuple) else (part,))]
    # A list that got a tensor on one of two paths holds numbers as often.
    if items and not any(tensors_in(item) == options(item) for item in items):
        return None
    certain = tensors_within(view.kind(row))
    return "likely" if passed_in and certain else certain  # a caller's break makes inputs of them, too


def _splits_before(place: ast.expr, view: View) -> bool:
    """Whether something above a place in its function asks a tensor for its value."""
    above = [node for node in own_nodes(view.function) if getattr(node, "lineno", place.lineno) < place.lineno]
    return any(_reads_back(node, view) for node in above)


def _reads_back(node: ast.AST, view: View) -> bool:
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return data(view.kind(node.test)) is not None
    if isinstance(node, ast.Call):
        of_method = isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist", "nonzero")
        by_builtin = view.callee(node) in ("builtins.int", "builtins.float", "builtins.bool", "builtins.print")
        return of_method or (by_builtin and any(data(view.kind(argument)) for argument in node.args))
    return False


BAD = (
    Example(
        code="""\
import torch


def leading(x: torch.Tensor, lengths: torch.Tensor):
    keep = slice(0, lengths.max())  # ~
    return x[keep] * 2
""",
        run="(leading, [(torch.ones(4, 4), torch.tensor([2, 3]))])",
        default="skip",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Mask(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, lengths: torch.Tensor):
        steps = torch.arange(lengths.max())  # ~
        return self.proj(x), steps < lengths[:, None]
""",
        run="(Mask(), [(torch.ones(2, 4), torch.tensor([2, 3]))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
import torch.nn.functional as F


def grid(x: torch.Tensor, sizes: torch.Tensor):
    rows = sizes.prod()
    x = x.view(rows, -1)  # ~
    extra = x.new_zeros((sizes.min(), 4))  # ~
    return F.pad(torch.cat([x, extra]), (0, rows))  # ~
""",
        run="(grid, [(torch.ones(2, 4), torch.tensor([2, 1]))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Squash(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        x = self.proj(x)
        peak = x.abs().max()
        floor = x.new_full((4,), x.min())  # ~
        x = x.clamp(0, peak)  # ~
        x = F.leaky_relu(x - floor, negative_slope=peak)  # ~
        near = torch.isclose(x, x * 2, atol=peak)  # ~
        x = F.hardshrink(F.dropout2d(x[:, None], 0.1)[:, 0], peak) * near  # ~
        return F.pad(x, (0, 1), value=peak) + torch.full_like(x[:, :1], peak)  # ~
""",
        run="(Squash(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Rockets(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernels = nn.Parameter(torch.ones(1, 1, 3))
        self.dilations = np.unique(np.logspace(0, 1, 3, base=2).astype(int))
        self.widths = np.array([2, 4])

    def forward(self, x):
        pooled = F.adaptive_avg_pool2d(x, (self.widths[0], self.widths[1]))  # ~
        rows = x[:, 0]
        for dilation in self.dilations:
            pooled = pooled + F.conv1d(rows, self.kernels, dilation=dilation).mean()  # ~
        return pooled
""",
        run="(Rockets(), [(torch.ones(2, 1, 1, 9),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Channels(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, lengths: torch.Tensor):
        order = torch.cat((torch.tensor([1, 0]), torch.arange(2, x.ndim)))
        rows = self.proj(x).flatten(0, 1).split(tuple(lengths))  # ~
        sizes = [lengths.max(), x.shape[-1]]
        x = x.permute(*order).contiguous()  # ~
        return x, [row.mean() for row in rows], torch.zeros(sizes), x.new_ones((*lengths, 2))  # ~
""",
        run="(Channels(), [(torch.ones(2, 3, 4), torch.tensor([4, 2]))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, shape=(2, 2)):
        super().__init__()
        self.shape = shape
        self.cells = np.prod(shape)
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        flat = self.proj(x.reshape(-1, np.prod(self.shape)))  # ~
        cells = np.prod(x.shape[1:])
        halves = flat.view(-1, self.cells // 2)  # ~
        return flat.view(len(x), cells), halves, x.new_zeros(np.max(self.shape), 2)  # ~
""",
        run="(Decoder(), [(torch.ones(3, 2, 2),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class CausalConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, 4, 2)
        self.register_buffer("stride", torch.tensor(2))

    def rest(self, x):
        frames = torch.ceil((x.shape[-1] - 2) / self.stride).to(torch.int64)
        return frames * self.stride + 2 - x.shape[-1]

    @staticmethod
    def padded(x, paddings: tuple[int, int]):
        return F.pad(x, paddings)  # ~

    def forward(self, x):
        return self.conv(self.padded(x, (2, self.rest(x))))
""",
        run="(CausalConv(), [(torch.ones(1, 1, 9),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def spectrum(x: torch.Tensor, lengths: torch.Tensor):
    width = lengths.max()
    window = torch.hann_window(width)  # ~
    return torch.fft.rfft(x[:, :2] * window.sum(), width)  # ~
""",
        run="(spectrum, [(torch.ones(2, 4), torch.tensor([2, 3]))])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import math

import numpy as np
import torch
from torch import nn


class Unflatten(nn.Module):
    def __init__(self, shape=(2, 2)):
        super().__init__()
        self.shape = shape
        self.cells = np.prod(shape)
        self.proj = nn.Linear(int(np.prod(shape)), 4)

    def forward(self, x):
        flat = self.proj(x.reshape(-1, self.cells)) / np.sqrt(x.shape[1])
        return flat.view(-1, math.prod(self.shape)) * np.prod(self.shape)
""",
        run="(Unflatten(), [(torch.ones(3, 2, 2),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Mask(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.width = width
        self.dilations = [1, 2]
        self.copies = torch.tensor(1)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        x = x.repeat(self.copies, 1)
        steps = torch.arange(self.width, device=x.device)
        bound = lengths.max()
        shape = torch.Size((x.shape[0], -1))
        three = torch.tensor(3)
        sizes = [three, three]
        order = [*range(1, x.ndim), 0]
        x = x.permute(*order).permute(*reversed(range(x.ndim))).expand(*x.shape) + torch.zeros(sizes).sum()
        x = x[slice(0, len(x))].view(shape).clamp(max=bound).masked_fill(x > 3, x.mean())
        ramp = torch.linspace(0, x.mean(), 4) + torch.full((4,), x.max())
        ramp = torch.addcdiv(ramp, x[0], x[0], value=x.max())
        x = F.pad(x, (0, x.shape[0]), value=0.5).reshape(x.size(0), -1)
        x = x.clamp(-bound, bound).clamp(0, x.shape[1]).add(x, alpha=0.5) + x.new_full((1,), self.width).fill_(bound)
        for dilation in self.dilations:
            x = F.conv1d(x[:, None], torch.ones(1, 1, 3), padding=dilation, dilation=dilation)[:, 0]
        x = F.max_pool1d(torch.triu(x, -x.shape[0]), 1)
        return self.proj(x[:, :4]) * ramp, steps < bound, torch.zeros(len(lengths), 2), x.repeat(2, 1)
""",
        run="(Mask(), [(torch.ones(2, 4), torch.tensor([2, 3]))])",
        default="clean",
        fullgraph="clean",
    ),
)
