"""A call that Dynamo does not trace splits the graph.

## What it does
Finds calls of functions and methods that torch was seen not to trace and that no other rule describes. What breaks is
not a list in this rule: it comes from a table that was made by compiling a small function for each name under each
supported version of torch, for the kinds of arguments the call has.

## Why it costs
Dynamo ends the graph before the call, lets Python make it and starts another graph behind it; in a loop, a `try` or a
`with` no graph is left of the function. `fullgraph=True` raises.

## Write instead
Make the call before or after the compiled code, or once in `__init__`. What belongs to the computation can become an
operator with `torch.library.custom_op`.

## Limits
A name that the table lacks is not reported, nor is one that could not be called where the table was made, such as
`torch.cuda.Event()`, which needs a GPU. Breaks over the values of a tensor are left to the rules about those.

## References
torch.compile documentation: "Common Graph Breaks". The GB id in a message is explained in torch's graph-break
registry.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,))
FALLBACK = True
OF_DATA = frozenset({"GB0033", "GB0036", "GB0109", "GB0124", "GB0170", "GB0178", "GB0246"})
"""Breaks over a tensor's values. Rules of their own know when these do not happen, and are silent on purpose then."""
OF_THE_PROBE = frozenset({"GB0193", "GB0088", "GB0112", "GB0226", "GB0249", "GB4315"})
"""Ids by which torch says that the call fails without the compiler too: an argument that does not fit, a device that
the measuring machine lacked (`torch.cuda.Event()`). They tell about the table's call, not about the one in the code."""
JUDGED_ELSEWHERE = frozenset(
    ["torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.Tensor.requires_grad_"]
    + ["torch.UntypedStorage.size", "itertools.groupby"]
    + ["torch.nested.nested_tensor", "torch.nested.as_nested_tensor", "torch.nested.narrow"]
    + [f"builtins.{name}" for name in ("str", "repr", "format", "int", "float", "bool", "range", "sorted")]
)
"""Calls whose break hangs on more than the arguments' kinds: CL1xx and CL2xx know the conversions, CL503 and
CL507 parameters and gradients, CL509 storages, CL531 the layouts of nested tensors, CL552 what groups are formed by."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that the table says breaks."""
    if not isinstance(node, ast.Call):
        return
    found = view.breaks(node)
    if found is None or found in OF_DATA or found in OF_THE_PROBE:
        return
    if view.callee(node) not in JUDGED_ELSEWHERE:
        yield Hit(
            node,
            f"Dynamo does not trace `{view.callee(node)}` ({found}): the graph splits at `{view.text(node)}`",
            "call it outside the compiled code, once in `__init__`, or make it a `torch.library.custom_op`",
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Framed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        header = bytes([3, 1])  # ~
        return h * len(header)
""",
        run="(Framed(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import re

import torch
from torch import nn

LAYER = re.compile(r"block(?P<index>\\d+)")


class Named(nn.Module):
    def __init__(self, name="block3"):
        super().__init__()
        self.name = name
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        index = int(LAYER.match(self.name).group("index"))
        parts = LAYER.match(self.name).groupdict()  # ~
        return h * (index + len(parts))
""",
        run="(Named(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


class Framed(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = len(bytes([3, 1]))
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        x = torch.from_numpy(x.numpy().astype(np.float32))
        return torch.clamp(self.fc(x) * self.size, max=float(x.shape[0]))
""",
        run="(Framed(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
