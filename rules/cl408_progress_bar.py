"""A progress bar inside compiled code leaves no graph of its loop.

## What it does
Finds `tqdm`, `trange` and `rich.progress` bars that are made, iterated, entered or updated in code that Dynamo
traces, and the `progress_bar` of pipelines and samplers.

## Why it costs
A bar is an object with locks, clocks and a terminal: Dynamo does not make one (GB0007) and does not iterate one
(GB0008), `disable=True` included. Since the break sits at the head of the loop, the function is not compiled at all:
not even the loop's body is.

## Write instead
Compile what the loop calls and leave the loop with its bar in Python:

    step = torch.compile(denoise_step)
    for t in tqdm(timesteps):
        latents = step(latents, t)

## Limits
Bars of other libraries are not known. Measured with tqdm 4.67 on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0007, GB0008, GB0142.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once, last_name
from compilelint.static.project.answers import about_file
from compilelint.static.project.bindings import bound_alone_to, names_bound

HAZARD = "frame-skip"
BARS = frozenset({"tqdm", "trange", "tqdm.tqdm", "tqdm.trange", "tqdm.auto.tqdm"})
PACKAGES = ("tqdm.", "rich.progress.", "alive_progress.", "progressbar.", "fastprogress.")
WATCH = Watch(
    nodes=(ast.Call,),
    callees=lambda name: name.startswith(PACKAGES),
    syntax=lambda node, module: isinstance(node, ast.Call) and owner_of(node) in names_bound(module),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per bar that is made or moved."""
    if not isinstance(node, ast.Call) or not (view.callee(node).startswith(PACKAGES) or is_of_bar(node, view)):
        return
    leads = leads_block(node, view)
    yield Hit(
        node,
        f"`{view.text(node)}` is a progress bar: Dynamo can't trace it"
        + (", and the whole function runs uncompiled" if leads else ", the graph splits here"),
        "keep the loop and its bar in Python and compile the function that the loop calls",
        hazard="frame-skip" if leads else "graph-break",
    )


def is_of_bar(node: ast.Call, view: View) -> bool:
    """Whether the call is a method of a bar that this function made, or that this file keeps."""
    owner = owner_of(node)
    is_variable = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    made = assigned_once(view.function, owner) if is_variable else None
    if isinstance(made, ast.Call):
        return view.callee(made).startswith(PACKAGES)
    return view.callee(node).startswith("?") and owner in view.fact(_bars)


@about_file(())
def _bars(module: ast.Module) -> tuple[str, ...]:
    """The names to which the file binds bars alone."""
    return bound_alone_to(module, BARS)


def owner_of(call: ast.Call) -> str:
    """The name of what a method is called on: `bar` in `self.bar.update()`; empty where there is none."""
    return last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def leads_block(node: ast.Call, view: View) -> bool:
    """Whether a `for` iterates over the bar, or a `with` enters it."""
    inner: ast.AST = node
    for parent in view.parents(node):
        if isinstance(parent, ast.For):
            return inner is parent.iter
        if isinstance(parent, ast.withitem):
            return True
        if isinstance(parent, ast.stmt):
            return False
        inner = parent
    return False


BAD = (
    Example(
        code="""\
import torch
from torch import nn
from tqdm import tqdm


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        for step in tqdm(range(3), desc="sampling", disable=True):  # ~
            x = x - self.fc(x) / (step + 1)
        return x
""",
    ),
    Example(
        code="""\
import torch
from tqdm.auto import tqdm


@torch.compile
def refine(x, steps=3):
    bar = tqdm(total=steps, disable=True)  # ~
    y = torch.tanh(x)
    bar.update(1)  # ~
    return y
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn
from tqdm import tqdm


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, scale):
        return x - self.fc(x) * scale


def sample(model, x, steps=3):
    step = torch.compile(model)
    for i in tqdm(range(steps), disable=True):
        x = step(x, 1 / (i + 1))
    return x
""",
    ),
)
