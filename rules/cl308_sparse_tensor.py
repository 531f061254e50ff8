"""Sparse tensors cannot be traced: making one splits the graph, using one drops the frame.

## What it does
Reports `torch.sparse_coo_tensor`, `sparse_csr_tensor` and the other constructors, `to_sparse`, `to_sparse_coo`,
`to_sparse_csr` and their like on tensors, the first use of the result, and the first use of a sparse tensor that the
model or the file holds, also in functions to which it is passed.

## Why it costs
Dynamo has no fake form of a sparse tensor. The call that makes one is a break (GB0007, GB0277, GB0374), and the
function that goes on with the result, now an input of the next frame, is given up (GB0015): it runs uncompiled,
whatever else is in it. The same holds for each function that is passed one.

## Write instead
Keep indices and values dense and scatter, which compiles:

    y = torch.zeros(n, x.shape[1]).index_add(0, rows, weight[:, None] * x[cols])

or make the sparse product a `torch.library.custom_op`, or leave it outside the compiled region.

## Limits
Sparse tensors that come in as arguments aren't recognised. `x.is_sparse`, `to_dense` of a dense tensor and
`torch.sparse.mm` of dense tensors compile. Measured on torch 2.13.

## References
torch/_dynamo/graph_break_registry.json: GB0007, GB0015, GB0277, GB0374.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once, comes_from_outside
from compilelint.static.facts.state import own_nodes
from compilelint.static.layouts import SPARSE_CONSTRUCTORS, SPARSE_CONVERSIONS
from compilelint.static.values import Tensor, Value, options

HAZARD = "frame-skip"
CONSTRUCTORS = frozenset(f"torch.{name}" for name in SPARSE_CONSTRUCTORS)
CONVERTED = frozenset(f"{owner}.{name}" for owner in ("torch.Tensor", "?") for name in SPARSE_CONVERSIONS)
WATCH = Watch(
    nodes=(ast.Call, ast.Name, ast.Attribute),
    callees=(CONSTRUCTORS | CONVERTED).__contains__,
    syntax=lambda node, module: not isinstance(node, ast.Call) and isinstance(getattr(node, "ctx", None), ast.Load),
    kinds=lambda value: isinstance(value, Tensor) and value.sparse,
)
INSTEAD = "scatter dense values (`index_add`, `scatter_add`), or hide the sparse product in a `torch.library.custom_op`"


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per sparse tensor that is made, or that is there and read for the first time in a function."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield from used(node, view)
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    if callee in CONSTRUCTORS or callee in CONVERTED:
        yield Hit(
            node,
            f"`{view.text(node)}` makes a sparse tensor, which Dynamo cannot trace: what uses it runs uncompiled",
            INSTEAD,
            "likely" if callee.startswith("?") else "certain",
        )


def used(node: ast.Name | ast.Attribute, view: View) -> Iterator[Hit]:
    """`self.adjacency`, where that is sparse: Dynamo wraps a tensor where it is first read, and can't wrap this one."""
    if not is_sparse(view.kind(node)):
        return
    if is_next_read(node, view):
        left = "what is left of the function"
    elif not read_before(node, view) and (comes_from_outside(view, node) or handed_in(node, view)):
        left = "the whole function"
    else:
        return
    message = f"`{view.text(node)}` is a sparse tensor, which Dynamo cannot trace: {left} runs uncompiled"
    yield Hit(node, message, INSTEAD, "likely")


def is_next_read(node: ast.Name | ast.Attribute, view: View) -> bool:
    """Whether `node` is where a variable is read first after a statement further up made it: behind that break."""
    made = assigned_once(view.function, node.id) if isinstance(node, ast.Name) else None
    if made is None or (made.end_lineno or made.lineno) >= node.lineno or reads_sparse(made, view):
        return False
    return not any(
        isinstance(other, ast.Name) and other.id == ast.unparse(node) and isinstance(other.ctx, ast.Load)
        for other in own_nodes(view.function)
        if (made.end_lineno or made.lineno, 0) < (getattr(other, "lineno", 0), 0)
        and (getattr(other, "lineno", 0), getattr(other, "col_offset", 0)) < (node.lineno, node.col_offset)
    )


def reads_sparse(made: ast.expr, view: View) -> bool:
    """Whether an expression reads a sparse tensor: what does that is given up before it makes another one."""
    return any(
        isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and is_sparse(view.kind(part))
        for part in ast.walk(made)
    )


def is_sparse(value: Value) -> bool:
    """Whether a value is a sparse tensor wherever it is a tensor."""
    tensors = [option for option in options(value) if isinstance(option, Tensor)]
    return bool(tensors) and all(tensor.sparse for tensor in tensors)


def handed_in(node: ast.Name | ast.Attribute, view: View) -> bool:
    """Whether `node` reads a parameter as passed: where the caller is given up, this function is compiled alone."""
    if not isinstance(node, ast.Name) or isinstance(view.function, ast.Module):
        return False
    arguments = view.function.args
    return node.id in {p.arg for p in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} and not any(
        isinstance(other, ast.Name) and other.id == node.id and other.lineno < node.lineno
        for other in own_nodes(view.function)
        if isinstance(getattr(other, "ctx", None), ast.Store)
    )


def read_before(node: ast.Name | ast.Attribute, view: View) -> bool:
    """Whether the function reads the same variable or attribute further up."""
    text, place = ast.unparse(node), (node.lineno, node.col_offset)
    return any(
        isinstance(other, type(node)) and (other.lineno, other.col_offset) < place and ast.unparse(other) == text
        for other in own_nodes(view.function)
        if isinstance(other, (ast.Name, ast.Attribute))
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
        return torch.sparse.mm(adjacency, h)  # ~
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
    return adjacency @ x  # ~
""",
        run="(power, [(torch.eye(3), torch.ones(3, 4))])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Diffuse(nn.Module):
    def __init__(self, adjacency):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("adjacency", adjacency.to_sparse().coalesce())

    def forward(self, x):
        h = self.proj(x)
        h = torch.sparse.mm(self.adjacency, h)  # ~
        return h + torch.sparse.mm(self.adjacency, x)
""",
        run="(Diffuse(torch.eye(3)), [(torch.ones(3, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


def contract(x, kernel: torch.Tensor):
    if kernel.dim() != 2:  # ~
        raise ValueError("one row per output")
    kernel = kernel.to(x.dtype)
    return torch.sparse.mm(kernel, x)


class Filter(nn.Module):
    def __init__(self, rows, weights):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.kernel = torch.sparse_coo_tensor(rows, weights, (3, 3)).coalesce().float()

    def forward(self, x):
        return contract(self.proj(x), self.kernel.to(x.dtype))  # ~
""",
        run="(Filter(torch.tensor([[0, 1], [1, 2]]), torch.ones(2)), [(torch.ones(3, 4),)])",
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
