"""Host syncs on a GPU: every place where the host waits, told by torch's CUDA sync debug mode.

The mode warns at each synchronizing call (`torch.cuda.set_sync_debug_mode`, documented as a beta feature). It sees
neither collectives nor copies from unpinned memory that were asked for with `non_blocking=True`. What happens while
Dynamo or Inductor compiles is left out: it is paid once.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from compilelint.model import Step
from compilelint.runtime.exercise import Job, build, call_all, compiling, device_of
from compilelint.runtime.frames import absolute, plain_name, user_stack
from compilelint.runtime.wire import Recorder

_MESSAGE = "called a synchronizing CUDA operation"
_COMPILERS = (("torch", "_dynamo", "convert_frame.py"), ("torch", "_inductor", "compile_fx.py"))


def watch(job: Job, recorder: Recorder) -> None:
    """Make the target's calls twice, and record the host syncs of the second time; nothing happens on a CPU."""
    if device_of(job) != "cuda":
        return
    with compiling(fullgraph=False) as compile_:
        target = build(job)
        model = compile_(target.model) if target.compile else target.model
        for _ in call_all(model, target):
            pass  # compiles and warms up
        calls = call_all(model, target)
        while True:
            with syncs() as seen:
                more = next(calls, None)
            for stack, hits in seen.items():
                reason = "The host waits for the GPU here (torch's CUDA sync debug mode)."
                recorder.observe("sync", stack[-1], reason, hits=hits, stack=stack)
            if more is None:
                break
    recorder.send("watched", channels=("sync",))


@contextmanager
def syncs() -> Iterator[Counter[tuple[Step, ...]]]:
    """Count the synchronizing calls made while the context is open, by the user stack (outermost first) of each."""
    import torch

    torch.cuda.synchronize()
    with sync_warnings() as seen:
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield seen
        finally:
            torch.cuda.set_sync_debug_mode("default")


@contextmanager
def sync_warnings() -> Iterator[Counter[tuple[Step, ...]]]:
    """Catch the warnings of the sync debug mode and count them by user stack; all other warnings are dropped."""
    seen: Counter[tuple[Step, ...]] = Counter()

    def on_warning(message: Any, *args: Any, **kwargs: Any) -> None:
        if _MESSAGE in str(message) and not _compiling():
            stack = user_stack(_stack())
            if stack:
                seen[stack] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = on_warning
        yield seen


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _compiling() -> bool:
    return any(Path(frame.f_code.co_filename).parts[-3:] in _COMPILERS for frame in _frames())


def _stack() -> list[Step]:
    """The Python stack as it stands, outermost first. The warning itself may name a line of torch's Python."""
    steps = [
        Step(absolute(frame.f_code.co_filename), frame.f_lineno, plain_name(frame.f_code.co_name))
        for frame in _frames()
        if not frame.f_code.co_filename.startswith("<")
    ]
    return steps[::-1]
