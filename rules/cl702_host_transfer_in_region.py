"""Moving a tensor to the CPU inside compiled code does not break the graph, but stops the GPU and splits CUDA graphs.

## What it does

Finds `.cpu()`, `.to("cpu")` and `.numpy()` on tensors in compiled code.

## Why it costs

Dynamo traces the transfer (measured on torch 2.13: no graph break), so nothing warns. At run time the host waits for
the GPU, once per call, and Inductor cannot put a copy to the host into a CUDA graph: with `mode="reduce-overhead"`
the graph is split around it (reason "DeviceCopy ops"), or skipped in versions without partitioning.

## Write instead

- Do the work on the device: most of numpy has a torch counterpart.
- Return the tensor, and move it outside of the compiled function, once.

## Limits

A transfer whose value is then read by `.item()` or `.tolist()`, which break the graph, is left to the rules on those.
Whether the model runs on a GPU is not known here.

## References

PyTorch documentation "CUDAGraph Trees", on CPU operations and partitioning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.turns import already_read, is_move_to_host, on_device
from compilelint.static.values import UNKNOWN, tensor_certainty

HAZARD = "host-sync"
WATCH = Watch(nodes=(ast.Call,), syntax=lambda node, module: _may_move(node))
BREAKERS = frozenset(
    [
        "item",
        "tolist",
        "nonzero",
        "unique",
        "unique_consecutive",
        "bincount",
        "masked_select",
        "argwhere",
        "repeat_interleave",
    ]
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the call that moves a tensor of the graph to the host."""
    if view.assumed or not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    confidence = _moves(node, node.func, view)
    if confidence is None or _breaks_anyway(node, view):
        return
    yield Hit(
        node,
        f"`{view.text(node)}` copies to the host inside compiled code: no graph break, but every call waits for the GPU"
        " here, and CUDA graphs are split around it",
        "stay on the device, or return the tensor and move it outside of the compiled function",
        confidence=confidence,
    )


def _may_move(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return node.func.attr == "numpy" or is_move_to_host(node)


def _moves(call: ast.Call, method: ast.Attribute, view: View) -> Confidence | None:
    """How sure it is that this call brings a tensor from the device to the host."""
    receiver = view.kind(method.value)
    if already_read(method.value):
        return None
    if is_move_to_host(call):
        # Arguments of the region are tensors of unknown kind more often than anything else that has a `.cpu()`.
        return "likely" if receiver == UNKNOWN or on_device(receiver) else None
    return (
        "likely" if method.attr == "numpy" and tensor_certainty(receiver) == "certain" and on_device(receiver) else None
    )


def _breaks_anyway(call: ast.Call, view: View) -> bool:
    """Whether something in the same expression already breaks the graph: one finding for the line is enough."""
    whole: ast.AST = call
    for parent in view.parents(call):
        if isinstance(parent, ast.stmt):
            break
        whole = parent
    return any(
        (isinstance(part, ast.Attribute) and part.attr in BREAKERS)
        or (isinstance(part, ast.Call) and view.breaks(part) is not None)
        for part in ast.walk(whole)
    )


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.head = nn.Linear(dim, dim)

    def scores(self, h: torch.Tensor):
        return h.softmax(-1).cpu()  # ~

    def forward(self, x: torch.Tensor):
        h = self.head(x)
        best = h.argmax(-1).to("cpu")  # ~
        return self.scores(h), best
""",
        run="Detector(), [(torch.ones(2, 4),) for _ in range(2)]",
        default="clean",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.head = nn.Linear(dim, dim)
        self.register_buffer("table", torch.arange(dim).cpu())

    def forward(self, x: torch.Tensor):
        h = self.head(x.to(torch.float32)).to(x.device)
        return h.softmax(-1), h.argmax(-1) + self.table[0]


def detect(model, x):
    scores, best = model(x)
    return scores.cpu(), best.cpu().numpy()
""",
        run="Detector(), [(torch.ones(2, 4),) for _ in range(2)]",
        default="clean",
        fullgraph="clean",
    ),
)
