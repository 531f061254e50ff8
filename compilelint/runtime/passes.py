"""The passes over one target, each run in a process of its own on a fresh target.

eager     the lines that run, and the exceptions that the program raises without the compiler
default   every break, frame skip and recompile: the judge
fullgraph what `fullgraph=True` refuses first
sync, cudagraph   on a GPU, see the modules of these names
"""

from __future__ import annotations

import functools
import importlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from compilelint.model import Fullgraph, Step
from compilelint.runtime import device as devices
from compilelint.runtime.breaks import one_line, parse_message
from compilelint.runtime.capture import DynamoWatch
from compilelint.runtime.failures import dynamo_error, place_of_error, told
from compilelint.runtime.lines import executed_lines
from compilelint.runtime.target import Target
from compilelint.runtime.wire import Recorder

PASSES = ("eager", "default", "fullgraph")
GPU_PASSES = ("sync", "cudagraph")
_SEED = 1000


@dataclass(frozen=True)
class Job:
    """What a pass needs: where the target comes from, the device wished for, and where its records go."""

    name: str
    factory: str
    device: str
    records: str


class TargetError(Exception):
    """The target cannot be had. `status` is `missing` or `failed`."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def run_pass(name: str, job: Job) -> None:
    """Run one pass and record what it shows. Never raises; its last record tells that it came to its end."""
    recorder = Recorder(job.records, job.name)
    try:
        recorder.send("begin", name=name)
        _PASS[name](job, recorder)
    except TargetError as error:
        recorder.send("failed", status=error.status, detail=one_line(str(error)))
    except BaseException as error:  # whatever the watched program raises, SystemExit too
        recorder.send("failed", status="failed", detail=f"{name} pass: {told(error)}")
    recorder.send("end", name=name)


def _eager(job: Job, recorder: Recorder) -> None:
    import torch

    device = _device(job)
    recorder.send("hello", torch=str(torch.__version__), device=device)
    torch.compiler.set_stance("force_eager")
    errors: list[Exception | None] = []
    with executed_lines() as seen:
        try:
            target = _build(job, device)
            for call, error in _call_all(target.model, target):
                errors.append(error)
                if error is not None:
                    recorder.send("raised", name="eager", call=call, detail=told(error))
        finally:
            recorder.lines("executed", seen)
    recorder.send("calls", count=len(errors))
    raised = [error for error in errors if error is not None]
    if not errors:
        raise TargetError("failed", "the target makes no calls: give Target(model, calls=[(x,)])")
    if len(raised) == len(errors):
        raise TargetError("failed", f"every call raises without the compiler already: {told(raised[0])}")


def _default(job: Job, recorder: Recorder) -> None:
    with DynamoWatch(recorder) as watch, compiling(_device(job), fullgraph=False) as compile_:
        target = _build(job, _device(job))
        model = compile_(target.model) if target.compile else target.model
        for call, error in _call_all(model, target):
            if error is not None:
                _record_error(recorder, call, error)
    recorder.send("watched", channels=watch.watched)


def _fullgraph(job: Job, recorder: Recorder) -> None:
    silent = Recorder(os.devnull, job.name)
    with DynamoWatch(silent) as watch, compiling(_device(job), fullgraph=True) as compile_:
        refusal = _first_refusal(job, compile_)
    outcome = _refused(refusal, watch.failing_frame) if refusal else Fullgraph(passes=True)
    recorder.send("fullgraph", fullgraph=asdict(outcome))


def _first_refusal(job: Job, compile_: Callable[..., Any]) -> BaseException | None:
    """Dynamo's first error, in a call or already while the target is built (a program that warms up by itself)."""
    try:
        target = _build(job, _device(job))
    except Exception as error:
        refusal = dynamo_error(error)
        if refusal is None:
            raise
        return refusal
    model = compile_(target.model) if target.compile else target.model
    errors = (error for _, error in _call_all(model, target) if error is not None)
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


@contextmanager
def compiling(device: str, *, fullgraph: bool) -> Iterator[Callable[..., Any]]:
    """Let every `torch.compile` of the program, and the one given here, compile under our `fullgraph`.

    On a CPU the backend is `eager`: capture is what is watched, and generated code would only take time. The
    program's own backend, mode and options count for nothing there; `dynamic` and the rest are kept.
    """
    import torch

    original = torch.compile

    def watched_compile(model: Any = None, **options: Any) -> Any:
        options["fullgraph"] = fullgraph
        if device == "cpu":
            for name in ("mode", "options"):
                options.pop(name, None)
            options["backend"] = "eager"
        if model is None:
            return lambda function: original(function, **options)
        return original(model, **options)

    torch.compile = watched_compile
    try:
        yield watched_compile
    finally:
        torch.compile = original


def _call_all(model: Callable[..., Any], target: Target) -> Iterator[tuple[int, Exception | None]]:
    """Make the target's calls, then run its decode loop; yields each call's number, from 1, and what it raised."""
    calls = [functools.partial(model, *call.args, **call.kwargs) for call in target.arguments]
    if target.decode is not None:
        calls.append(functools.partial(target.decode, model))
    for number, call in enumerate(calls, 1):
        _seed(number - 1)
        error = None
        try:
            call()
        except Exception as raised:
            error = raised
        yield number, error


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


def _device(job: Job) -> str:
    try:
        return devices.choose(job.device)
    except RuntimeError as error:
        raise TargetError("failed", str(error)) from None


def _build(job: Job, device: str) -> Target:
    """Call the factory. Seeded, so that every pass sees the same weights and inputs."""
    _seed(0)
    factory = _load(job.factory)
    target = factory()
    if not isinstance(target, Target):
        raise TargetError("failed", f"{job.factory} returned a {type(target).__name__}; return a compilelint.Target")
    return devices.place(target, device)


def _load(factory: str) -> Callable[[], object]:
    module_name, _, attribute = factory.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise TargetError(
                "missing", f"there is no module {error.name} on {os.pathsep.join(sys.path[:3])}"
            ) from None
        raise
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise TargetError(
            "missing",
            f"module {module_name} has no function {attribute or '(none named)'}; "
            "name the factory as pkg.module:function",
        )
    maker: Callable[[], object] = found
    return maker


def _seed(call: int) -> None:
    import torch

    torch.random.manual_seed(_SEED + call)
    random.seed(_SEED + call)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(_SEED + call)


_PASS: dict[str, Callable[[Job, Recorder], None]] = {"eager": _eager, "default": _default, "fullgraph": _fullgraph}
