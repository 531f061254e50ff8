"""A distribution that checks its parameters splits the graph where it is made.

## What it does
Finds distributions of `torch.distributions` that are made with `validate_args=True` in code that Dynamo traces.

## Why it costs
The check asks each constraint whether it depends on others, through a function that Dynamo skips (GB0007), and then
whether all values hold, which reads a tensor back. The graph ends at the constructor; in a loop, as over the
transforms of a batch, no graph is left. Without the argument nothing is checked: importing Dynamo switches the checks
off.

## Write instead
Leave `validate_args` out, and check what comes from users where it enters:

    noise = torch.distributions.Uniform(low, high).sample((batch,))

## Limits
`validate_args=False` compiles. `Independent`, `TransformedDistribution` and `MixtureSameFamily`, which have no
parameters of their own to check, are not reported. Measured on torch 2.13.

## References
torch documentation: "Probability distributions - torch.distributions". GB0007.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
PREFIX = "torch.distributions."
OF_OTHERS = frozenset({"Independent", "TransformedDistribution", "MixtureSameFamily"})
"""Distributions made of distributions."""
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name.startswith(PREFIX) and _class_in(name) not in OF_OTHERS)


def _class_in(name: str) -> str:
    return name.rpartition(".")[2]


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per distribution that is told to check its parameters."""
    if not isinstance(node, ast.Call):
        return
    name = view.callee(node)
    flag = view.argument(node, 99, "validate_args")
    if isinstance(flag, ast.Constant) and flag.value is True and _class_in(name)[:1].isupper():
        yield Hit(
            node,
            f"`{_class_in(name)}(…, validate_args=True)` checks its parameters in code that Dynamo skips: the graph"
            " splits here",
            "leave `validate_args` out and check where the values come in, outside the compiled code",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.distributions import Normal


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(4, 2)

    def forward(self, x):
        mean = self.mean(x)
        policy = Normal(mean, torch.ones_like(mean), validate_args=True)  # ~
        return policy.rsample()
""",
        run="(Policy(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def louder(x: torch.Tensor):
    low = torch.tensor(0.5, device=x.device)
    gain = torch.distributions.Uniform(low, low + 1, validate_args=True)  # ~
    return x * gain.sample((x.shape[0], 1))
""",
        run="(louder, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.distributions import Independent, Normal, Uniform


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(4, 2)
        self.prior = Normal(torch.zeros(2), torch.ones(2), validate_args=True)

    def forward(self, x):
        mean = self.mean(x)
        policy = Independent(Normal(mean, torch.ones_like(mean)), 1, validate_args=True)
        noise = Uniform(0.0, 1.0, validate_args=False).sample((2,))
        return policy.rsample() + noise * self.prior.scale
""",
        run="(Policy(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
