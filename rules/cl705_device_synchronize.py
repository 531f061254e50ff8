"""`torch.cuda.synchronize()` in a decode loop or in compiled code stops the host until the GPU is idle.

## What it does

Finds `torch.cuda.synchronize()`, `torch.accelerator.synchronize()` and `stream.synchronize()` / `event.synchronize()`
on every turn of a loop that calls a model or what its file compiles, and in compiled code.

## Why it costs

Results are ordered on the stream without it; the call only makes the host wait, so that no kernel of the next step is
queued while the GPU finishes this one. Dynamo traces the call without a graph break (measured on torch 2.13), so
nothing else warns about it.

## Write instead

Remove it. To time a step, use events and read them after the loop: `start.record(); …; end.record()`, then one
`torch.cuda.synchronize()` and `start.elapsed_time(end)`. To hand data to another stream, use
`stream.wait_stream(other)`, which does not block the host.

## Limits

A function that reads a clock (`time.perf_counter`, `elapsed_time`) is taken for a benchmark and left alone, and so is a
call every n-th turn.

## References

PyTorch documentation "CUDA semantics", on asynchronous execution.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once, last_name
from compilelint.static.facts.turns import each_turn

HAZARD = "host-sync"
WATCH = Watch(
    nodes=(ast.Call,), names=frozenset({"synchronize"}), regions=frozenset({"decode-loop", "batch-loop", "compiled"})
)
CLOCKS = frozenset({"perf_counter", "perf_counter_ns", "monotonic", "time", "time_ns", "elapsed_time", "process_time"})
DEVICES = (
    "torch.cuda.",
    "torch.accelerator.",
    "torch.xpu.",
    "torch.mps.",
    "torch.npu.",
    "torch.Event.",
    "torch.Stream.",
)
STREAMS = frozenset({"current_stream", "default_stream"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the call that waits for the device."""
    if not isinstance(node, ast.Call) or not (view.callee(node).startswith(DEVICES) or _is_of_stream(node, view)):
        return
    if not each_turn(node, view) or _reads_clock(view.function):
        return
    yield Hit(
        node,
        f"`{view.text(node)}` makes the host wait until the GPU is idle, on every {_unit(view)}: nothing of the next"
        " step is queued meanwhile",
        "remove it; to time a step, record events and read them after the loop",
        confidence="likely",
    )


def _is_of_stream(call: ast.Call, view: View) -> bool:
    """`torch.cuda.current_stream().synchronize()`, also through a variable."""
    made = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(made, ast.Name):
        made = assigned_once(view.function, made.id)
    return isinstance(made, ast.Call) and view.callee(made).startswith(DEVICES) and last_name(made.func) in STREAMS


def _unit(view: View) -> str:
    return "call" if view.region == "compiled" else "turn of the loop"


def _reads_clock(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in CLOCKS for node in ast.walk(function)) or any(
        isinstance(node, ast.Name) and node.id in CLOCKS - {"time"} for node in ast.walk(function)
    )


BAD = (
    Example(
        code="""
import torch


@torch.no_grad()
def generate(model, ids, steps):
    for _ in range(steps):
        ids = model(ids).argmax(-1)
        torch.cuda.synchronize()  # ~
        if ids is None:
            torch.cuda.synchronize()  # ~
            last = None
    return ids


@torch.no_grad()
def generate_in_blocks(model, ids, steps):
    block = None
    for step in range(steps):
        if block is None:
            torch.cuda.synchronize()  # ~
            block = torch.empty(8)
        ids = model(ids).argmax(-1)
        if step > 7:
            block = None
    return ids
""",
    ),
    Example(
        code="""
import torch


def validate(net, loader):
    fast = torch.compile(net)
    total = 0.0
    for x, y in loader:
        total = total + (fast(x) - y).square().mean()
        torch.cuda.current_stream().synchronize()  # ~
    return total / len(loader)
""",
    ),
)

GOOD = (
    Example(
        code="""
import time

import torch


@torch.no_grad()
def generate(model, ids, steps):
    for _ in range(steps):
        ids = model(ids).argmax(-1)
    torch.cuda.synchronize()
    return ids


def train(net, loader, opt):
    fast = torch.compile(net)
    for step, x in enumerate(loader):
        fast(x).mean().backward()
        opt.step()
        if step % 100 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()


class Recorder:
    def __init__(self, model):
        self.model, self.recording, self.graph = model, True, None

    def step(self, ids):
        if self.recording:
            torch.cuda.synchronize()
            self.recording = False
        if self.graph is None:
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
        return self.model(ids).argmax(-1)

    def generate(self, ids, steps, warmup):
        for i in range(steps):
            if i == warmup:
                torch.cuda.synchronize()
            ids = self.step(ids)
        return ids


def benchmark(model, ids, steps):
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        ids = model(ids)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds
""",
    ),
)
