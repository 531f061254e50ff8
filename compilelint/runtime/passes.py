"""The passes over one target, each run in a process of its own on a fresh target.

eager     the lines that run, and the exceptions that the program raises without the compiler
default   every break, frame skip and recompile: the judge
fullgraph what `fullgraph=True` refuses first
sync, cudagraph   on a GPU, see the modules of these names; if one fails, its channel alone is lost
dynamic, mark_dynamic   where a size made Dynamo compile again: what these would do about it, see `trials`

The first three compile with the backend `eager`: capture is what they watch, and generated code would only take time.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from compilelint.model import Fullgraph, Step
from compilelint.runtime import trials
from compilelint.runtime.breaks import one_line, parse_message
from compilelint.runtime.capture import DynamoWatch
from compilelint.runtime.exercise import Job, TargetError, build, call_all, compiling, device_of
from compilelint.runtime.failures import dynamo_error, place_of_error, told
from compilelint.runtime.lines import executed_lines
from compilelint.runtime.results import leaves
from compilelint.runtime.wire import GPU_PASSES, SIDE_PASSES, Recorder


def run_pass(name: str, job: Job) -> None:
    """Run one pass and record what it shows. Never raises; its last record tells that it came to its end."""
    recorder = Recorder(job.records, job.name)
    recorder.send("begin", name=name)
    try:
        if name in GPU_PASSES:
            importlib.import_module(f"compilelint.runtime.{name}").watch(job, recorder)
        else:
            _PASS[name](job, recorder)
    except BaseException as error:  # whatever the watched program raises, SystemExit too
        _record_failure(name, error, recorder)
    recorder.send("end", name=name)


def _record_failure(name: str, error: BaseException, recorder: Recorder) -> None:
    if name in SIDE_PASSES:
        recorder.send("note", text=f"{name} pass: {told(error)}")
    elif isinstance(error, TargetError):
        recorder.send("failed", status=error.status, detail=one_line(str(error)))
    else:
        recorder.send("failed", status="failed", detail=f"{name} pass: {told(error)}")


def _eager(job: Job, recorder: Recorder) -> None:
    """The program by itself. Where no call works on a GPU, tensors it makes elsewhere may be why: `scattered`."""
    import torch

    recorder.send("hello", torch=str(torch.__version__), device=device_of(job))
    torch.compiler.set_stance("force_eager")
    errors: list[Exception | None] = []
    with executed_lines() as seen:
        try:
            target = build(job)
            for call, error in call_all(target.model, target, _results("eager", job, recorder)):
                errors.append(error)
                if error is not None:
                    recorder.send("raised", name="eager", call=call, detail=told(error))
        finally:
            recorder.lines("executed", seen)
    recorder.send("calls", count=len(errors))
    raised = [error for error in errors if error is not None]
    if not errors:
        raise TargetError("failed", "the target makes no calls: give Target(model, calls=[(x,)])")
    if len(raised) < len(errors):
        return
    if device_of(job) == "cpu" or job.everywhere:
        raise TargetError("failed", f"every call raises without the compiler already: {told(raised[0])}")
    recorder.send("scattered", detail=told(raised[0]))


def _default(job: Job, recorder: Recorder) -> None:
    with DynamoWatch(recorder) as watch, compiling(fullgraph=False, backend="eager") as compile_:
        target = build(job)
        model = compile_(target.model) if target.compile else target.model
        for call, error in call_all(model, target, _results("default", job, recorder)):
            if error is not None:
                _record_error(recorder, call, error)
    trials.record_varied(watch, recorder)
    recorder.send("watched", channels=watch.watched)


def _results(name: str, job: Job, recorder: Recorder) -> Callable[[Any], None] | None:
    """What records the results of a pass, if they are asked for."""
    if not job.results:
        return None
    return lambda result: recorder.send("result", name=name, leaves=leaves(result))


def _record_error(recorder: Recorder, call: int, error: Exception) -> None:
    """An error that Dynamo itself raised in default mode costs more than a break; others are the program's own."""
    refusal = dynamo_error(error)
    recorder.send("raised", name="default", call=call, detail=told(error), dynamo=refusal is not None)
    place = place_of_error(refusal) if refusal is not None else None
    if refusal is None or place is None:
        return
    text = parse_message(str(refusal))
    reason = f"Call {call} fails under torch.compile: {type(refusal).__name__}: {text.reason}"
    recorder.observe("graph-break", place, reason, gb=text.gb, hint=text.hint, stack=(place,))


def _fullgraph(job: Job, recorder: Recorder) -> None:
    silent = Recorder(os.devnull, job.name)
    with DynamoWatch(silent) as watch, compiling(fullgraph=True, backend="eager") as compile_:
        refusal = _first_refusal(job, compile_)
    outcome = _refused(refusal, watch.failing_frame) if refusal else Fullgraph(passes=True)
    recorder.send("fullgraph", fullgraph=asdict(outcome))


def _first_refusal(job: Job, compile_: Callable[..., Any]) -> BaseException | None:
    """Dynamo's first error, in a call or already while the target is built (a program that warms up by itself)."""
    try:
        target = build(job)
    except Exception as error:
        refusal = dynamo_error(error)
        if refusal is None:
            raise
        return refusal
    model = compile_(target.model) if target.compile else target.model
    errors = (error for _, error in call_all(model, target) if error is not None)
    return next(filter(None, map(dynamo_error, errors)), None)


def _refused(error: BaseException, frame: Step | None) -> Fullgraph:
    text = parse_message(str(error))
    place = place_of_error(error) or frame
    return Fullgraph(
        passes=False,
        reason=text.reason,
        gb=text.gb,
        path=place.path if place else None,
        line=place.line if place else None,
    )


_PASS: dict[str, Callable[[Job, Recorder], None]] = {
    "eager": _eager,
    "default": _default,
    "fullgraph": _fullgraph,
    "dynamic": trials.try_dynamic,
    "mark_dynamic": trials.try_marks,
}
