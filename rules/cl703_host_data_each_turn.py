"""A tensor built from Python numbers on the device each decode turn is copied from pageable memory, and waits.

## What it does

In a loop that calls a model each turn, and in functions it calls, finds `torch.tensor(values, device=device)`,
`torch.tensor(values).to(device)` and `torch.from_numpy(array).cuda()`. In a loop that trains or validates what its file
compiles, only where the values are written down there, so that each turn copies the same ones.

## Why it costs

The data lies in pageable host memory, so the copy is synchronous: the host waits for the GPU before the next kernel
can be queued. Measured on an H200 with `torch.cuda.set_sync_debug_mode`: each of these lines waits, `torch.full` and
`torch.arange` on the device don't. Under a CUDA graph the tensor is also at a new address in every step.

## Write instead

- Make constant values on the device: `torch.full((batch,), draft, device=device)`.
- Allocate once before the loop and fill in place: `lengths.fill_(n)`, `lengths.add_(1)`.
- For data that is new in each step, copy from a pinned staging tensor: `staging.copy_(values)`, then
  `lengths.copy_(staging, non_blocking=True)`.

## Limits

With `non_blocking=True` the host was not seen to wait, and nothing is reported; large pageable copies may still stall
unseen.

## References

PyTorch documentation, "A guide on good usage of non_blocking and pin_memory()".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.turns import each_turn, names_cpu
from compilelint.static.values import NONE, tensor_certainty

HAZARD = "host-sync"
WATCH = Watch(
    nodes=(ast.Call,),
    names=frozenset({"tensor", "as_tensor", "to", "cuda"}),
    regions=frozenset({"decode-loop", "batch-loop"}),
)
FROM_PYTHON = frozenset({"torch.tensor", "torch.as_tensor"})
FROM_HOST = FROM_PYTHON | {
    "torch.from_numpy",
    "torch.frombuffer",
    "torch.Tensor",
    "torch.LongTensor",
    "torch.FloatTensor",
}


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the call that puts host data on the device."""
    if not isinstance(node, ast.Call) or not each_turn(node, view):
        return
    if any(keyword.arg == "non_blocking" for keyword in node.keywords):
        return
    if view.callee(node) in FROM_PYTHON:
        device = view.argument(node, 2, "device")
        if device is None or names_cpu(view.kind(device)) or view.kind(device) == NONE or _pinned(node):
            return
    elif not _is_moved(node, view):
        return
    data = node.args[0] if view.callee(node) in FROM_PYTHON and node.args else None
    if data is not None and tensor_certainty(view.kind(data)) is not None:
        return
    if view.region == "batch-loop":
        yield from _same_each_turn(node, view)
        return
    yield Hit(
        node,
        f"`{view.text(node)}` copies Python data to the device on every turn: the memory is not pinned, so the"
        " host waits for the copy and for the GPU before it",
        "build it on the device (`torch.full`), or allocate it before the loop and fill it in place",
        confidence="likely",
    )


def _same_each_turn(call: ast.Call, view: View) -> Iterator[Hit]:
    """A tensor of literals that a loop over batches makes on every turn; what comes with a batch is new each time."""
    made = call.func.value if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call) else call
    if (
        made.args
        and _is_written_down(made.args[0])
        and any(isinstance(p, ast.Constant) for p in ast.walk(made.args[0]))
    ):
        yield Hit(
            call,
            f"`{view.text(call)}` copies the same numbers to the device on every turn of the loop: the memory is not"
            " pinned, so the host waits for the copy and for the GPU before it",
            "make it once, before the loop; what is added to in place, on the device (`torch.zeros(…, device=…)`)",
            confidence="likely",
        )


def _is_written_down(data: ast.expr) -> bool:
    if isinstance(data, (ast.List, ast.Tuple)):
        return all(map(_is_written_down, data.elts))
    return isinstance(data.operand if isinstance(data, ast.UnaryOp) else data, ast.Constant)


def _is_moved(call: ast.Call, view: View) -> bool:
    """`torch.tensor(values).to(device)` and `….cuda()`."""
    if not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)):
        return False
    if view.callee(call.func.value) not in FROM_HOST or _pinned(call.func.value):
        return False
    if call.func.attr == "cuda":
        return True
    device = view.argument(call, 0, "device")
    return device is not None and not names_cpu(view.kind(device)) and "dtype" not in ast.unparse(device)


def _pinned(call: ast.Call) -> bool:
    return any(keyword.arg == "pin_memory" for keyword in call.keywords)


BAD = (
    Example(
        code="""
import torch


class Engine:
    def __init__(self, net, draft=2):
        self.net = net
        self.draft = draft

    def lengths(self, batch, device):
        return torch.tensor([self.draft] * batch, device=device)  # ~

    @torch.no_grad()
    def run(self, x, steps):
        for step in range(steps):
            x = self.net(x, self.lengths(x.shape[0], x.device))
            position = torch.as_tensor([step]).to(x.device)  # ~
            x = x + position
        return x
""",
    ),
    Example(
        code="""
import torch


def validate(net, loader, device):
    fast = torch.compile(net)
    total = 0.0
    for x, y in loader:
        weight = torch.tensor([1.0, 0.5, -2.0], device=device)  # ~
        scale = torch.tensor(0.5).to(device)  # ~
        total = total + (fast(x) * weight * scale - y).square().mean()
    return total / len(loader)
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch


class Engine:
    def __init__(self, net, draft=2):
        self.net = net
        self.draft = draft

    @torch.no_grad()
    def run(self, x, steps):
        lengths = torch.tensor([self.draft] * x.shape[0], device=x.device)
        scale = torch.tensor(0.5).to(x.device)
        for step in range(steps):
            x = self.net(x, lengths) * scale
            lengths.add_(1)
            x = x + torch.full((1,), step, device=x.device)
            table = torch.tensor([step, step + 1]).pin_memory().to(x.device, non_blocking=True)
            x = x.to(table.dtype).to(x.device)
        return x
""",
    ),
    Example(
        code="""
import torch


def train(net, loader, device, opt):
    fast = torch.compile(net)
    weight = torch.tensor([1.0, 0.5], device=device)
    for step, (x, length) in enumerate(loader):
        lengths = torch.tensor(length, device=device)
        rate = torch.tensor([0.1 * step], device=device)
        found = torch.tensor([], device=device)
        loss = (fast(x, lengths) * weight * rate).mean() + found.sum()
        loss.backward()
        opt.step()
""",
    ),
)
