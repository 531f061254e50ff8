"""A size that was read back from a tensor compiles what follows again when it changes.

## What it does
Reports calls whose size, count or length is a Python number that came out of a tensor: `arange(n)`, `zeros(n, 4)`,
`view(n, -1)`, `interpolate(size=(h, w))` after `n = int(lengths.max())` or `h, w = grid.tolist()`, here or in a caller.

## Why it costs
The read-back has split the graph already (it has a finding of its own). What follows starts with the number as an
input, and Dynamo guards on its value: `n == 5`. The next value fails the guard and compiles the rest of the function a
second time, now with a dynamic size, whose kernels fit less well; from then on any value is fine. Each further number
that changes by itself costs one more. A number that has to be a constant, in a Python loop say, compiles once per
value. Measured on torch 2.13.

## Write instead
Take a bound that does not depend on data and mask what is too much:

    steps = torch.arange(self.max_length, device=x.device)
    keep = steps < lengths[:, None]              # not torch.arange(int(lengths.max()))

or let the caller compute the number and hand it in, so that it is an ordinary dynamic argument.

## Limits
Under `fullgraph=True` (torch 2.10 on) the number stays in the graph and nothing compiles twice.

## References
PyTorch documentation "Dynamic shapes".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.number_arguments import COUNTS, numbers_of
from compilelint.static.facts.state import own_nodes, same_place
from compilelint.static.values import Scalar, Sequence, options

HAZARD = "recompile"
CAPTURED = "numbers"
WATCH = Watch(nodes=(ast.Call,), names=frozenset(COUNTS))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call, which names the numbers that were read back."""
    if not isinstance(node, ast.Call):
        return
    sizes = [part for part in numbers_of(node, view) if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))]
    new = [part for part in sizes if _was_read_back(part, view) and not _told_before(part, node, view)]
    names = list(dict.fromkeys(f"`{view.text(part)}`" for part in new))
    if not names:
        return
    several = len(names) > 1
    yield Hit(
        node,
        f"{' and '.join(names)} {'were' if several else 'was'} read back from a tensor: Dynamo guards on"
        f" {'each' if several else 'its'} value here and compiles once more, with a dynamic size, when it changes",
        "use a bound that does not depend on data and a mask, or hand the number in as an argument",
        "likely",
    )


def _told_before(number: ast.expr, call: ast.Call, view: View) -> bool:
    """Whether an earlier call of the function, or one inside `call`, takes the same number: the guard stands there."""
    return any(
        isinstance(other, ast.Call)
        and other is not call
        and (other.end_lineno or 0, other.end_col_offset or 0) <= (call.end_lineno or 0, call.end_col_offset or 0)
        and any(same_place(part, number) for part in numbers_of(other, view))
        for other in own_nodes(view.function)
    )


def _was_read_back(node: ast.expr, view: View) -> bool:
    found = [option for option in options(view.kind(node)) if not isinstance(option, Sequence)]
    return bool(found) and all(
        isinstance(option, Scalar) and option.origin == "tensor" and option.type != "float" for option in found
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


def positions(longest, device):
    return torch.arange(longest, device=device)  # ~


class Ragged(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, lengths: torch.Tensor):
        longest = int(lengths.max())  # ~ CL202
        y = self.fc(x)
        return y.sum() + positions(longest, x.device).sum()
""",
        run="(Ragged(), [(torch.ones(2, 4), torch.tensor([n, 2])) for n in (5, 7, 9)])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(1, 4, 2, 2))

    def forward(self, x, grid: torch.Tensor):
        h, w = grid.tolist()  # ~ CL203
        table = F.interpolate(self.table, size=(h, w))  # ~
        return x.sum() + table.sum()
""",
        run="(Grid(), [(torch.ones(2, 4), torch.tensor([n, n])) for n in (4, 6, 8)])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn

LONGEST = torch.arange(16).max().item()


class Ragged(nn.Module):
    margin = int(torch.tensor(2))

    def __init__(self, longest=16):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.longest = longest
        self.widths = torch.linspace(1, 2, 2).long().tolist()

    def forward(self, x, lengths: torch.Tensor):
        for width in self.widths:
            x = torch.cat([x[:, width:], x.new_zeros(x.shape[0], width)], -1)
        steps = torch.arange(self.longest, device=x.device)
        keep = steps < lengths[:, None]
        pad = x.new_zeros(x.shape[0], 2) + x.new_zeros(x.shape[0], self.margin) + x.new_zeros(LONGEST, 1)[:1]
        return self.fc(x).sum() + (steps * keep).sum() + pad.sum()
""",
        run="(Ragged(), [(torch.ones(2, 4), torch.tensor([n, 2])) for n in (5, 7, 9)])",
        default="clean",
        fullgraph="clean",
    ),
)
