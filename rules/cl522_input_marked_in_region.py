"""Marking a tensor as dynamic or static inside compiled code raises instead of marking it.

## What it does
Finds `torch._dynamo.mark_dynamic(x, 0)`, `maybe_mark_dynamic`, `mark_unbacked` and `mark_static_address` in code that
is compiled.

## Why it costs
The marks tell Dynamo how to treat an input before it traces the function. Inside there is nothing left to tell, and
Dynamo refuses: "Attempt to trace forbidden callable", in default mode too, so that the first call fails. Measured on
torch 2.13; `mark_static` is let through and does nothing for the call that is being traced.

## Write instead
Mark the tensor in the code that calls the compiled function, before the call:

    torch._dynamo.mark_dynamic(batch, 0)
    out = compiled(batch)

## Limits
Only `possible` where a `forward` marks what it has computed itself: it is written for blocks that are compiled one by
one, and runs uncompiled around them.

## References
PyTorch documentation "Dynamic shapes", on `mark_dynamic`; `torch._dynamo.decorators.forbid_in_graph`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import parameters, without_index
from compilelint.static.project.compiled_names import compiled_by

HAZARD = "graph-break"
MARKS = frozenset({"mark_dynamic", "maybe_mark_dynamic", "mark_unbacked", "mark_static_address"})
WATCH = Watch(nodes=(ast.Call,), names=MARKS)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per mark that is set while Dynamo traces."""
    if not isinstance(node, ast.Call) or view.assumed:
        return
    module, _, name = view.callee(node).rpartition(".")
    if name in MARKS and module.startswith("torch._dynamo"):
        yield Hit(
            node,
            f"Dynamo refuses to trace `{name}`: the first compiled call raises here",
            f"mark the tensor before the call, where the compiled function is used: `torch._dynamo.{name}(batch, 0)`",
            "certain" if _is_input(node, view) or compiled_by(view.function) else "possible",
        )


def _is_input(mark: ast.Call, view: View) -> bool:
    """Whether the function is given what it marks."""
    marked = without_index(mark.args[0]) if mark.args else None
    return isinstance(marked, ast.Name) and marked.id in parameters(view.function)


BAD = (
    Example(
        code="""\
import torch
import torch._dynamo
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        torch._dynamo.mark_dynamic(x, 0)  # ~
        return self.proj(x)
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
import torch._dynamo
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        if not torch.compiler.is_compiling():
            torch._dynamo.mark_dynamic(x, 0)
        return self.proj(x)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Encoder()
        self.block.compile()

    def forward(self, x):
        ends = x.shape[0] * torch.arange(3)
        torch._dynamo.mark_dynamic(ends, 0)
        return self.block(x) + ends.sum()


encoder = torch.compile(Encoder())


def serve(x):
    torch._dynamo.mark_dynamic(x, 0)
    return encoder(x)
""",
        run="(serve, [(torch.ones(n, 4),) for n in (2, 3, 4)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
