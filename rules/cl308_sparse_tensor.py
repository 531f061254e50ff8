"""Sparse tensors cannot be traced: making one splits the graph, using one drops the frame.

## What it does
Reports `torch.sparse_coo_tensor`, `sparse_csr_tensor` and the other constructors, and `to_sparse`, `to_sparse_coo`,
`to_sparse_csr` and their like on tensors.

## Why it costs
Dynamo has no fake form of a sparse tensor. The call that makes one is a break (GB0007, GB0277, GB0374), and the
function that goes on with the result, now an input of the next frame, is given up (GB0015): it runs uncompiled,
whatever else is in it. The same holds for each function that is passed one.

## Write instead
Keep indices and values dense and scatter, which compiles:

    y = torch.zeros(n, x.shape[1]).index_add(0, rows, weight[:, None] * x[cols])

or make the sparse product a `torch.library.custom_op`, or leave it outside the compiled region.

## Limits
Sparse tensors that come in as arguments or buffers aren't recognised. `x.is_sparse`, `to_dense` of a dense tensor and
`torch.sparse.mm` of dense tensors compile. Measured on torch 2.13.

## References
torch/_dynamo/graph_break_registry.json: GB0007, GB0015, GB0277, GB0374.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "frame-skip"
LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
CONSTRUCTORS = frozenset({"sparse_compressed_tensor", *(f"sparse_{layout}_tensor" for layout in LAYOUTS)})
CONVERSIONS = frozenset({"to_sparse", *(f"to_sparse_{layout}" for layout in LAYOUTS)})
WATCH = Watch(nodes=(ast.Call,), names=CONSTRUCTORS | CONVERSIONS)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per sparse tensor that is made."""
    if not isinstance(node, ast.Call):
        return
    owner, _, name = view.callee(node).rpartition(".")
    if owner == "torch" and name in CONSTRUCTORS:
        confidence = "certain"
    elif owner in ("torch.Tensor", "?") and name in CONVERSIONS:
        confidence = "certain" if owner == "torch.Tensor" else "likely"
    else:
        return
    yield Hit(
        node,
        f"`{view.text(node)}` makes a sparse tensor, which Dynamo cannot trace: what uses it runs uncompiled",
        "scatter dense values (`index_add`, `scatter_add`), or hide the sparse product in a `torch.library.custom_op`",
        confidence,  # type: ignore[arg-type]
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class GraphConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, edges, weight):
        h = self.proj(x)
        adjacency = torch.sparse_coo_tensor(edges, weight, (3, 3))  # ~
        return torch.sparse.mm(adjacency, h)
""",
        run="(GraphConv(), [(torch.ones(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.ones(2))])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def power(adjacency: torch.Tensor, x: torch.Tensor):
    adjacency = (adjacency @ adjacency).to_sparse_csr()  # ~
    return adjacency @ x
""",
        run="(power, [(torch.eye(3), torch.ones(3, 4))])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class GraphConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, edges, weight):
        h = self.proj(x)
        if x.is_sparse:
            h = h.to_dense()
        out = torch.zeros_like(h).index_add(0, edges[0], weight[:, None] * h[edges[1]])
        return out + torch.sparse.mm(torch.eye(3), h)
""",
        run="(GraphConv(), [(torch.ones(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.ones(2))])",
        default="clean",
        fullgraph="clean",
    ),
)
