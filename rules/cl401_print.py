"""Printing inside compiled code splits the graph.

## What it does
Finds `print`, `pprint.pprint` and writes to `sys.stdout`/`sys.stderr` in code that Dynamo traces. What is printed
does not matter: a constant breaks as well as a tensor.

## Why it costs
Dynamo records tensor operations, and text for a terminal is none (GB0059, for a stream's `write` GB0156). It ends the
graph before the line, lets Python run it, and starts another graph behind it. Printing a GPU tensor waits for the GPU
on top. In a loop, a `try` or a `with` no graph is left of the whole function. `fullgraph=True` raises.

## Write instead
Move the line out of the compiled function, guard it, or tell Dynamo that its order does not matter:

    if not torch.compiler.is_compiling():
        print(f"step {step}: {loss}")

    torch._dynamo.config.reorderable_logging_functions.add(print)   # printed after the graph has run

Reordered calls take tensors, constants and strings only: `print(x.shape)` still breaks (GB0296), and a tensor changed
in place later is printed with its later value.

## Limits
Measured on torch 2.13, where code under `if not torch.compiler.is_compiling():` is not traced and stays silent here.

## References
torch.compile documentation: "Common Graph Breaks", "Reorderable Logging Functions". GB0059, GB0156, GB0296.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.flagging.rewrites import guard

HAZARD = "graph-break"
STREAMS = tuple(
    f"sys.{stream}.{method}" for stream in ("stdout", "stderr") for method in ("write", "writelines", "flush")
)
PRINTERS = frozenset(
    {"builtins.print", "builtins.input", "pprint.pprint", "pprint.pp", "pprint.pformat", "rich.print", *STREAMS}
)
UNGUARDED = frozenset({"builtins.input", "pprint.pformat"})
"""Not there to be seen: the program needs what they give."""
WATCH = Watch(nodes=(ast.Call,), callees=PRINTERS.__contains__)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that writes to the terminal or reads from it."""
    if not isinstance(node, ast.Call) or view.callee(node) not in PRINTERS:
        return
    yield Hit(
        node,
        f"`{view.text(node)}` is not a tensor operation: Dynamo splits the graph here to let Python run it",
        "remove it, move it to the caller, or guard it with `if not torch.compiler.is_compiling():`",
        rewrite=guard(node, view, "prints nothing") if view.callee(node) not in UNGUARDED else None,
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        print("hidden:", h.shape)  # ~
        return torch.relu(h)
""",
        run="(Probe(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import sys

import torch


def progress(step):
    sys.stdout.write(f"step {step}\\n")  # ~


@torch.compile
def roll_out(x):
    for step in range(3):
        x = torch.tanh(x)
        progress(step)
    return x
""",
        run="(roll_out, [(torch.ones(4),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self, verbose=True):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        print("built a probe")

    def forward(self, x):
        h = self.fc(x)
        if not torch.compiler.is_compiling():
            print("hidden:", h.shape)
        return torch.relu(h)
""",
        run="(Probe(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
