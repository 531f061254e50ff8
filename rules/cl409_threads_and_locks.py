"""Locks, threads, queues and context variables are not traced.

## What it does
Finds locks that are entered or acquired, threads, executors, processes, queues, events, context variables and event
loops in code that Dynamo traces.

## Why it costs
These belong to the interpreter, not to a graph. `with lock:` can't be entered by Dynamo (GB0142), which gives up the
whole function, so a lock around "install the hooks once" costs a model its first frame. `Lock()`, `Thread(...)` and
`get_ident()` are C calls (GB0007), `acquire` and `ContextVar.get` are methods it does not know (GB0156).

## Write instead
Take the lock in the function that calls the compiled one, do one-time installation in `__init__`, pass what a context
variable holds as an argument.

## Limits
`threading.local` attributes and `Event.is_set` compile and stay silent. Measured on torch 2.13.
Torch 2.14 compiles `ContextVar.get`.

## References
torch.compile documentation: "Common Graph Breaks". GB0007, GB0142, GB0156.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import ExternalInstance, options

HAZARD = "graph-break"
LOCKS = frozenset(
    f"{module}.{name}"
    for module in ("threading", "multiprocessing", "torch.multiprocessing")
    for name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore")
)
MODULES = ("threading.", "multiprocessing.", "torch.multiprocessing.", "concurrent.futures.", "queue.", "asyncio.")
METHODS = ("_thread.", "contextvars.ContextVar.", "contextvars.copy_context", "filelock.")
COMPILES = frozenset({"threading.local", "threading.Event.is_set", "queue.Queue.empty", "asyncio.iscoroutinefunction"})
WATCH = Watch(nodes=(ast.Call, ast.With), callees=lambda name: name.startswith((*MODULES, *METHODS)))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call into threading and its kin, and per lock in a `with`."""
    if isinstance(node, ast.Call):
        callee = view.callee(node)
        if callee == "contextvars.ContextVar.get" and view.torch >= (2, 14):
            return
        if callee.startswith((*MODULES, *METHODS)) and callee not in COMPILES:
            of_context = callee.startswith("contextvars.")
            what = "works on a context variable" if of_context else "belongs to the interpreter's threads"
            yield Hit(
                node,
                f"`{view.text(node)}` {what}, which Dynamo does not trace: the graph splits here",
                "hand the value on as an argument"
                if of_context
                else "do this outside the compiled code, and pass in what it yields",
            )
    elif isinstance(node, ast.With):
        for item in node.items:
            if is_lock(item.context_expr, view):
                yield Hit(
                    item.context_expr,
                    f"Dynamo can't enter the lock `{view.text(item.context_expr)}`: the whole function runs uncompiled",
                    "take the lock in the function that calls the compiled one, or do the one-time work in `__init__`",
                    hazard="frame-skip",
                )


def is_lock(node: ast.expr, view: View) -> bool:
    """Whether the value of `node` is a lock that was made elsewhere; one made here is reported as a call."""
    if isinstance(node, ast.Call):
        return False
    kinds = options(view.kind(node))
    return all(isinstance(kind, ExternalInstance) and kind.name in LOCKS for kind in kinds)


BAD = (
    Example(
        code="""\
import threading

import torch
from torch import nn

install_lock = threading.Lock()


class Recorder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.kept = None

    def forward(self, x):
        h = self.fc(x)
        with install_lock:  # ~
            y = torch.relu(h)
        return y
""",
        run="(Recorder(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
from contextvars import ContextVar

import torch

scale = ContextVar("scale", default=2.0)


@torch.compile
def rescale(x):
    return torch.tanh(x) * scale.get()  # ~
""",
        run="(rescale, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import multiprocessing

import torch


class Buffer:
    def __init__(self):
        self.guard = multiprocessing.Lock()
        self.filled = multiprocessing.Value("i", 3)

    def scaled(self, x):
        with self.guard:  # ~
            return x * 2

    def shared(self, x):
        with self.filled.get_lock():  # ~
            return x + 1


buffer = Buffer()


@torch.compile
def extend(x):
    return buffer.scaled(torch.tanh(x)) + buffer.shared(x)
""",
        run="(extend, [(torch.ones(4),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import threading

import torch
from torch import nn


class Recorder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.fc(x))


def locked_step(model, x):
    with model.lock:
        return torch.compile(model)(x)
""",
        run="(Recorder(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
