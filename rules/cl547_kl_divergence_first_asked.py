"""The first `kl_divergence` of two classes of distributions looks up its formula, which splits the graph.

## What it does
Finds calls of `torch.distributions.kl_divergence` in code that Dynamo traces, for two distributions of one class of
which torch has several formulas: `Normal`, `Bernoulli`, `Beta`, `Chi2`, `ContinuousBernoulli`, `Dirichlet`,
`Exponential`, `Gamma`, `Gumbel`, `HalfNormal`, `Pareto`, `Poisson` and what `Independent` wraps. And for two of
different classes among `Normal`, `Beta`, `Chi2`, `Exponential` and `Gamma`.

## Why it costs
Which formula fits two classes torch works out once, by comparing all that do, and keeps. Dynamo does not trace the
comparison (GB0059): where compiled code is the first to ask, the graph splits there, and stays split although the
formula is known from then on. `fullgraph=True` raises.

## Write instead
The formula, which is short and has no checks in it:

    kl = 0.5 * (mean.square() + log_var.exp() - log_var - 1.0)

or have torch look it up before the code is compiled: `kl_divergence(Normal(0.0, 1.0), Normal(0.0, 1.0))` where the file
is imported, or in an `__init__`.

## Limits
A `Categorical` has one formula and compiles. What other code asked before is not known here. Measured on torch 2.11,
2.13 and 2.14.

## References
torch/distributions/kl.py: `_dispatch_kl`. GB0059.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.early import runs_early
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import own_nodes
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import ExternalInstance, options

HAZARD = "graph-break"
MIXED = frozenset("Normal Beta Chi2 Exponential Gamma".split())
"""Classes for each two of which torch has several formulas."""
ALIKE = MIXED | set("Bernoulli ContinuousBernoulli Dirichlet Gumbel HalfNormal Independent Pareto Poisson".split())
"""Classes for two of which, both the same, it has."""
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"kl_divergence"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call for which the file has not had the formula looked up."""
    if not isinstance(node, ast.Call) or not view.callee(node).startswith("torch.distributions."):
        return
    known = _classes_asked_for(node, view)
    several = MIXED.issuperset(known) if len(set(known)) > 1 else ALIKE.issuperset(known)
    if known and several and not view.fact(_asks_before) and _is_first(node, known, view):
        yield Hit(
            node,
            f"`{view.text(node)}` is the first to ask for the formula of two classes: Dynamo does not trace how torch"
            " finds it, and the graph splits here",
            "write the formula out, or ask for it once where the file is imported",
            "likely",
        )


def _classes_asked_for(call: ast.Call, view: View) -> list[str]:
    asked = [option for argument in call.args for option in options(view.kind(argument))]
    return [option.name.rpartition(".")[2] for option in asked if isinstance(option, ExternalInstance)]


def _is_first(call: ast.Call, known: list[str], view: View) -> bool:
    """Whether the function has not asked for the same classes before."""
    calls = [n for n in own_nodes(view.function) if isinstance(n, ast.Call) and last_name(n.func) == "kl_divergence"]
    return call is next((other for other in calls if _classes_asked_for(other, view) == known), None)


@about_file(False)
def _asks_before(module: ast.Module) -> bool:
    """Whether the file calls `kl_divergence` before any compiled code runs."""
    return any(
        isinstance(part, ast.Call) and last_name(part.func) == "kl_divergence"
        for around in runs_early(module)
        for part in nodes_in(around)
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.distributions import Exponential, Gamma, HalfNormal, kl_divergence


class Rates(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        rate = self.proj(x).exp()
        found = Gamma(rate, rate, validate_args=False)
        prior = Gamma(torch.ones_like(rate), torch.ones_like(rate), validate_args=False)
        kl = kl_divergence(found, prior).sum()  # ~
        kl = kl + kl_divergence(found, Exponential(rate, validate_args=False)).sum()  # ~
        scale = HalfNormal(rate, validate_args=False)
        return kl + kl_divergence(prior, found).sum() + kl_divergence(scale, scale).sum()  # ~
""",
        run="(Rates(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn
from torch.distributions import Categorical, Normal, kl_divergence


def look_up():
    return kl_divergence(Normal(0.0, 1.0), Normal(0.0, 1.0))


look_up()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        chosen = Categorical(logits=h, validate_args=False)
        before = Categorical(logits=x, validate_args=False)
        step = Normal(h, h.exp(), validate_args=False)
        return kl_divergence(chosen, before).sum() + kl_divergence(step, step).sum()
""",
        run="(Policy(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
