"""Setting a seed, reading generator state, or using a torch.Generator splits the graph.

## What it does
Finds `torch.manual_seed` and its kin, reads and writes of the random state, `torch.Generator` objects that are made,
seeded or passed as `generator=` in code that Dynamo traces.

## Why it costs
A graph may draw random numbers but not touch what they are drawn from. Seeding and state calls are marked not to be
traced (GB0007, GB0208), methods of a generator change hidden state (GB7650, since 2.12), one made inside is an object
no graph can hold (GB0363), and one given to an operator can't be written into the graph (GB0055). `fork_rng` in a
`with` leaves no graph at all (GB0142).

## Write instead
Seed before the compiled call. Draw with a private generator outside and pass the noise in:

    noise = torch.randn(shape, generator=g)      # caller
    out = compiled_step(x, noise)

`torch.utils.checkpoint` (non-reentrant) replays dropout by itself and compiles.

## Limits
`generator=None`, `Generator.device`, `torch.seed()` and `np.random.seed` compile and stay silent. A parameter called
`generator` whose value is unknown is not reported: callers usually leave it at None. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0007, GB0055, GB0142, GB0208, GB0363, GB7650.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Class, ExternalInstance, Function, options

HAZARD = "graph-break"
DEVICES = ("", "random.", "cuda.", "cuda.random.", "xpu.", "mps.")
STATE_CALLS = frozenset(
    f"torch.{device}{name}"
    for device in DEVICES
    for name in (
        "manual_seed",
        "manual_seed_all",
        "initial_seed",
        "get_rng_state",
        "set_rng_state",
        "get_rng_state_all",
        "set_rng_state_all",
        "fork_rng",
    )
)
OF_GENERATOR = frozenset(
    f"torch.{generator}.{name}"
    for generator in ("Generator", "default_generator", "random.default_generator")
    for name in ("manual_seed", "seed", "initial_seed", "get_state", "set_state", "graphsafe_get_state")
)
WATCH = Watch(
    nodes=(ast.Call,),
    callees=lambda name: name == "torch.Generator" or name in STATE_CALLS | OF_GENERATOR,
    syntax=lambda node, module: any(keyword.arg == "generator" for keyword in getattr(node, "keywords", ())),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that touches a random state or takes a generator."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    if callee in STATE_CALLS or callee in OF_GENERATOR:
        yield Hit(
            node,
            f"`{view.text(node)}` touches the random state, which a graph can't hold: Dynamo splits the graph here",
            "seed before the compiled call, or draw outside and pass the numbers in",
        )
    elif callee == "torch.Generator":
        yield Hit(
            node,
            f"`{view.text(node)}` makes a generator in compiled code: Dynamo splits the graph here",
            "make the generator outside, draw from it there, and pass the numbers in",
        )
    elif is_generator(view.argument(node, 99, "generator"), view) and not _is_walked(node, view):
        yield Hit(
            node,
            f"`{view.text(node)}` draws from its own generator, which Dynamo can't write into a graph: it splits here",
            "draw outside the compiled code and pass the noise in, or use the default generator",
        )


def _is_walked(call: ast.Call, view: View) -> bool:
    """Whether a call leads into the project, where what draws from the generator, if anything does, is met."""
    return all(isinstance(kind, (Function, Class)) for kind in options(view.kind(call.func)))


def is_generator(argument: ast.expr | None, view: View) -> bool:
    """Whether the argument is known to be a torch.Generator, and not None."""
    if argument is None:
        return False
    kinds = options(view.kind(argument))
    return all(isinstance(kind, ExternalInstance) and kind.name == "torch.Generator" for kind in kinds)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Reversible(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.seed = 7

    def replay(self):
        torch.manual_seed(self.seed)  # ~

    def forward(self, x):
        h = self.fc(x)
        self.replay()
        return self.drop(h)
""",
        run="(Reversible(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch

generator = torch.Generator()
generator.manual_seed(0)


@torch.compile
def add_noise(latents, sigma):
    torch.default_generator.manual_seed(7)  # ~
    noise = torch.randn(latents.shape, generator=generator)  # ~
    return latents + noise * sigma
""",
        run="(add_noise, [(torch.ones(2, 4), 0.5)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch


@torch.compile
def sample(probabilities):
    state = torch.get_rng_state()  # ~
    picked = torch.multinomial(probabilities, 1)
    torch.set_rng_state(state)  # ~
    return picked
""",
        run="(sample, [(torch.full((2, 4), 0.25),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


def jittered(x, scale=1.0, generator=None):
    return x * scale if generator is None else x


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.own = torch.Generator()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, generator=None):
        p = self.fc(jittered(x, generator=self.own)).softmax(-1)
        return torch.multinomial(p, 1, generator=generator) + torch.rand_like(p)
""",
        run="(Sampler(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
