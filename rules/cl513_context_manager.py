"""A context manager that Dynamo can't enter leaves the whole function eager.

## What it does
Finds `with` statements in code that Dynamo traces whose context manager it does not enter: an own object that was
made outside and is entered here, a stored `torch.no_grad()`, `with torch.device(...)`, `torch.backends.cudnn.flags`,
NVTX ranges, `redirect_stdout`, `closing`, mocks, dispatch and function modes, settings of the compiler itself, and
managers of libraries that are handed to `ExitStack.enter_context`.

## Why it costs
Dynamo must enter the manager while it traces, with an object it knows how to build. Where it can't (GB0142, GB0262),
there is no place to resume at: the function is not compiled at all (0 graphs), however much stands in the block.

## Write instead
Enter it around the compiled call. Make an own manager where it is used (`with Timer():` instead of `with
self.timer:`) or write it with `contextlib.contextmanager`, which compiles. Give the device to each factory:
`torch.zeros(4, device=device)`.

## Limits
These are entered and stay silent: `torch.no_grad()`, `torch.inference_mode()`, `torch.autocast(...)` also when
stored, `torch.profiler`, `sdpa_kernel`, `nullcontext`, `suppress`, `ExitStack`, `warnings.catch_warnings()`, own
managers made here. What a manager does when entered is judged where it stands. Measured on torch 2.13.
Torch 2.14 enters objects of the project that were made elsewhere.

## References
torch.compile documentation: "Common Graph Breaks". GB0066, GB0142, GB0262.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import comes_from_outside, last_name
from compilelint.static.project.answers import about_file
from compilelint.static.project.bindings import bound_alone_to
from compilelint.static.values import ExternalInstance, Instance, options

HAZARD = "frame-skip"
NOT_ENTERED = frozenset(
    {
        "contextlib.redirect_stdout",
        "contextlib.redirect_stderr",
        "contextlib.closing",
        "unittest.mock.patch",
        "unittest.mock.patch.object",
        "torch.device",
        "torch.cuda.nvtx.range",
        "torch.autograd.profiler.emit_nvtx",
        "torch.backends.cudnn.flags",
        "torch.backends.cuda.sdp_kernel",
        "torch.utils.flop_counter.FlopCounterMode",
        "torch.utils._python_dispatch.TorchDispatchMode",
        "torch.overrides.TorchFunctionMode",
        "torch._dynamo.config.patch",
        "torch.compiler.set_stance",
    }
)
NOT_STORED = frozenset({"torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.device"})
"""Managers of torch that can be made and entered here, but not entered if they were made before (device: neither)."""
NOT_STACKED = ("torch.", "contextlib.nullcontext", "contextlib.closing", "warnings.catch_warnings")
"""Managers that compile in a `with`, most of them, and never through `ExitStack.enter_context`."""
WATCH = Watch(nodes=(ast.With, ast.Call), callees="contextlib.ExitStack.enter_context".__eq__)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per context manager that is not entered."""
    if isinstance(node, ast.Call):
        yield from put_on_stack(node, view)
    if not isinstance(node, ast.With):
        return
    for item in node.items:
        manager = item.context_expr
        confidence = refused(manager, view)
        if confidence:
            yield Hit(
                manager,
                f"Dynamo can't enter `{view.text(manager)}`, so the whole function runs uncompiled",
                "enter it around the compiled call, or make the manager in the `with` itself",
                confidence,
            )


def put_on_stack(call: ast.Call, view: View) -> Iterator[Hit]:
    """`stack.enter_context(torch.no_grad())`: entered so, a manager of a library must be traced like own code."""
    manager = call.args[0] if len(call.args) == 1 else None
    if isinstance(manager, ast.Call) and view.callee(manager).startswith(NOT_STACKED):
        yield Hit(
            call,
            f"Dynamo can't enter `{view.text(manager)}` through a stack: the whole function runs uncompiled",
            "enter it in a `with` of its own, or take the stack around the compiled call",
            "likely",
        )


def refused(manager: ast.expr, view: View) -> Confidence | None:
    """How sure it is that Dynamo does not enter `manager`; None if it does or nobody knows."""
    if isinstance(manager, ast.Call):
        return "certain" if view.callee(manager) in NOT_ENTERED else None
    if not comes_from_outside(view, manager):
        return None
    kinds = options(view.kind(manager))
    own = view.torch < (2, 14)  # from 2.14 on an object of the project that was made elsewhere is entered
    if any(
        (own and isinstance(kind, Instance)) or (isinstance(kind, ExternalInstance) and kind.name in NOT_STORED)
        for kind in kinds
    ):
        return "certain" if len(kinds) == 1 else "likely"
    return "likely" if last_name(manager) in view.fact(_managers) else None


@about_file(())
def _managers(module: ast.Module) -> tuple[str, ...]:
    """The names to which the file binds nothing but managers that must be made where they are entered."""
    return bound_alone_to(module, NOT_STORED)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Meter:
    def __init__(self):
        self.entered = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.meter = Meter()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        with self.meter:  # ~
            return self.fc(x)
""",
        run="(Timed(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import contextlib
import sys

import torch


@torch.compile
def table(x):
    with torch.device("cpu"):  # ~
        y = x + torch.arange(4)
    return y * 2


@torch.compile
def quiet(x):
    with contextlib.redirect_stdout(sys.stderr):  # ~
        return torch.tanh(x)


@torch.compile
def stacked(x, frozen=True):
    with contextlib.ExitStack() as stack:
        if frozen:
            stack.enter_context(torch.no_grad())  # ~
        return torch.tanh(x)


def both(x):
    return table(x) + quiet(x) + stacked(x)
""",
        run="(both, [(torch.ones(4),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import contextlib

import torch
from torch import nn


class Meter:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False


@contextlib.contextmanager
def doubled(x):
    yield x * 2


class Metered:
    def __init__(self, function):
        self.function, self.meter = function, Meter()

    def run(self, x):
        with self.meter:
            return self.function(x)


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.context = contextlib.nullcontext()
        self.precision = torch.autocast("cpu", dtype=torch.bfloat16, enabled=False)

    def forward(self, x):
        meter = Meter()
        with Meter(), meter, self.context, self.precision, torch.no_grad(), torch.profiler.record_function("fc"):
            h = self.fc(x)
        with doubled(h) as twice, contextlib.suppress(ValueError), contextlib.ExitStack() as stack:
            stack.enter_context(Meter())
            return torch.relu(twice) + Metered(torch.sin).run(h)
""",
        run="(Timed(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
