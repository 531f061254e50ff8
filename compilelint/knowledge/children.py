"""Examine candidates in forked children.

A fork costs little, and keeps whatever a call does to global state, to the process or to its working directory away
from the next one. A child that dies or hangs costs its own candidate and nothing else.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import io
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from compilelint.knowledge.candidates import Candidate

SECONDS_PER_CANDIDATE = 30.0
Examination = Callable[[Candidate], dict[str, Any]]


def examine_all(
    examine: Examination,
    candidates: list[Candidate],
    place: Path,
    jobs: int,
    seconds: float = SECONDS_PER_CANDIDATE,
) -> list[dict[str, Any]]:
    """What `examine` gives for each candidate, in a form that JSON holds; empty where its child died or raised.

    A child has `seconds` of time. `jobs` processes share the work, each in a folder of its own under `place`. Raises
    RuntimeError if one of them dies.
    """
    workers = {}
    for job in range(jobs):
        folder = place / str(job)
        folder.mkdir()
        worker = os.fork()
        if worker == 0:
            _work(examine, candidates[job::jobs], folder, seconds, show=job == 0)
        workers[worker] = folder
    seen: list[dict[str, Any]] = [{} for _ in candidates]
    for job, (worker, folder) in enumerate(workers.items()):
        if os.waitpid(worker, 0)[1] != 0:
            raise RuntimeError(f"the process that examined every {jobs}th candidate from number {job} on died")
        seen[job::jobs] = json.loads(Path(f"{folder}.json").read_text(encoding="utf-8"))
    return seen


def _work(examine: Examination, candidates: list[Candidate], folder: Path, seconds: float, show: bool) -> None:
    """One worker's share, written beside its folder. It never returns."""
    status = 1
    try:
        os.chdir(folder)
        seen = []
        for number, candidate in enumerate(candidates):
            if show and number % 100 == 0:
                print(f"{number} of {len(candidates)}: {candidate.name}", file=sys.stderr, flush=True)
            seen.append(_in_child(examine, candidate, folder, seconds))
        Path(f"{folder}.json").write_text(json.dumps(seen), encoding="utf-8")
        status = 0
    finally:
        os._exit(status)


@functools.cache
def _files() -> dict[str, bytes]:
    """What the texts that name files find in the working directory, whatever the last candidate wrote there."""
    saved = io.BytesIO()
    torch.save(torch.ones(2), saved)
    return {"a": b"a", "t.pt": saved.getvalue()}


def _in_child(examine: Examination, candidate: Candidate, folder: Path, seconds: float) -> dict[str, Any]:
    """Examine one candidate in a fork."""
    for name, content in _files().items():
        (folder / name).write_bytes(content)
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        _report(examine, candidate, writable)
    os.close(writable)
    text = _read(readable, time.monotonic() + seconds)
    os.close(readable)
    if text is None:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        seen: dict[str, Any] = json.loads(text or "{}")
    except ValueError:
        return {}
    return seen


def _report(examine: Examination, candidate: Candidate, writable: int) -> None:
    """The child's part. It never returns, and is too short-lived for collecting garbage to pay."""
    gc.disable()
    try:
        # Out of reach of candidates that take a small number for a file descriptor and close it, as open() does.
        writable = fcntl.fcntl(writable, fcntl.F_DUPFD, 200)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        observation = examine(candidate)
        with os.fdopen(writable, "w") as pipe:
            json.dump(observation, pipe)
    finally:
        os._exit(0)


def _read(pipe: int, until: float) -> str | None:
    """All of a pipe up to its end; None when the time is over first."""
    chunks: list[bytes] = []
    while (left := until - time.monotonic()) > 0 and select.select([pipe], [], [], left)[0]:
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            return b"".join(chunks).decode()
        chunks.append(chunk)
    return None
