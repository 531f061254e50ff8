"""Running targets, each in a worker process of its own, so that one that dies costs itself only."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from compilelint.model import TargetRun, TargetStatus
from compilelint.runtime.orphans import kill_marked
from compilelint.runtime.wire import MARK, SIDE_PASSES, Record, fold, read_records

Device = Literal["auto", "cpu", "cuda"]
Progress = Callable[[str, str], None]

_POLL_SECONDS = 0.05
_UNSET = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "TORCHDYNAMO_VERBOSE")
_STAGES = {
    "eager": "running eagerly",
    "default": "compiling",
    "fullgraph": "compiling with fullgraph=True",
    "sync": "watching host syncs",
    "cudagraph": "watching CUDA graphs",
    "dynamic": "trying dynamic=True",
    "mark_dynamic": "trying mark_dynamic",
}


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A configured target: its name, and the function that makes it, as `package.module:function`."""

    name: str
    factory: str


class TargetsInterrupted(KeyboardInterrupt):
    """An interrupt while targets ran. `runs` is what they have shown, one for each target; some of it partial."""

    def __init__(self, runs: tuple[TargetRun, ...]) -> None:
        super().__init__()
        self.runs = runs


def run_targets(
    targets: Sequence[TargetSpec],
    *,
    device: Device = "auto",
    timeout: float = 600.0,
    root: Path | None = None,
    on_progress: Progress | None = None,
    results: bool = False,
) -> tuple[TargetRun, ...]:
    """Run each target and return what it showed, in the order given.

    Modules are looked for in `root` (the project's folder), the current folder and PYTHONPATH. `timeout` is in
    seconds and for one target, its imports included. `on_progress` is called with a target's name and what it is
    doing. `results` asks for what each call returned.

    A target that fails, crashes or runs out of time says so in its status; what it showed before is kept. Raises
    TargetsInterrupted, with the same, if this process is interrupted.
    """
    runs: list[TargetRun] = []
    for target in targets:
        runs.append(_run(target, device, timeout, root or Path.cwd(), on_progress, results))
        if runs[-1].status == "interrupted":
            left = (TargetRun(later.name, "interrupted", "interrupted before it ran") for later in targets[len(runs) :])
            raise TargetsInterrupted((*runs, *left))
    return tuple(runs)


def _run(
    target: TargetSpec, device: Device, timeout: float, root: Path, on_progress: Progress | None, results: bool
) -> TargetRun:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="compilelint-") as folder:
        records = Path(folder, "records.jsonl")
        records.touch()
        worker = _start(target, device, records, root, results)
        interrupted = False
        end = None
        try:
            end = _follow(worker, records, started + timeout, target.name, on_progress)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            _kill_group(worker)
            kill_marked(MARK, str(records))
        found = read_records(records)[0]
    run = fold(target.name, found, time.monotonic() - started)
    if interrupted:
        return replace(run, status="interrupted", detail="interrupted; this is what it had shown until then")
    if end is None:
        return _out_of_time(run, found, f"no end after {timeout:g} s; raise --timeout or make fewer calls")
    if run.status == "ok" and (end != 0 or not run.torch):
        status: TargetStatus = "crashed"
        return replace(run, status=status, detail=f"the worker process ended with exit code {end}")
    return run


def _out_of_time(run: TargetRun, records: Sequence[Record], why: str) -> TargetRun:
    """A pass that only adds to what is known by then costs its own channel; any other, the target."""
    begun = [record["name"] for record in records if record["kind"] == "begin"]
    if run.status == "ok" and begun and begun[-1] in SIDE_PASSES:
        return replace(run, detail="; ".join(filter(None, (run.detail, f"{_STAGES[begun[-1]]}: {why}"))))
    return replace(run, status="timeout", detail=why)


def _start(target: TargetSpec, device: Device, records: Path, root: Path, results: bool) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    inherited = environment.get("PYTHONPATH", "").split(os.pathsep)
    package_home = str(Path(__file__).resolve().parents[2])
    folders = [str(root.resolve()), str(Path.cwd()), *filter(None, inherited), package_home]
    environment[MARK] = str(records)
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folders))
    command = [sys.executable, "-m", "compilelint.runtime.worker"]
    command += ["--name", target.name, "--factory", target.factory, "--device", device, "--records", str(records)]
    command += ["--results"] if results else []
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _follow(
    worker: subprocess.Popen[bytes], records: Path, deadline: float, name: str, on_progress: Progress | None
) -> int | None:
    """Wait for the worker and pass on what it is doing; its exit code, or None if the deadline came first."""
    position = 0
    while True:
        code = worker.poll()
        if on_progress is not None:
            new, position = read_records(records, position)
            for stage in _stages(new):
                on_progress(name, stage)
        if code is not None:
            return code
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_SECONDS)


def _stages(records: list[Record]) -> list[str]:
    return [_STAGES[record["name"]] for record in records if record["kind"] == "begin"]


def _kill_group(worker: subprocess.Popen[bytes]) -> None:
    """End the worker and what it started; the session it leads is its own."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.pid, signal.SIGKILL)
    else:
        worker.kill()
    worker.wait()
    if worker.stdin is not None:
        worker.stdin.close()
