"""An operator that a CUDA graph cannot hold makes the recording fail, or leaves the whole graph without one.

## What it does
In code compiled with `mode="reduce-overhead"` or `"max-autotune"`, finds calls that a GPU was seen not to record:
`torch.cond`, decompositions such as `torch.linalg.svd` and `eigh`, `pinv`, `histc`, `matrix_exp`, a tensor built from a
list of tensors. Which calls these are comes from a table that was made on an H200 by compiling a call of each public
function in that mode; control flow, whose arguments are functions, is known by name.

## Why it costs
A CUDA graph is a recorded list of kernels: it cannot ask for a value on the way. An operator that copies to the host
inside makes the recording fail with a CUDA error. At control flow Inductor skips CUDA graphs ("skipping cudagraphs due
to control flow operator: torch.cond"), and every kernel of the model is launched one by one again.

## Write instead
- Compile the part with the operator without CUDA graphs: a function of its own in default mode, called between two
  that are compiled with `mode="reduce-overhead"`.
- For a condition compute both sides and pick: `torch.where(keep, a, b)`.

## Limits
Measured with torch 2.11 and CUDA 13.0 on one kind of GPU; other versions of the libraries may differ.

## References
PyTorch documentation "CUDAGraph Trees"; torch/_inductor/utils.py, on what cannot be recorded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.cuda_graphs import recorded

HAZARD = "cudagraph-skip"
BRANCHING = frozenset({"cond", "while_loop"})
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name.startswith("torch."))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the operator that cannot be recorded."""
    if not isinstance(node, ast.Call) or not recorded(view):
        return
    seen = view.on_cuda(node)
    name = view.callee(node)
    if name.rpartition(".")[2] in BRANCHING:
        what = "asks for a value on the device: the whole graph is left without a CUDA graph"
        instead = "compute both sides and pick with `torch.where`, or compile this part on its own in default mode"
    elif "error" in seen:
        what = "copies to the host while it runs: recording the CUDA graph fails with an error"
        instead = "compile this part on its own in default mode, or compute it outside of the compiled code"
    else:
        return
    yield Hit(node, f"`{view.text(node.func)}` {what}", instead)


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
    Example(
        code="""\
import torch


@torch.compile(mode="reduce-overhead")
def whiten(x: torch.Tensor):
    centred = x - x.mean(0)
    _, values, basis = torch.linalg.svd(centred, full_matrices=False)  # ~
    spread = torch.linalg.matrix_exp(centred.T @ centred)  # ~
    return centred @ basis.T / values, spread
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
        x = torch.linalg.solve_ex(x @ x.T, x).result
        return torch.where(x.sum() > 0, x + 1, x - 1)


def spectrum(x: torch.Tensor):
    return torch.linalg.svdvals(x)


gate = torch.compile(Gate())
chosen = torch.compile(Chosen(), mode="reduce-overhead")
plain = torch.compile(spectrum)
""",
    ),
)
