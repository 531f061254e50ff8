"""A few distributions decide by their values how to go on: the graph splits where they are asked.

## What it does
Finds, in code that Dynamo traces, `VonMises(…).sample()`, which draws until all draws are accepted; a `Wishart`, whose
degrees of freedom are tested where it is made and draws where they are drawn; `entropy` and `enumerate_support` of a
`Binomial` and `entropy` of a `Multinomial`, which test that all counts are the same.

## Why it costs
Each is an `if` or a `while` on a tensor inside of torch.distributions (GB0170). Dynamo cannot take that into a graph,
so it ends there and what was called runs uncompiled.

## Write instead
Draw and measure outside of the compiled function and pass the result in. For angles, a `Normal` around the mean that is
wrapped to the circle compiles; the entropy of a `Categorical` does too.

## Limits
Other distributions of torch.distributions, and the densities of these, compile. Measured on torch 2.11, 2.13 and 2.14.

## References
torch documentation: "Probability distributions - torch.distributions". GB0170, GB0116, GB0124.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
PREFIX = "torch.distributions."
READING = {
    "VonMises.sample": "draws until all draws are accepted",
    "Wishart": "tests its degrees of freedom",
    "Wishart.sample": "tests what it drew",
    "Wishart.rsample": "tests what it drew",
    "Wishart.entropy": "tests its values",
    "Binomial.entropy": "tests that all counts are the same",
    "Binomial.enumerate_support": "tests that all counts are the same",
    "Multinomial.entropy": "tests that all counts are the same",
}


def _asked(callee: str) -> str:
    """`Wishart.sample` of `torch.distributions.wishart.Wishart.sample`."""
    parts = callee.removeprefix(PREFIX).split(".") if callee.startswith(PREFIX) else []
    return ".".join(parts[1:] if parts and parts[0].islower() else parts)


WATCH = Watch(nodes=(ast.Call,), callees=lambda name: _asked(name) in READING)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that goes on by the values of tensors."""
    if isinstance(node, ast.Call) and (reads := READING.get(_asked(view.callee(node)))):
        yield Hit(
            node,
            f"`{view.text(node.func)}` {reads}: a choice by a tensor's value, which splits the graph here",
            "ask the distribution outside of the compiled function and pass in what it gives",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.distributions import Independent, Normal, VonMises


class Torsions(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 6)

    def angles(self, loc, concentration):
        return VonMises(loc, concentration)

    def forward(self, x):
        loc, raw, width = self.net(x).chunk(3, -1)
        radius = Independent(Normal(loc, width.exp()), 1).rsample()
        return self.angles(loc, raw.exp()).sample() + radius  # ~
""",
        run="(Torsions(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import distributions, nn


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.prior = distributions.Wishart(torch.tensor(5.0), torch.eye(3))

    def forward(self, x):
        return x @ self.prior.rsample()  # ~
""",
        run="(Noise(), [(torch.ones(2, 3),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch.distributions.binomial import Binomial


def surprise(x: torch.Tensor):
    return Binomial(4, probs=x.sigmoid()).entropy() * x  # ~
""",
        run="(surprise, [(torch.ones(2, 3),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.distributions import Beta, Binomial, Categorical, VonMises


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.prior = VonMises(torch.zeros(4), torch.ones(4))

    def forward(self, x):
        out = self.net(x)
        drawn = Beta(out.exp(), out.exp()).rsample()
        count = Binomial(4, probs=drawn).log_prob(torch.ones_like(drawn))
        entropy = Categorical(logits=out).entropy()
        return self.prior.log_prob(out) + count + entropy[:, None]
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
