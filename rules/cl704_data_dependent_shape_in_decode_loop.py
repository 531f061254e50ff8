"""An operation whose output size depends on the data makes every decode turn wait for the GPU to tell the size.

## What it does

In a loop that calls a model each turn and feeds back what it gave, or one that calls what its file compiles, and in
functions it calls, finds `nonzero`, one-argument `where`, `unique`, `bincount`, `masked_select`, `repeat_interleave`
with tensor counts, and `x[mask]` with a boolean mask.

## Why it costs

The host must know the size of the result before it can allocate it, so it waits for the GPU
(`torch.cuda.set_sync_debug_mode` names these lines). The size also differs from step to step, which makes the
compiled step recompile or run with dynamic shapes, and CUDA graphs be recorded again.

## Write instead

- `torch.where(mask, x, filler)`, or multiply by the mask: same size in every step.
- `torch.nonzero_static(mask, size=n)` where an upper bound is known.
- `repeat_interleave(x, counts, output_size=n)`.

## References

PyTorch documentation, `torch.cuda.set_sync_debug_mode`; operator tag `dynamic_output_shape`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import CONFIDENCES, Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.turns import each_turn, is_python_value, on_device
from compilelint.static.values import Const, tensor_certainty, tensors_in

HAZARD = "host-sync"
WATCH = Watch(nodes=(ast.Call, ast.Subscript), regions=frozenset({"decode-loop", "batch-loop"}))
SIZED_BY_DATA = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the operation whose result's size only the device knows."""
    if not isinstance(node, ast.expr) or not each_turn(node, view):
        return
    confidence = _by_call(node, view) if isinstance(node, ast.Call) else _by_mask(node, view)
    if confidence is not None:
        yield Hit(
            node,
            f"the size of `{view.text(node)}` depends on the data: on every turn the host waits for the GPU to learn"
            " it, and later steps see new shapes",
            "keep the size fixed: `torch.where(mask, x, filler)`, a multiplication by the mask, `torch.nonzero_static`",
            confidence=max(confidence, "likely", key=CONFIDENCES.index) if view.region == "batch-loop" else confidence,
        )


def _by_call(call: ast.Call, view: View) -> Confidence | None:
    name = view.callee(call)
    last = name.rpartition(".")[2]
    if not (name.startswith("torch.") or (name.startswith("?.") and last in ("nonzero", "masked_select"))):
        return None
    tensor = call.func.value if isinstance(call.func, ast.Attribute) and not _is_function(name) else None
    tensor = tensor or (call.args[0] if call.args else None)
    if tensor is None or is_python_value(view.kind(tensor)):
        return None
    if last in SIZED_BY_DATA or (last == "where" and len(call.args) == 1 and not call.keywords):
        return tensor_certainty(view.kind(tensor)) or "likely"
    if last == "repeat_interleave" and not any(keyword.arg == "output_size" for keyword in call.keywords):
        counts = view.argument(call, 1 if _is_function(name) else 0, "repeats")
        return tensor_certainty(view.kind(counts)) if counts is not None else None
    return None


def _is_function(name: str) -> bool:
    """`torch.nonzero`, and not the method `torch.Tensor.nonzero`."""
    return name.startswith("torch.") and not name.startswith("torch.Tensor.")


def _by_mask(node: ast.expr, view: View) -> Confidence | None:
    """`x[mask]` that is read, or written with something that is not a constant."""
    if not isinstance(node, ast.Subscript) or not on_device(view.kind(node.value)):
        return None
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    masks = [
        mask for part in parts for mask in tensors_in(view.kind(part)) if mask.element == "bool" and mask.rank != 0
    ]
    if not masks or (isinstance(node.ctx, ast.Store) and _stores_constant(node, view)):
        return None
    return "certain" if all(mask.sure for mask in masks) else "likely"


def _stores_constant(target: ast.Subscript, view: View) -> bool:
    parent = next(iter(view.parents(target)), None)
    return isinstance(parent, ast.Assign) and isinstance(view.kind(parent.value), Const)


BAD = (
    Example(
        code="""
import torch


@torch.no_grad()
def generate(model, ids: torch.Tensor, steps: int, eos: int = 2):
    for _ in range(steps):
        logits = model(ids)
        alive = ids[:, -1] != eos
        rows = torch.nonzero(alive)  # ~
        ids = ids[alive]  # ~
        ids = ids + logits[rows[:, 0]].argmax(-1)
    return ids
""",
    ),
    Example(
        code="""
import torch
from torch import nn

detector = torch.compile(nn.Linear(4, 5))


def serve(batches):
    kept = []
    for batch in batches:
        boxes = detector(batch)
        kept.append(boxes[boxes[:, 4] > 0.5])  # ~
    return kept
""",
    ),
)
GOOD = (
    Example(
        code="""
import torch


@torch.no_grad()
def generate(model, ids: torch.Tensor, steps: int, eos: int = 2):
    table = torch.arange(8)
    start = torch.nonzero(ids)
    for step in range(steps):
        logits = model(ids)
        alive = ids[:, -1] != eos
        ids = torch.where(alive[:, None], logits, start)
        ids = ids[:, -1:].repeat_interleave(2, 1)
        ids[alive] = 0
        order = torch.argsort(table)
        table = table[order]
    return torch.unique(ids)
""",
    ),
)
