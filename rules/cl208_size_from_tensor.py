"""A tensor where a size or another Python number is due is read back.

## What it does
Reports tensors passed as sizes, counts or dimensions: to `zeros`, `arange`, `randint` and other factories, to `view`,
`reshape`, `expand`, `repeat`, `new_zeros`, to `pad`, `interpolate`, `topk`, `split`, `roll`, `narrow`, `one_hot`.

## Why it costs
Sizes are Python numbers to the compiler. Torch fetches the value of a computed 0-d tensor to get one (GB0033): the
graph splits, and on a GPU the host waits. The new size is then a dynamic shape in all that follows.

## Write instead
Use a bound that Python knows and a mask:

    steps = torch.arange(self.max_length, device=x.device)
    mask = steps < lengths.max()                 # not torch.arange(lengths.max())

or compute the number outside the compiled region and pass it in as an int.

## Limits
Values rather than sizes may be tensors: `full((n,), t)`, `clamp(max=t)`, `linspace(0, t, n)`, `masked_fill(m, t)`
compile. A 0-d int64 CPU tensor that is an *input* of the region is made a constant and compiles anew per value
instead. `fullgraph=True` accepts most sizes from torch 2.10 on, but not for `randint`, `roll` or a dimension.
Measured on torch 2.13.

## References
torch.compile programming model: "Dealing with Data-Dependent Errors". GB0033.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.tensors import data, scalar_tensor, written_constant

HAZARD = "graph-break"
EVERY: tuple[tuple[int, str], ...] = tuple((position, "size") for position in range(6))
COUNTS: dict[str, tuple[tuple[int, str], ...]] = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty"), EVERY),
    **dict.fromkeys(("view", "reshape", "expand", "repeat", "tile"), EVERY),
    **dict.fromkeys(("full", "new_full"), ((0, "size"),)),
    "arange": ((0, "start"), (1, "end"), (2, "step")),
    "linspace": ((2, "steps"),),
    "randint": ((0, "low"), (1, "high"), (2, "size")),
    "randperm": ((0, "n"),),
    "eye": ((0, "n"), (1, "m")),
    "pad": ((1, "pad"),),
    "interpolate": ((1, "size"), (2, "scale_factor")),
    "one_hot": ((1, "num_classes"),),
    **dict.fromkeys(("topk", "kthvalue"), ((0, "k"), (1, "dim"))),
    "split": ((0, "split_size"), (0, "split_size_or_sections"), (1, "dim")),
    "chunk": ((0, "chunks"), (1, "dim")),
    "roll": ((0, "shifts"), (1, "dims")),
    "narrow": ((0, "dim"), (1, "start"), (2, "length")),
    "select": ((0, "dim"), (1, "index")),
    "unfold": ((0, "dimension"), (1, "size"), (2, "step")),
    "dropout": ((1, "p"),),
}
"""Positions and names of parameters that must be Python numbers; positions of methods leave the tensor out."""
METHODS = frozenset(("view reshape expand repeat tile topk kthvalue split chunk roll narrow select unfold").split())
"""Those of COUNTS whose function form, `torch.roll(x, ...)`, has the tensor first."""
FUNCTIONAL = frozenset({"pad", "interpolate", "one_hot", "dropout"})
"""Those of torch.nn.functional, where names such as `unfold` mean something else."""
WATCH = Watch(nodes=(ast.Call,), names=frozenset(COUNTS))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call; the first number that is a tensor gives the words."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    prefix, _, name = callee.rpartition(".")
    if name not in COUNTS or prefix not in ("torch", "torch.Tensor", "torch.nn.functional"):
        return
    if (name in FUNCTIONAL) is not (prefix == "torch.nn.functional"):
        return
    shift = 1 if name in METHODS and prefix == "torch" else 0
    for position, keyword in COUNTS[name]:
        argument = view.argument(node, position + shift, keyword)
        for part in numbers_in(argument):
            value = view.kind(part)
            # A guess is not enough here: most numbers of unknown origin in such places are ints.
            certain = scalar_tensor(value) or (data(value) if data(value) == "certain" else None)
            if certain is not None and not written_constant(part, view):
                yield Hit(
                    node,
                    f"`{name}` needs a Python number: the tensor `{view.text(part)}` is read back and splits the graph",
                    "use a bound known to Python and a mask, or pass the number into the region as an int",
                    certain,
                )
                return


def numbers_in(argument: ast.expr | None) -> list[ast.expr]:
    """The parts of a size, written as one number or as a tuple or list."""
    if argument is None:
        return []
    return list(argument.elts) if isinstance(argument, (ast.Tuple, ast.List)) else [argument]


BAD = (
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
)

GOOD = (
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

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        steps = torch.arange(self.width, device=x.device)
        bound = lengths.max()
        shape = torch.Size((x.shape[0], -1))
        x = x.view(shape).clamp(max=bound).masked_fill(x > 3, x.mean())
        ramp = torch.linspace(0, x.mean(), 4) + torch.full((4,), x.max())
        x = F.pad(x, (0, x.shape[0])).reshape(x.size(0), -1)
        return self.proj(x[:, :4]) * ramp, steps < bound, torch.zeros(len(lengths), 2), x.repeat(2, 1)
""",
        run="(Mask(), [(torch.ones(2, 4), torch.tensor([2, 3]))])",
        default="clean",
        fullgraph="clean",
    ),
)
