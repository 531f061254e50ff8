"""Running a program as it is and observing every Python process in it: `compilelint run -- PROGRAM ...`.

The environment carries the observers into each process (`startup/sitecustomize.py`); each writes its records to a file
of its own in a folder, which is read when the program has ended. Its input, output and terminal are its own.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from compilelint.model import TargetRun, TargetStatus
from compilelint.runtime.breaks import one_line
from compilelint.runtime.orphans import kill_marked
from compilelint.runtime.processes import ProcessRun, together
from compilelint.runtime.wire import fold, read_records

NOTHING_COMPILED = "no process of it was seen to compile anything"

_RECORDS = "COMPILELINT_RECORDS"
_STARTUP = Path(__file__).resolve().parent / "startup"
_GRACE_SECONDS = 10.0
_LONGEST_NAME = 60


class _StoppedError(BaseException):
    """A signal that asks this process to end; like KeyboardInterrupt, no `except Exception` takes it."""

    def __init__(self, number: int) -> None:
        self.number = number


@dataclass(frozen=True, slots=True)
class _End:
    """How the program ended, and why where that was not well."""

    status: TargetStatus
    detail: str = ""


def run_program(command: Sequence[str], *, timeout: float | None = None) -> TargetRun:
    """Run the program to its end and return what it showed: all its processes together, called by its command line.

    `timeout` is in seconds. A program that fails, is killed, interrupted or out of time says so in the status; what
    it showed before is kept. Interrupted, it gets some seconds to end by itself. Raises OSError if there is no such
    program.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="compilelint-") as folder:
        end = _run(command, Path(folder), timeout)
        run = read_processes(one_line(shlex.join(command), _LONGEST_NAME), Path(folder))
    run = replace(run, seconds=time.monotonic() - started)
    if end.status != "ok":
        return replace(run, status=end.status, detail="; ".join(filter(None, (end.detail, run.detail))))
    return run


def _run(command: Sequence[str], folder: Path, timeout: float | None) -> _End:
    with _stopping_signals():
        program = subprocess.Popen(command, env=observed_environment(os.environ, folder))
        try:
            return _ended(program.wait(timeout))
        except subprocess.TimeoutExpired:
            _stop(program, folder, signal.SIGTERM)
            return _End("timeout", f"no end after {timeout:g} s; raise --timeout or make the program do less")
        except (_StoppedError, KeyboardInterrupt) as stop:
            number = stop.number if isinstance(stop, _StoppedError) else signal.SIGINT
            _stop(program, folder, None if number == signal.SIGINT and _in_foreground() else number)
            return _End("interrupted", "interrupted; this is what it had shown until then")


def observed_environment(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """`environment` with what makes a Python process, and each that it starts, leave its records in `folder`."""
    path = [str(_STARTUP), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(path), _RECORDS: str(folder)}


def read_processes(name: str, folder: Path) -> TargetRun:
    """What the processes that left records in `folder` showed together; those that compiled nothing don't count."""
    processes, notes = [], []
    for file in sorted(folder.glob("*.jsonl")):
        records, _ = read_records(file)
        run = fold(name, records)
        if run.evidence or run.traced:
            ranks = [record["rank"] for record in records if record["kind"] == "hello"]
            processes.append(ProcessRun(run, ranks[-1] if ranks else None))
        elif run.detail:
            notes.append(run.detail)
    whole = together(name, processes)
    told = [whole.detail if processes else NOTHING_COMPILED, *notes]
    return replace(whole, detail="; ".join(filter(None, dict.fromkeys(told))))


def _ended(code: int) -> _End:
    """`code` is an exit code, or the negative number of the signal that killed the program."""
    if code == 0:
        return _End("ok")
    if code < 0:
        return _End("crashed", f"killed by {signal.Signals(-code).name}")
    return _End("failed", f"the program ended with exit code {code}")


@contextmanager
def _stopping_signals() -> Iterator[None]:
    """Have the signals that end a process raise an exception, as an interrupt from the keyboard does already."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _StoppedError(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, stop) for number in numbers if signal.getsignal(number) == signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether this process and the program have the terminal, whose Ctrl-C then reaches both of them."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _stop(program: subprocess.Popen[bytes], folder: Path, number: int | None) -> None:
    """Send the program a signal (None: it has had it), give it some seconds, then kill whatever is left of it."""
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt, _StoppedError):
        if number is not None:
            program.send_signal(number)
        program.wait(_GRACE_SECONDS)
    program.kill()
    program.wait()
    kill_marked(_RECORDS, str(folder))
