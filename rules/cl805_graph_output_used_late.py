"""The output of a CUDA-graph replay is gone when the next replay runs, also as its input.

## What it does

Follows what functions return that the file compiles with `mode="reduce-overhead"` or `"max-autotune"`: `x = step(x)` in
a loop, `head(step(x))`, `self.state = step(x, self.state)`, and `a = step(x); b = step(y); a - b`.

## Why it costs

Replays share one memory. Where no backward pass is to come, each call of a compiled function starts anew and gives up
what all earlier ones returned: reading it raises "accessing tensor output of CUDAGraphs that has been overwritten by a
subsequent run", and so does handing it to the next call, even of another compiled function. That is so for the first
two calls, which warm up and record; once warmed up, what is read late holds the numbers of the later call, without an
error (measured on an H200, torch 2.11). `torch.compiler.cudagraph_mark_step_begin()` does not help, `clone()` inside
the compiled function does not either. On the CPU and in the default mode the same code works.

## Write instead

- A copy made outside of the compiled function: `x = step(x).clone()`.
- Or compile both steps as one function.

## Limits

Silent in functions that run a backward pass, which keeps outputs alive; only `possible` where nothing in the file says
that the code runs without gradients. `model.eval()` does not say so: parameters that require gradients keep outputs
alive in it too (measured as well).

## References

PyTorch documentation "CUDAGraph Trees", on outputs that are overwritten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.cuda_graphs import replayed, without_gradients
from compilelint.static.facts.replays import LateUse, late_uses

HAZARD = "cudagraph-skip"
WATCH = Watch(
    nodes=(ast.Name, ast.Attribute, ast.Call, ast.Subscript),
    files=lambda module: bool(replayed(module)),
    regions=frozenset({"decode-loop", "host"}),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the use of an output whose memory another replay has taken."""
    for use in late_uses(view.function, view.module):
        if use.node is node:
            yield _hit(use, "likely" if without_gradients(view.module) else "possible", view)


def _hit(use: LateUse, confidence: Confidence, view: View) -> Hit:
    made = view.text(use.made.func)
    kept = use.node
    while kept is not use.made and isinstance(kept, ast.Call) and isinstance(kept.func, ast.Attribute):
        kept = kept.func.value  # `token` of `token.view(1, -1)`
    copied = f"{view.text(kept)}.clone()"
    if isinstance(kept, (ast.Name, ast.Attribute)):
        copied = f"{view.text(kept)} = {copied}"
    what = (
        "which the call that gets it overwrites: reading it raises an error"
        if use.how == "passed"
        else "which a later replay has overwritten: reading it raises an error, or once warm gives that one's numbers"
    )
    return Hit(
        use.node,
        f"`{view.text(use.node)}` is memory of the CUDA graph of `{made}`, {what}",
        f"copy it before `{made}` is called again: `{copied}`",
        confidence=confidence,
    )


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Sampler:
    def __init__(self, net, head):
        self.net = torch.compile(net, mode="reduce-overhead")
        self.head = torch.compile(head, mode="reduce-overhead")
        self.state = None

    @torch.no_grad()
    def sample(self, x, steps):
        for _ in range(steps):
            x = self.net(x)  # ~
        return x

    @torch.no_grad()
    def score(self, x):
        return self.head(self.net(x))  # ~

    @torch.no_grad()
    def guided(self, x, empty):
        told = self.net(x)
        free = self.net(empty)
        return free + 2 * (told - free)  # ~

    @torch.no_grad()
    def step(self, x):
        self.state = self.net(self.state)  # ~
        return self.state.argmax(-1)
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Sampler:
    def __init__(self, net, head):
        self.net = torch.compile(net, mode="reduce-overhead")
        self.plain = torch.compile(net)
        self.head = torch.compile(head, mode="reduce-overhead")

    @torch.no_grad()
    def sample(self, x, steps):
        for _ in range(steps):
            x = self.net(x).clone()
            x = x + self.net(x)
            token = self.net(x).argmax(-1)
            x = self.net(token).softmax(-1)
            x = self.plain(x)
            x = self.plain(x)
        return x

    @torch.no_grad()
    def guided(self, x, empty):
        told, free = self.net(torch.cat([x, empty])).chunk(2)
        return free + 2 * (told - free)

    def fit(self, x, y):
        loss = (self.head(self.net(x)) - y).mean()
        loss.backward()
        return loss
""",
    ),
)
