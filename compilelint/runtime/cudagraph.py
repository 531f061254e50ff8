"""CUDA graphs: what Inductor leaves out of them, under `mode="reduce-overhead"`, told by its log artifact `cudagraphs`.

Three kinds of message count (torch 2.9 to 2.14): an op that a graph is partitioned around, with its reason and the
source line it comes from; `skipping cudagraphs due to ...`, for a graph that is not recorded at all; and a graph that
is recorded once more, for a new size of an input or because an input that should stay in its place has moved.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from compilelint.model import Step
from compilelint.runtime.breaks import one_line
from compilelint.runtime.exercise import Job, build, call_all, compiling, device_of
from compilelint.runtime.failures import told
from compilelint.runtime.frames import absolute, line_in, parse_stack, plain_name, user_owned, user_stack
from compilelint.runtime.loggers import ListenedTo
from compilelint.runtime.mutation import InputWrites, Stack
from compilelint.runtime.wire import Recorder

LOGGERS = {
    "torch._inductor.scheduler": "cudagraphs_log",
    "torch._inductor.cudagraph_utils": "cudagraphs_log",
    "torch._inductor.cudagraph_trees": "log",
}
"""The modules that write the artifact, and what each calls its logger."""

_LEFT_OUT = re.compile(r"^\s*(?P<node>\S+): reason=(?P<reason>.+?), ir=(?P<ir>\w+)(?:, fx=(?P<op>[\w.]+))?")
_SKIPPED = re.compile(r"(?:skipping cudagraphs? due to )+(?P<reason>[^\n]*?)(?:\. Found from :\s*)?(?:\n|$)")
_RECORDED = re.compile(r"^Recording cudagraph tree for symint key (?P<sizes>.+)$")
_MOVED = re.compile(r"Re-recording function=\S+, reason=(?P<reason>[^\n.]*)")
_NO_CUDA_GRAPHS = "when cudagraphs is disabled"
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
        _listening(CudagraphLog(recorder, writes)),
        writes.watching(),
        compiling(fullgraph=False, mode="reduce-overhead") as compile_,
    ):
        target = build(job)
        model = compile_(target.model) if target.compile else target.model
        for _ in range(_ROUNDS):
            next_step()
            for call, error in call_all(model, target):
                if error is not None:
                    recorder.send("note", text=f"under CUDA graphs, call {call} fails: {told(error)}")
                next_step()
    recorder.send("watched", channels=("cudagraph",))


@contextmanager
def _listening(log: CudagraphLog) -> Iterator[None]:
    originals = [(importlib.import_module(module), name) for module, name in LOGGERS.items()]
    before = [(module, name, getattr(module, name)) for module, name in originals]
    for module, name in originals:
        listen(module, name, log)
    try:
        yield
    finally:
        log.finish()
        for module, name, logger in before:
            setattr(module, name, logger)


def listen(module: Any, name: str, log: CudagraphLog) -> None:
    """Have `log` hear what one of the modules in `LOGGERS` says."""
    setattr(module, name, ListenedTo(getattr(module, name), log.hear))


class CudagraphLog:
    """Turns the messages of the artifact `cudagraphs` into evidence.

    An op that is left out comes as one message with the reason, followed by one for each line of its stack, which says
    where one of the operations in it was made; Inductor knows the others as well. `writes` knows the places that mutate
    inputs, of which torch names one at most.
    """

    def __init__(self, recorder: Recorder, writes: InputWrites) -> None:
        self._recorder = recorder
        self._writes = writes
        self._pending: tuple[str, list[str], tuple[Stack, ...]] | None = None
        self._sizes: dict[Stack, set[str]] = {}

    def hear(self, text: str) -> None:
        """Take in one message, after those that came before it."""
        left_out = _LEFT_OUT.match(text)
        skipped = _SKIPPED.search(text)
        recorded = _RECORDED.match(text)
        moved = _MOVED.search(text)
        if left_out:
            self.finish()
            if not left_out["reason"].endswith(_NO_CUDA_GRAPHS):
                op = left_out["op"] or left_out["ir"].replace("NoneType", "a fused kernel")
                reason = f"CUDA graphs leave out {op}: {left_out['reason']}."
                self._pending = (reason, [], _made_at(left_out["node"]))
        elif skipped:
            self.finish()
            reason = one_line(skipped["reason"]).rstrip(".")
            self._add(f"No CUDA graph is recorded: {reason}.", text)
        elif self._pending is not None and text.startswith("         "):
            self._pending[1].append(text)
        else:
            self.finish()
            if recorded:
                self._add_recording(recorded["sizes"])
            elif moved:
                self._add(f"A CUDA graph is recorded again: {moved['reason']}.", text.replace("stack trace: ", "\n"))

    def finish(self) -> None:
        """Record the op whose lines were being read, if any."""
        if self._pending is not None:
            reason, lines, made_at = self._pending
            self._pending = None
            self._add(reason, "\n".join(lines), made_at)

    def _add(self, reason: str, text: str, made_at: tuple[Stack, ...] = ()) -> None:
        stack = tuple(step for step in user_stack(parse_stack(text)) if user_owned(step.path))
        stacks = tuple(dict.fromkeys((*((stack,) if stack else ()), *made_at)))
        if "mutated inputs" in reason:
            stacks = self._writes.beside(stack) if stack else self._written_by_caller()
        stacks = stacks or _call_site()
        for found in stacks:
            self._recorder.observe("cudagraph", found[-1], reason, stack=found)
        if not stacks:
            self._recorder.send("note", text=f"{reason} (no line of the program is named)")

    def _add_recording(self, sizes: str) -> None:
        """The first recording is no news, each further one costs its time and memory."""
        for stack in _call_site():
            known = self._sizes.setdefault(stack, set())
            if known and sizes not in known:
                reason = f"A CUDA graph is recorded for each size of an input, now for {sizes}."
                self._recorder.observe("cudagraph", stack[-1], reason, stack=stack)
            known.add(sizes)

    def _written_by_caller(self) -> tuple[Stack, ...]:
        """A compiled function that is called keeps its frame on the stack."""
        frame = _calling_frame()
        return self._writes.within(frame.f_code) if frame is not None else ()


def _made_at(node: str) -> tuple[Stack, ...]:
    """Where the operations in a node of Inductor's scheduler were made, while that is at work.

    A node that was fused is named after its parts. Its origins include what its value was made for: that is on the
    other device where it is a copy.
    """
    graph: Any = importlib.import_module("torch._inductor.virtualized").V.graph
    nodes = getattr(getattr(graph, "scheduler", None), "name_to_node", {})
    stacks: dict[Stack, None] = {}
    for part in filter(None, map(nodes.get, node.split("_"))):
        for origin in getattr(part.node, "origins", ()):
            stack = tuple(step for step in parse_stack(origin.meta.get("stack_trace") or "") if user_owned(step.path))
            if stack and _device(origin.meta.get("val")) == _device(part):
                stacks[stack] = None
    return tuple(stacks)


def _device(value: Any) -> str:
    """The kind of device that a tensor, or the result of a scheduler's node, is on; empty for others."""
    device = value.get_device() if hasattr(value, "get_nodes") else getattr(value, "device", None)
    return getattr(device, "type", "")


def _call_site() -> tuple[Stack, ...]:
    """Where the compiled function is called."""
    frame = _calling_frame()
    if frame is None:
        return ()
    return ((Step(absolute(frame.f_code.co_filename), line_in(frame), plain_name(frame.f_code.co_name)),),)


def _calling_frame() -> FrameType | None:
    """The user's innermost frame on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not user_owned(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
