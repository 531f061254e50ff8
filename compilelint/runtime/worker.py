"""The child process for one target: `python -m compilelint.runtime.worker` (started by `launch`, not by hand).

It imports torch once and then forks a process for each pass, so that every pass sees fresh modules (a decorated
function is compiled anew, a registry is empty again) and a crash costs one pass. None of the user's code runs in it.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import signal
import sys
import warnings
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from compilelint.runtime.exercise import Job
from compilelint.runtime.passes import GPU_PASSES, PASSES, run_pass
from compilelint.runtime.wire import Recorder, read_records


def main() -> int:
    """Run the passes of one target. The exit code says nothing; the records do."""
    arguments = _arguments()
    recorder = Recorder(arguments.records, arguments.name)
    try:
        importlib.import_module("torch._dynamo")  # before the forks, which then need not
    except ImportError as error:
        detail = f"torch can't be imported here ({error}); install it: pip install 'compilelint[runtime]'"
        recorder.send("failed", status="missing", detail=detail)
        return 0
    job = Job(arguments.name, arguments.factory, arguments.device, arguments.records)
    if all(_run(name, job, recorder) for name in PASSES) and _on_a_gpu(recorder):
        for name in GPU_PASSES:
            _run(name, job, recorder)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compilelint.runtime.worker")
    for option in ("--name", "--factory", "--device", "--records"):
        parser.add_argument(option, required=True)
    return parser.parse_args()


def _run(name: str, job: Job, recorder: Recorder) -> bool:
    """Run one pass in a process of its own; False if nothing more can be learned from this target."""
    # Elsewhere forking a process that has loaded Apple's or Microsoft's libraries isn't safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    child: BaseProcess = context.Process(target=_isolated, args=(name, job))  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forking beside the threads of a numpy that only waits
        child.start()
    if child.sentinel not in wait([child.sentinel, sys.stdin.fileno()]):
        os.killpg(0, signal.SIGKILL)  # standard input ended: whoever started this process is gone
    child.join()
    return _ended_well(name, child.exitcode or 0, recorder)


def _on_a_gpu(recorder: Recorder) -> bool:
    """Whether the eager pass ran on one. This process doesn't ask torch: CUDA, once asked, doesn't survive a fork."""
    records, _ = read_records(Path(recorder.path))
    return any(record["kind"] == "hello" and record["device"] == "cuda" for record in records)


def _isolated(name: str, job: Job) -> None:
    """Give the watched program an empty standard input: ours is the line on which the launcher's end is heard."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    run_pass(name, job)


def _ended_well(name: str, exit_code: int, recorder: Recorder) -> bool:
    records, _ = read_records(Path(recorder.path))
    kinds = [(record["kind"], record.get("name")) for record in records]
    if ("failed", None) in kinds:
        return False
    if ("end", name) in kinds:
        return True
    if exit_code < 0:
        reason = f"killed by {_signal_name(-exit_code)}"
        if -exit_code == signal.SIGKILL:
            reason += ", as the system does when memory runs out"
    else:
        reason = f"the program ended its own process with exit code {exit_code}"
    if name in GPU_PASSES:
        recorder.send("note", text=f"{name} pass: {reason}")
        return True
    recorder.send("failed", status="crashed", detail=f"{name} pass: {reason}")
    return False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


if __name__ == "__main__":
    sys.exit(main())
