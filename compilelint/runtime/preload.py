"""Importing a target's module once for all passes, where a pass that starts from there sees what it would see afresh.

A pass forked from a process that has imported the module finds it imported and unused. That is as good as importing it
anew unless the import did something that a fork or a second reading of the module would change: see `preload`.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compilelint.runtime import exercise
from compilelint.runtime.exercise import Job
from compilelint.runtime.lines import executed_lines
from compilelint.runtime.wire import Recorder

_GPUS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""What Linux shows of NVIDIA's, WSL's and AMD's drivers."""


def may_preload() -> bool:
    """Whether this machine lets passes be forked from a process that has imported the user's code.

    Not on one with a GPU: many libraries ask for it on import, and CUDA, once asked, doesn't survive a fork.
    """
    return sys.platform == "linux" and not any(Path(device).exists() for device in _GPUS)


def preload(job: Job, recorder: Recorder) -> bool:
    """Import the target's module and record the lines that this ran; False if the passes had better start afresh.

    They had if the import raises, calls `torch.compile` (each pass has its own terms for that), starts a thread (a fork
    would lose it) or draws random numbers (each pass starts from the same ones).
    """
    threads = _threads()
    exercise.seed(0)
    drawn = _random_state()
    with executed_lines() as seen, _compile_calls() as calls:
        try:
            exercise.import_target(job.factory)
        except BaseException:  # the first pass raises it again, and says so
            return False
    if calls or _threads() > threads or _random_state() != drawn:
        return False
    recorder.lines("executed", seen)
    return True


def _threads() -> int:
    return max(threading.active_count(), sum(1 for _ in Path("/proc/self/task").iterdir()))


def _random_state() -> tuple[Any, ...]:
    """Of torch, Python and, if torch has imported it, numpy; comparable."""
    import torch

    numpy: Any = sys.modules.get("numpy")
    drawn = numpy.random.get_state()[1].tolist() if numpy else None
    return torch.random.get_rng_state().tolist(), random.getstate(), drawn


@contextmanager
def _compile_calls() -> Iterator[list[Any]]:
    """The calls of `torch.compile` while the context is open."""
    import torch

    calls: list[Any] = []
    original = torch.compile

    def compile_noted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return original(*args, **kwargs)

    torch.compile = compile_noted
    try:
        yield calls
    finally:
        torch.compile = original
