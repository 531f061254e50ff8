"""Host syncs on a GPU: every place where the host waits, told by torch's CUDA sync debug mode.

The mode warns at each synchronizing call (`torch.cuda.set_sync_debug_mode`, documented as a beta feature). It does not
see collectives. Where a program says itself that it waits (`synchronize()` of the device, a stream or an event), the
mode is silent (torch 2.11); these calls are heard by a profile function. It is also silent about copies with
`non_blocking=True`, of which those between the GPU and memory that is not pinned wait all the same (CUDA's API
reference, "API synchronization behavior"): see `unpinned`. What happens while Dynamo or Inductor compiles or tunes is
left out: it is paid once.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from compilelint.model import Step
from compilelint.runtime import generated, unpinned
from compilelint.runtime.exercise import Job, build, call_all, compiling, device_of
from compilelint.runtime.frames import absolute, plain_name, user_owned, user_stack
from compilelint.runtime.rewritten import FirstBreaks
from compilelint.runtime.wire import Recorder

WAITS = "A synchronizing CUDA operation was called."
MESSAGE = "called a synchronizing CUDA operation"
_COMPILERS = (
    ("_dynamo/convert_frame.py", ""),
    ("_inductor/compile_fx.py", "compile_fx"),
    ("_inductor/runtime/triton_heuristics.py", ""),
)
"""Where code is being made: a file of torch, and what the function's name contains (the rest runs at each call)."""
_WAITS = frozenset({"synchronize", "_cuda_synchronize", "_accelerator_synchronizeDevice"})
"""Functions of torch's C++ side that do nothing but wait."""
Stack = tuple[Step, ...]
"""The user's frames, outermost first."""


def watch(job: Job, recorder: Recorder) -> None:
    """Make the target's calls until all is compiled, and then once more, recording the host syncs; needs a GPU.

    A call that fails when it is made that often (what it fills is full, say) shows what it showed the time before.
    """
    if device_of(job) != "cuda":
        return
    breaks = FirstBreaks()
    with compiling(fullgraph=False) as compile_, generated.marked_origins(), breaks.watching():
        target = build(job)
        model = compile_(target.model) if target.compile else target.model
        for _ in call_all(model, target):
            pass
        before = list(_watched(call_all(model, target), breaks))
        last = _watched(call_all(model, target), breaks, copies=True)
        for earlier, later in zip(before, last, strict=True):
            shown = earlier if later.failed and not earlier.failed else later
            for reason, places in ((WAITS, shown.waits), (unpinned.REASON, shown.copies)):
                for stack, hits in places.items():
                    recorder.observe("sync", stack[-1], reason, hits=hits, stack=stack)
    recorder.send("watched", channels=("sync",))


@dataclass(frozen=True)
class _Watched:
    """What one call showed, by the user stack of each place."""

    waits: Counter[Stack]
    copies: Counter[Stack]
    failed: bool


def _watched(
    calls: Iterator[tuple[int, Exception | None]], breaks: FirstBreaks, *, copies: bool = False
) -> Iterator[_Watched]:
    """Make the calls one by one. `copies` also looks for copies from memory that isn't pinned: see `unpinned`."""
    while True:
        with ExitStack() as watching:
            waits = watching.enter_context(syncs(breaks))
            copied = watching.enter_context(unpinned.copies(lambda: current(breaks))) if copies else Counter[Stack]()
            made = next(calls, None)
        if made is None:
            return
        yield _Watched(waits, copied, failed=made[1] is not None)


@contextmanager
def syncs(breaks: FirstBreaks) -> Iterator[Counter[Stack]]:
    """Count the synchronizing calls made while the context is open, by the user stack (outermost first) of each.

    `breaks` are those heard of while the code that now runs was compiled.
    """
    import torch

    torch.cuda.synchronize()
    with sync_warnings(breaks) as seen:
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield seen
        finally:
            torch.cuda.set_sync_debug_mode("default")


@contextmanager
def sync_warnings(breaks: FirstBreaks) -> Iterator[Counter[Stack]]:
    """Count the warnings of the sync debug mode, and explicit waits, by user stack; other warnings are dropped."""
    seen: Counter[Stack] = Counter()

    def add() -> None:
        stack = current(breaks)
        if stack:
            seen[stack] += 1

    def on_warning(message: Any, *args: Any, **kwargs: Any) -> None:
        if MESSAGE in str(message):
            add()

    def on_call(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__name__", "") in _WAITS and _is_torch(function):
            add()

    before = sys.getprofile()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = on_warning
        sys.setprofile(on_call)
        try:
            yield seen
        finally:
            sys.setprofile(before)


def _is_torch(function: Any) -> bool:
    """Whether a built-in is one of torch's functions or a method of its C++ classes."""
    owner = getattr(function, "__self__", None)
    homes = [base.__module__ for base in type(owner).__mro__]
    homes += [getattr(function, "__module__", None) or "", getattr(owner, "__name__", "")]
    return any(home.split(".")[0] == "torch" for home in homes)


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _compiling() -> bool:
    return any(_makes_code(frame.f_code) for frame in _frames())


def _makes_code(code: CodeType) -> bool:
    path = Path(code.co_filename).as_posix()
    return any(path.endswith(f"/torch/{file}") and part in code.co_name for file, part in _COMPILERS)


def current(breaks: FirstBreaks) -> Stack:
    """The user's stack as it stands, outermost first; none while code is being made."""
    return () if _compiling() else _stack(breaks)


def _stack(breaks: FirstBreaks) -> Stack:
    """The user's stack as it stands, outermost first. The warning itself may name a line of torch's Python.

    The frame of a compiled function tells no line of its own: what its graph calls is placed where Dynamo traced it.
    """
    inner: Stack = ()
    steps: list[Step] = []
    in_torch = True
    resumed: tuple[str, str] | None = None
    for frame in _frames():
        path, name = frame.f_code.co_filename, plain_name(frame.f_code.co_name)
        in_torch = in_torch and not user_owned(path)
        if in_torch and not inner:
            inner = generated.origin(path, frame.f_lineno)
        if path.startswith("<"):
            continue
        if (path, name) != resumed:  # what comes after a break is called by what comes before it
            steps.append(Step(absolute(path), breaks.line_of(frame), name))
        if user_owned(path):
            resumed = (path, name) if name != frame.f_code.co_name else None
    outer = user_stack(steps[::-1])
    if not inner:
        return outer
    compiled = bool(outer) and (outer[-1].path, outer[-1].function) == (inner[0].path, inner[0].function)
    return (*(outer[:-1] if compiled else outer), *inner)
