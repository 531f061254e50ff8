"""A collective that Dynamo has no graph form of splits the graph.

## What it does
Finds calls of `torch.distributed` in compiled code that Dynamo does not trace: any with `async_op=True`; `broadcast`,
`reduce`, `gather`, `scatter`, `reduce_scatter` and `all_to_all` over lists, `barrier`; sending and receiving between
two ranks; and those that pickle Python objects.

## Why it costs
The graph ends at the call, and what it computes can no longer be overlapped with the communication by the compiler. In
a loop over buckets no graph is left of the function. Measured on torch 2.13 with one and with two gloo processes.

## Write instead
- `all_reduce`, `all_gather`, `all_gather_into_tensor`, `reduce_scatter_tensor` and `all_to_all_single` without
  `async_op` are traced: Dynamo replaces them by functional collectives, which the compiler may overlap itself.
- Barriers and the exchange of Python objects belong around the compiled step.

## References
GB0172 (`async_op`), GB2696, GB1750, GB9300 (point to point), GB0007.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Const

HAZARD = "graph-break"
BREAKING = frozenset(
    (
        "broadcast reduce gather scatter reduce_scatter all_to_all barrier monitored_barrier all_reduce_coalesced send"
        " recv isend irecv batch_isend_irecv P2POp all_gather_object gather_object scatter_object_list"
        " broadcast_object_list"
    ).split()
)
ASYNC = frozenset({"all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"})
WATCH = Watch(nodes=(ast.Call,), names=BREAKING | ASYNC)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call of a collective without a graph form, or of one that shall not wait."""
    if not isinstance(node, ast.Call):
        return
    module, _, name = view.callee(node).rpartition(".")
    if module not in ("torch.distributed", "torch.distributed.distributed_c10d"):
        return
    waits = next((keyword.value for keyword in node.keywords if keyword.arg == "async_op"), None)
    if waits is not None and isinstance(view.kind(waits), Const) and view.kind(waits) == Const(True):
        yield Hit(
            node,
            f"`{view.text(node)}` returns a handle to wait for, which Dynamo does not trace: the graph splits here",
            f"call `dist.{name}` without `async_op=True`: the compiler overlaps it by itself",
        )
    elif name in BREAKING:
        yield Hit(
            node,
            f"`dist.{name}` has no form in a graph: Dynamo splits the graph here",
            "use a collective that is traced (`all_reduce`, `all_gather_into_tensor`, `reduce_scatter_tensor`,"
            " `all_to_all_single`), or communicate around the compiled step",
        )


BAD = (
    Example(
        code="""\
import torch
import torch.distributed as dist
from torch import nn


class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        work = dist.all_reduce(h, async_op=True)  # ~
        if work is not None:
            work.wait()
        dist.broadcast(h, 0)  # ~
        return h / dist.get_world_size()
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
import torch.distributed as dist
from torch import nn


class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        if dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(h)
        return h.broadcast_to(2, *h.shape)
""",
        run="(Averaged(), [(torch.ones(2, 4),) for _ in range(2)])",
        default="clean",
        fullgraph="clean",
    ),
)
