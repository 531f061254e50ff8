"""A copy to the host into memory that is not pinned waits, whatever `non_blocking` says.

## What it does
In loops that run a compiled model or decode with one, finds `host.copy_(out, non_blocking=True)` where the file makes
`host` on the CPU and does not pin it.

## Why it costs
`non_blocking=True` lets the host go on only where the GPU can write the memory by itself: pinned memory. Into any other
the call waits until the GPU has done all that is queued. Measured on an H200 (torch 2.11) with 97 ms of work queued: 96
ms for one float as for 16 MB, 0.1 ms into pinned memory.

## Write instead
    host = torch.empty(batch, pin_memory=True)
    host.copy_(out, non_blocking=True)

or `out.to("cpu", non_blocking=True)`, which makes pinned memory itself (measured: 0.1 ms). Read it after an event that
is recorded behind the copy.

## Limits
The other way, `x.to("cuda", non_blocking=True)` of memory that is not pinned waits too, but only for large tensors: not
at 1 MB, 93 ms at 16 MB. How large one is, the code does not say.

## References
PyTorch documentation "CUDA semantics", on pinned memory buffers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import parameters, without_index
from compilelint.static.facts.turns import each_turn, is_host_device, on_device
from compilelint.static.project.answers import about_file
from compilelint.static.project.bindings import all_bound
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import UNKNOWN

HAZARD = "host-sync"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"copy_"}), regions=frozenset({"decode-loop", "batch-loop"}))
FACTORIES = frozenset(f"torch.{name}" for name in ("empty", "zeros", "ones", "full", "rand", "randn"))
LIKE = frozenset(f"torch.{name}_like" for name in ("empty", "zeros", "ones", "full", "rand", "randn"))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the copy that is meant not to wait and does."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return
    asked = any(
        keyword.arg == "non_blocking" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in node.keywords
    )
    into = without_index(node.func.value)
    if isinstance(into, ast.Name) and into.id in parameters(view.function):
        return
    name = into.attr if isinstance(into, ast.Attribute) else into.id if isinstance(into, ast.Name) else ""
    copied = view.kind(node.args[0])
    if asked and name in view.fact(pageable) and (copied == UNKNOWN or on_device(copied)) and each_turn(node, view):
        host, source = view.text(into), view.text(node.args[0])
        yield Hit(
            node,
            f"`{host}` is not pinned: this copy waits until the GPU has done all that is queued, `non_blocking` or not",
            f"make `{host}` with `pin_memory=True`; or take `{source}.to('cpu', non_blocking=True)`",
            "likely",
        )


@about_file(())
def pageable(module: ast.Module) -> tuple[str, ...]:
    """The variables and attributes that a file sets to nothing but new tensors on the host that are not pinned.

    None in a file that sets where tensors are made: `torch.set_default_device("cuda")`, `with torch.device("cuda"):`.
    """
    if any(map(_sets_default, nodes_in(module))):
        return ()
    return tuple(sorted(name for name, calls in all_bound(module).items() if all(map(_is_pageable, calls))))


def _sets_default(node: ast.AST) -> bool:
    if isinstance(node, ast.withitem):
        return isinstance(node.context_expr, ast.Call) and last_name(node.context_expr.func) == "device"
    return isinstance(node, ast.Attribute) and node.attr in ("set_default_device", "set_default_tensor_type")


def _is_pageable(made: ast.Call) -> bool:
    maker = ast.unparse(made.func)
    given = {keyword.arg: keyword.value for keyword in made.keywords}
    if maker not in FACTORIES | LIKE or None in given:
        return False
    pinned, device = given.get("pin_memory"), given.get("device")
    if pinned is not None and not (isinstance(pinned, ast.Constant) and not pinned.value):
        return False
    return maker in FACTORIES if device is None else is_host_device(device)


BAD = (
    Example(
        code="""\
import torch


@torch.no_grad()
def generate(model, ids: torch.Tensor, steps: int):
    host = torch.empty(ids.shape[0], dtype=torch.long)
    rows = torch.zeros_like(ids, device="cpu")
    for step in range(steps):
        ids = model(ids).argmax(-1)
        host.copy_(ids, non_blocking=True)  # ~
        rows[step].copy_(ids, non_blocking=True)  # ~
    return host, rows


class Server:
    def __init__(self, model):
        self.model = torch.compile(model)
        self.scores = torch.zeros(8)

    def serve(self, requests):
        for request in requests:
            self.scores.copy_(self.model(request).softmax(-1), non_blocking=True)  # ~
            yield request
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch


@torch.no_grad()
def generate(model, ids: torch.Tensor, steps: int, device):
    host = torch.empty(ids.shape[0], dtype=torch.long, pin_memory=True)
    late = torch.zeros(8)
    late = late.pin_memory()
    there = torch.empty(8, device=device)
    last = torch.empty(8)
    kept = []
    for step in range(steps):
        ids = model(ids).argmax(-1)
        host.copy_(ids, non_blocking=True)
        late.copy_(ids, non_blocking=True)
        there.copy_(ids, non_blocking=True)
        kept.append(ids.to("cpu", non_blocking=True))
    last.copy_(ids, non_blocking=True)
    return host, late, there, kept


@torch.no_grad()
def fill(model, ids, steps, host_rows):
    for step in range(steps):
        ids = model(ids).argmax(-1)
        host_rows.copy_(ids, non_blocking=True)
    return ids


def rows_of(ids):
    host_rows = torch.empty(8)
    return host_rows.copy_(ids)
""",
    ),
    Example(
        code="""\
import torch

torch.set_default_device("cuda")


@torch.no_grad()
def generate(model, ids: torch.Tensor, steps: int):
    static = torch.zeros(8)
    for step in range(steps):
        ids = model(ids).argmax(-1)
        static.copy_(ids, non_blocking=True)
    return static
""",
    ),
)
