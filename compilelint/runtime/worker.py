"""The child process for one target: `python -m compilelint.runtime.worker` (started by `launch`, not by hand).

It imports torch once and then forks a process for each pass, so that every pass sees fresh modules (a decorated
function is compiled anew, a registry is empty again) and a crash costs one pass. None of the user's code runs in it:
where the target's module can be imported once for all passes, a child does that and forks the passes.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from compilelint.runtime.exercise import Job
from compilelint.runtime.orphans import kill_marked
from compilelint.runtime.passes import run_pass
from compilelint.runtime.preload import may_preload, preload
from compilelint.runtime.wire import GPU_PASSES, MARK, PASSES, SIDE_PASSES, TRIALS, Record, Recorder, read_records

_SCATTERED = "run with the GPU as torch's default device, without which every call fails"

_UNRECORDED = 74
"""How a pass ends that cannot write its records: sysexits.h calls it EX_IOERR."""


def main() -> int:
    """Run the passes of one target. The exit code says nothing; the records do."""
    arguments = _arguments()
    recorder = Recorder(arguments.records, arguments.name)
    try:
        importlib.import_module("torch._dynamo")  # before the forks, which then need not
    except ImportError as error:
        detail = f"torch can't be imported here ({error}); install it: pip install torch"
        recorder.send("failed", status="missing", detail=detail)
        return 0
    job = Job(arguments.name, arguments.factory, arguments.device, arguments.records, arguments.results)
    work = _Work(job, recorder, line=os.dup(0))
    if not (may_preload() and work.run_preloaded()):
        work.run_passes()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compilelint.runtime.worker")
    for option in ("--name", "--factory", "--device", "--records"):
        parser.add_argument(option, required=True)
    parser.add_argument("--results", action="store_true")
    return parser.parse_args()


@dataclass(frozen=True)
class _Work:
    """The passes to run. `line` is the descriptor on which the launcher's end is heard; a forked child keeps it."""

    job: Job
    recorder: Recorder
    line: int

    def run_passes(self) -> None:
        """Run each pass in a process of its own, until nothing more can be learned from this target."""
        first, *others = PASSES
        if not self._run(first):
            return
        scattered = self._first("scattered")
        if scattered is None:
            self._run_more(others)
        else:
            work = replace(self, job=replace(self.job, everywhere=True))
            if work._run(first):
                self.recorder.send("note", text=f"{_SCATTERED}: {scattered['detail']}")
                work._run_more(others)

    def _run_more(self, passes: Sequence[str]) -> None:
        if not all(map(self._run, passes)):
            return
        if self._on_a_gpu():
            for name in GPU_PASSES:
                self._run(name)
        if self._first("varied") is not None:
            for name in TRIALS:
                self._run(name)

    def run_preloaded(self) -> bool:
        """Run the passes from a process that has imported the target's module; False if it started none."""
        exit_code = self._child(self._preloaded)
        kinds = [record["kind"] for record in self._records()]
        if "begin" not in kinds:
            return False
        if exit_code != 0 and "failed" not in kinds:
            self.recorder.send("failed", status="crashed", detail=_ending(exit_code))
        return True

    def _preloaded(self) -> None:
        _empty_input()
        here = Recorder(self.job.records, self.job.name)
        if preload(self.job, here):
            replace(self, recorder=here).run_passes()

    def _run(self, name: str) -> bool:
        return self._ended_well(name, self._child(self._isolated, name))

    def _child(self, work: Callable[..., None], *arguments: object) -> int:
        """Do the work in a process of its own; its exit code, negative if a signal ended it."""
        # Elsewhere forking a process that has loaded Apple's or Microsoft's libraries isn't safe.
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        child: BaseProcess = context.Process(target=work, args=arguments)  # type: ignore[attr-defined]
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # Python 3.12 warns of forking beside the threads of a numpy that only waits
            child.start()
        if not _ended(child, self.line):  # the line went dead: whoever started this process is gone
            kill_marked(MARK, self.recorder.path)
            os.killpg(0, signal.SIGKILL)
        child.join()
        return child.exitcode or 0

    def _isolated(self, name: str) -> None:
        _empty_input()
        try:
            run_pass(name, self.job)
        except OSError:
            os._exit(_UNRECORDED)
        os._exit(0)  # not waiting for threads that the program has left

    def _on_a_gpu(self) -> bool:
        """Whether the eager pass ran on one. Asking torch would not do: CUDA, once asked, doesn't survive a fork."""
        return any(record["kind"] == "hello" and record["device"] == "cuda" for record in self._records())

    def _ended_well(self, name: str, exit_code: int) -> bool:
        kinds = [(record["kind"], record.get("name")) for record in self._records()]
        if ("failed", None) in kinds:
            return False
        if kinds.count(("end", name)) == kinds.count(("begin", name)) > 0:
            return True
        if name in SIDE_PASSES:
            self.recorder.send("note", text=f"{name} pass: {_ending(exit_code)}")
            return True
        self.recorder.send("failed", status="crashed", detail=f"{name} pass: {_ending(exit_code)}")
        return False

    def _first(self, kind: str) -> Record | None:
        return next((record for record in self._records() if record["kind"] == kind), None)

    def _records(self) -> list[Record]:
        return read_records(Path(self.recorder.path))[0]


def _ended(child: BaseProcess, line: int) -> bool:
    """Wait until the child has ended, or (False) until the line is dead.

    The child's `sentinel` stays open in processes that it left behind, so the system is asked where it can tell.
    """
    try:
        end = os.pidfd_open(child.pid or 0)
    except (AttributeError, OSError):  # not Linux, or an old one
        return child.sentinel in wait([child.sentinel, line])
    try:
        return end in wait([end, line])
    finally:
        os.close(end)


def _empty_input() -> None:
    """Give the watched program an empty standard input: ours is the line on which the launcher's end is heard."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _ending(exit_code: int) -> str:
    if exit_code == _UNRECORDED:
        return "no more could be recorded: the program has used up the files it may open, or their size"
    if exit_code >= 0:
        return f"the program ended its own process with exit code {exit_code}"
    killed = f"killed by {_signal_name(-exit_code)}"
    return f"{killed}, as the system does when memory runs out" if -exit_code == signal.SIGKILL else killed


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


if __name__ == "__main__":
    sys.exit(main())
