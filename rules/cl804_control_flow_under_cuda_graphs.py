"""`torch.cond` and `while_loop` in a model compiled for CUDA graphs leave the whole graph without one.

## What it does
Finds `torch.cond` and `while_loop` in code that is compiled with `mode="reduce-overhead"` or `"max-autotune"`, and
`torch.linalg.eigh` there.

## Why it costs
A CUDA graph is a recorded list of kernels: it cannot ask for a value on the way. Inductor sees the operator and skips
CUDA graphs ("skipping cudagraphs due to control flow operator: torch.cond", measured on an H200 with torch 2.11): every
kernel of the model is launched one by one again, and the mode brings nothing. `eigh` copies to the host inside: there
the recording fails with a CUDA error.

## Write instead
- Compute both sides and pick: `torch.where(keep, a, b)`.
- Or compile the part with the operator without CUDA graphs: a function of its own in default mode, called between two
  that are compiled with `mode="reduce-overhead"`.

## References
PyTorch documentation "CUDAGraph Trees"; torch/_inductor/utils.py, on what cannot be recorded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "cudagraph-skip"
CUDA_GRAPH_MODES = frozenset({"reduce-overhead", "max-autotune"})
BRANCHING = frozenset({"cond", "while_loop"})
WATCH = Watch(nodes=(ast.Call,), names=BRANCHING | {"eigh"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the operator that cannot be recorded."""
    if not isinstance(node, ast.Call) or view.options.get("mode") not in CUDA_GRAPH_MODES:
        return
    callee = view.callee(node)
    if callee == "torch.linalg.eigh":
        what = "copies to the host while it runs: recording the CUDA graph fails with an error"
    elif callee.startswith("torch.") and callee.rpartition(".")[2] in BRANCHING:
        what = "asks for a value on the device: the whole graph is left without a CUDA graph"
    else:
        return
    yield Hit(
        node,
        f"`{view.text(node.func)}` {what}",
        "compute both sides and pick with `torch.where`, or compile this part on its own in default mode",
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        return torch.cond(h.sum() > 0, lambda h: h + 1, lambda h: h - 1, (h,))  # ~


gate = torch.compile(Gate(), mode="reduce-overhead")
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


class Chosen(nn.Module):
    def forward(self, x):
        return torch.where(x.sum() > 0, x + 1, x - 1)


gate = torch.compile(Gate())
chosen = torch.compile(Chosen(), mode="reduce-overhead")
""",
    ),
)
