"""An operator that looks at the values of its input to know its result's size, or its own parameters, splits the graph.

## What it does
Finds the less usual operators of torch and NumPy for which torch was seen to break over a tensor's values:
`torch.combinations`, least squares (`linalg.lstsq`), `cov` and `corrcoef`, `gaussian_nll_loss` of a tensor of
variances, `tensor_split` at a tensor, `unpad_sequence`, `numpy.pad`, and `torch._assert` of a tensor. That they break
for the kinds of arguments at hand is looked up in the table that was made with torch.

## Why it costs
The size of the result depends on data (GB0036: `lstsq` returns the residuals only where the rank is full), or the
operator checks its input in Python (GB0033: `cov` refuses negative weights). Dynamo ends the graph before the call, and
the host waits for the value.

## Write instead
    solution = torch.linalg.solve(a.mT @ a, a.mT @ b)              # instead of lstsq, where a has full rank
    centred = x - x.mean(1, keepdim=True)
    covariance = centred @ centred.mT / (x.shape[1] - 1)           # instead of torch.cov
    torch._assert_async(ok.all())                                  # instead of torch._assert

## References
GB0033, GB0036. Measured on torch 2.13.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
FALLBACK = True
OF_DATA = frozenset({"GB0033", "GB0036"})
NAMES = frozenset(
    (
        "torch.combinations torch.linalg.lstsq torch.cov torch.Tensor.cov torch.corrcoef torch.Tensor.corrcoef"
        " torch.nn.functional.gaussian_nll_loss torch.tensor_split torch.Tensor.tensor_split torch._assert"
        " torch.nn.utils.rnn.unpad_sequence torch.masked.median numpy.linalg.lstsq numpy.cov numpy.corrcoef numpy.pad"
        " numpy.linalg.eig numpy.linalg.eigvals numpy.repeat numpy.ndarray.repeat"
    ).split()
)
WATCH = Watch(nodes=(ast.Call,), names=frozenset(name.rpartition(".")[2] for name in NAMES))

BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Whiten(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, target: torch.Tensor):
        h = self.proj(x)
        spread = torch.cov(h)  # ~
        fit = torch.linalg.lstsq(h, target)  # ~
        return spread.sum() + fit.solution
""",
        run="(Whiten(), [(torch.randn(6, 4), torch.randn(6, 4))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def pairs(x: torch.Tensor):
    torch._assert((x >= 0).all(), "negative")  # ~
    return torch.combinations(x.flatten()) * 2  # ~
""",
        run="(pairs, [(torch.ones(2, 2),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Whiten(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, target: torch.Tensor, parts: int = 2):
        torch._assert(x.shape[1] == 4, "four columns")
        h = self.proj(x)
        centred = h - h.mean(1, keepdim=True)
        spread = centred @ centred.mT / (h.shape[1] - 1)
        fit = torch.linalg.solve(h.mT @ h + torch.eye(4), h.mT @ target)
        return spread.sum() + fit + h.tensor_split(parts)[0].sum()
""",
        run="(Whiten(), [(torch.ones(6, 4), torch.ones(6, 4))])",
        default="clean",
        fullgraph="clean",
    ),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call of one of NAMES that breaks over the values of its arguments."""
    if not isinstance(node, ast.Call) or view.callee(node) not in NAMES:
        return
    found = view.breaks(node)
    if found in OF_DATA:
        yield Hit(
            node,
            f"`{view.text(node)}` looks at the values of a tensor ({found}): Dynamo splits the graph here and the host"
            " waits for them",
            "use an operator whose result has a fixed size, such as `torch.linalg.solve` for least squares, write the"
            " formula out, or call it outside",
        )
