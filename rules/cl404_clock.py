"""Reading a clock, or sleeping, splits the graph.

## What it does
Finds calls into `time` and to the "now" constructors of `datetime` in code that Dynamo traces.

## Why it costs
The time is not a function of the inputs, so no graph can hold it: Dynamo ends the graph, calls the clock from Python
and starts again (GB0007; `datetime.now()` is GB0156). What it measures is wrong as well: a compiled function launches
kernels and returns, so the two readings around a GPU operation tell how long the launch took.

## Write instead
Time the compiled call from outside, with `torch.cuda.Event` or after `torch.cuda.synchronize()`; look inside with
`torch.profiler`, whose `record_function` compiles. Pass a timestamp that the model needs as an argument, as a tensor
if it changes from call to call.

## Limits
`datetime.timedelta(...)` and `datetime.datetime(...)` are constructors that Dynamo does not trace either (GB0147);
they are reported too. Measured on torch 2.13; `datetime.now` did not break in 2.11.

## References
torch.compile documentation: "Common Graph Breaks". GB0007, GB0147, GB0156.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
COUNTERS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
OTHERS = ("sleep", "localtime", "gmtime", "strftime", "ctime", "asctime", "mktime")
DATES = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "datetime", "date", "timedelta")
CLOCKS = frozenset(
    [f"time.{name}{suffix}" for name in COUNTERS for suffix in ("", "_ns")]
    + [f"time.{name}" for name in OTHERS]
    + [f"datetime.{name}" for name in DATES]
    + ["timeit.default_timer"]
)
WATCH = Watch(nodes=(ast.Call,), callees=CLOCKS.__contains__)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per clock that is read."""
    if not isinstance(node, ast.Call) or view.callee(node) not in CLOCKS:
        return
    yield Hit(
        node,
        f"`{view.text(node)}` is not a function of the inputs and cannot be in a graph: Dynamo splits the graph here",
        "time the compiled call from outside (`torch.cuda.Event`, `torch.profiler`), or pass the time as an argument",
    )


BAD = (
    Example(
        code="""\
import time

import torch
from torch import nn


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        start = time.perf_counter()  # ~
        h = self.fc(x)
        spent = time.perf_counter() - start  # ~
        return h, spent
""",
        run="(Timed(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
from datetime import datetime

import torch


@torch.compile
def stamp(x):
    return x + 1, datetime.now()  # ~
""",
        run="(stamp, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import time

import torch
from torch import nn


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.built = time.time()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, time_step):
        with torch.profiler.record_function("fc"):
            return self.fc(x) * time_step
""",
        run="(Timed(), [(torch.ones(2, 4), torch.ones(2, 1))])",
        default="clean",
        fullgraph="clean",
    ),
)
