"""A random number from numpy splits the graph.

## What it does
Reports the scalar draws of `numpy.random` (`rand()`, `uniform(a, b)`, `normal()`, `randint(n)`), `choice` of any
size, and its functions that Dynamo has no version of (`permutation`, `beta`, `default_rng`).

## Why it costs
Dynamo traces numpy as tensors, so a drawn number is data of the graph; as a Python number it must be read back at
once (GB0033). Functions it has no counterpart for are calls it can't trace (GB0294). Either way the graph ends at the
draw, and `fullgraph=True` raises.

## Write instead
Draw with torch on the right device and keep a tensor, or draw outside the region and pass the number in:

    lam = torch.rand((), device=x.device)
    start = torch.randint(0, n, (batch,), device=x.device)

## Limits
Draws of a whole array (`size=...`, `randn(4, 4)`) compile, but come from torch's generator: `np.random.seed` has no
effect on them inside the region. `np.random.seed` itself compiles. Measured on torch 2.13.

## References
PyTorch documentation, torch.compiler FAQ: "Does NumPy work with torch.compile?". GB0033, GB0294.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import NONE

HAZARD = "graph-break"
SIZE_POSITION = {
    "uniform": 2,
    "normal": 2,
    "randint": 2,
    "random": 0,
    "random_sample": 0,
    "rand": 0,
    "randn": 0,
}
"""Where the size stands, after which an array is drawn; for rand and randn any argument is one."""
NO_COUNTERPART = frozenset(
    (
        "beta permutation default_rng gamma binomial poisson exponential laplace dirichlet multinomial "
        "lognormal triangular geometric standard_normal get_state set_state RandomState"
    ).split()
)
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name.startswith("numpy.random."))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per draw that breaks."""
    if not isinstance(node, ast.Call):
        return
    module, _, name = view.callee(node).rpartition(".")
    if module != "numpy.random":
        return
    if name in NO_COUNTERPART:
        why = "is not a function Dynamo can trace"
    elif name == "choice":
        why = "reads its population back, whatever the size"
    elif name in SIZE_POSITION and _draws_one(node, SIZE_POSITION[name], view):
        why = "draws in the graph and hands Python the number"
    else:
        return
    yield Hit(
        node,
        f"`{view.text(node)}` {why}: the graph splits here",
        "draw with torch and keep a tensor (`torch.rand((), device=x.device)`), or draw outside the region",
    )


def _draws_one(call: ast.Call, position: int, view: View) -> bool:
    """Whether a draw is given no size. What `*shape` or `**options` spreads out may be one."""
    size = view.argument(call, position, "size")
    spread = any(isinstance(argument, ast.Starred) for argument in call.args) or any(
        keyword.arg is None for keyword in call.keywords
    )
    return not spread and (size is None or view.kind(size) == NONE)


BAD = (
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


class Mixup(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        lam = np.random.uniform(0, 1)  # ~
        if np.random.rand() < 0.5:  # ~
            lam = np.random.beta(0.4, 0.4)  # ~
        return h * lam + h.flip(0) * (1 - lam)
""",
        run="(Mixup(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        # Behind the draw the number is Python's, where no tensor is read back.
        code="""\
import numpy as np
import torch


def crop(x):
    x = x * 2
    top = np.random.randint(0, 2)  # ~
    for _ in range(top):
        x = x + 1
    return x[top : top + 2] * x[top]


def cropped(x):
    return crop(x)
""",
        run="(cropped, [(torch.ones(4, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import numpy
import torch


def shuffle(x):
    x = x * 2
    order = numpy.random.permutation(4)  # ~
    kept = numpy.random.choice(4, 2, replace=False)  # ~
    return x[:, torch.from_numpy(order)][:, torch.from_numpy(kept)]
""",
        run="(shuffle, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import numpy as np
import torch
from torch import nn

np.random.seed(0)


class Mixup(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.order = torch.from_numpy(np.random.permutation(4))
        self.offset = np.random.uniform(0, 1)

    def forward(self, x):
        h = self.proj(x)[:, self.order] + self.offset
        lam = torch.rand((), device=x.device)
        noise = torch.from_numpy(np.random.uniform(size=(2, 4)) + np.random.rand(*x.shape)) * 0
        return h * lam + h.flip(0) * (1 - lam) + noise
""",
        run="(Mixup(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
