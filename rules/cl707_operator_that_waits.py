"""An operator that looks at its data before it returns makes the host wait for the GPU on every turn of a decode loop.

## What it does

In a loop that calls a model each turn, and in functions it calls, finds calls that a GPU was seen to wait in although
nothing in them reads a value back by its look: `torch.linalg.solve`, `inv` and `cholesky` (they check for success),
`torch.normal` with tensors (it checks the deviations), `torch.cov`, `torch.histc`, `torch.allclose`, a factory sized
by a tensor. Which calls these are comes from a table that was made on an H200 with
`torch.cuda.set_sync_debug_mode`, by calling each public function with tensors on the device.

## Why it costs

The GPU runs dry while the host waits, and the host has nothing queued when it goes on: the time of a launch is added to
each turn.

## Write instead

- A form that does not check: `torch.linalg.inv_ex`, `cholesky_ex`, `solve_ex` (measured: they do not wait).
- `mean + std * torch.randn_like(std)` for `torch.normal(mean, std)`.
- What does not change from turn to turn, before the loop.

## Limits

Measured with torch 2.11 and CUDA 13.0. Silent about `torch.isin`, which waits only where there is so much to look for
that it sorts. Gives way to the rules that know more about a call, such as CL701 and CL704.

## References

PyTorch documentation, `torch.cuda.set_sync_debug_mode`; `torch.linalg.inv_ex`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.turns import each_turn, on_device
from compilelint.static.values import UNKNOWN

HAZARD = "host-sync"
FALLBACK = True
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name.startswith("torch."), regions=frozenset({"decode-loop"}))
BY_SIZE = frozenset({"torch.isin", "torch.Tensor.isin"})
"""Wait for some sizes only, the usual ones excluded."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the call that waits for a value of a tensor on the device."""
    if not isinstance(node, ast.Call) or not each_turn(node, view) or view.callee(node) in BY_SIZE:
        return
    if "waits" not in view.on_cuda(node):
        return
    is_method = view.callee(node).startswith("torch.Tensor.") and isinstance(node.func, ast.Attribute)
    receiver = [node.func.value] if is_method and isinstance(node.func, ast.Attribute) else []
    given = [*receiver, *node.args, *(keyword.value for keyword in node.keywords)]
    if not any(view.kind(argument) == UNKNOWN or on_device(view.kind(argument)) for argument in given):
        return
    yield Hit(
        node,
        f"`{view.text(node)}` looks at values on the GPU before it returns: on every turn the host waits for them",
        _instead(view.callee(node)),
        confidence="likely",
    )


def _instead(name: str) -> str:
    if name.rpartition(".")[2] in ("inv", "inverse", "cholesky", "solve", "lu_factor"):
        last = name.rpartition(".")[2].replace("inverse", "inv")
        return f"use the form that does not check: `torch.linalg.{last}_ex`"
    return "compute it once before the loop, or with operations that do not ask for values"


BAD = (
    Example(
        code="""
import torch


@torch.no_grad()
def track(model, x: torch.Tensor, steps: int):
    for _ in range(steps):
        x = model(x)
        noise = torch.normal(x, x.abs())  # ~
        gain = torch.linalg.inv(x @ x.T)  # ~
        spread = torch.cov(x)  # ~
        x = gain @ x + noise * spread
    return x
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch


@torch.no_grad()
def track(model, x: torch.Tensor, steps: int):
    start = torch.linalg.inv(x @ x.T)
    host = torch.ones(4, 4, device="cpu")
    for _ in range(steps):
        x = model(x)
        noise = x + x.abs() * torch.randn_like(x)
        gain = torch.linalg.inv_ex(x @ x.T).inverse * torch.isin(x, start)
        mean = torch.linalg.inv(host)
        x = start @ gain @ x + noise + torch.normal(0.0, 1.0, (4,)) + mean
    return x
""",
    ),
)
