"""CUDA graphs: what Inductor leaves out of them, under `mode="reduce-overhead"`, told by its log artifact `cudagraphs`.

Two kinds of message count (torch 2.9 to 2.14): an op that a graph is partitioned around, with its reason and the
source line it comes from, and `skipping cudagraphs due to ...`, for a graph that is not recorded at all.
"""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from compilelint.model import Step
from compilelint.runtime.breaks import one_line
from compilelint.runtime.exercise import Job, build, call_all, compiling, device_of
from compilelint.runtime.frames import absolute, parse_stack, plain_name, user_owned, user_stack
from compilelint.runtime.mutation import InputWrites, Stack
from compilelint.runtime.wire import Recorder

_SOURCES = ("torch._inductor.scheduler", "torch._inductor.cudagraph_utils")
_LEFT_OUT = re.compile(r"^\s*\S+: reason=(?P<reason>.+?), ir=(?P<ir>\w+)(?:, fx=(?P<op>[\w.]+))?")
_SKIPPED = re.compile(
    r"skipping cudagraphs due to (?P<reason>[^\n]*?)(?:\. Found from :\s*)?(?:\n|$)"
    r"|CUDAGraph supports dynamic shapes by"
)
_ROUNDS = 3  # warm-up, recording, replay


def watch(job: Job, recorder: Recorder) -> None:
    """Make the target's calls under CUDA graphs, and record what stays out of them; nothing happens on a CPU."""
    if device_of(job) != "cuda":
        return
    import torch
    import torch._inductor.config as inductor

    next_step: Any = torch.compiler.cudagraph_mark_step_begin
    inductor.force_disable_caches = True  # code out of a cache is not scheduled again, and logs nothing
    writes = InputWrites()
    with (
        _listening(recorder, writes),
        writes.watching(),
        compiling(fullgraph=False, mode="reduce-overhead") as compile_,
    ):
        target = build(job)
        model = compile_(target.model) if target.compile else target.model
        for _ in range(_ROUNDS):
            next_step()
            for _ in call_all(model, target):
                next_step()
    recorder.send("watched", channels=("cudagraph",))


@contextmanager
def _listening(recorder: Recorder, writes: InputWrites) -> Iterator[None]:
    listener = CudagraphLog(recorder, writes)
    loggers = [importlib.import_module(name).cudagraphs_log for name in _SOURCES]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        logger.addHandler(listener)
    try:
        yield
    finally:
        listener.finish()
        for logger in loggers:
            logger.removeHandler(listener)


class CudagraphLog(logging.Handler):
    """Turns the log records of the artifact `cudagraphs` into evidence.

    An op that is left out comes as one record with the reason, followed by one record for each line of its stack.
    `writes` knows the places that mutate inputs, of which torch names one at most.
    """

    def __init__(self, recorder: Recorder, writes: InputWrites) -> None:
        super().__init__(logging.DEBUG)
        self._recorder = recorder
        self._writes = writes
        self._pending: tuple[str, list[str]] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        left_out = _LEFT_OUT.match(text)
        skipped = _SKIPPED.search(text)
        if left_out:
            self.finish()
            op = left_out["op"] or left_out["ir"]
            self._pending = (f"CUDA graphs leave out {op}: {left_out['reason']}.", [])
        elif skipped:
            self.finish()
            reason = one_line(skipped["reason"] or text).rstrip(".")
            self._add(f"No CUDA graph is recorded: {reason}.", text)
        elif self._pending is not None and text.startswith("         "):
            self._pending[1].append(text)
        else:
            self.finish()

    def finish(self) -> None:
        """Record the op whose lines were being read, if any."""
        if self._pending is not None:
            reason, lines = self._pending
            self._pending = None
            self._add(reason, "\n".join(lines))

    def _add(self, reason: str, text: str) -> None:
        stack = tuple(step for step in user_stack(parse_stack(text)) if user_owned(step.path))
        stacks: tuple[Stack, ...] = (stack,) if stack else ()
        if "mutated inputs" in reason:
            stacks = self._writes.beside(stack) if stack else self._written_by_caller()
        stacks = stacks or _call_site()
        for found in stacks:
            self._recorder.observe("cudagraph", found[-1], reason, stack=found)
        if not stacks:
            self._recorder.send("note", text=f"{reason} (no line of the program is named)")

    def _written_by_caller(self) -> tuple[Stack, ...]:
        """A compiled function that is called keeps its frame on the stack."""
        frame = _calling_frame()
        return self._writes.within(frame.f_code) if frame is not None else ()


def _call_site() -> tuple[Stack, ...]:
    """Where the compiled function is called."""
    frame = _calling_frame()
    if frame is None:
        return ()
    return ((Step(absolute(frame.f_code.co_filename), frame.f_lineno, plain_name(frame.f_code.co_name)),),)


def _calling_frame() -> FrameType | None:
    """The user's innermost frame on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not user_owned(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
