"""Observing a program from inside one of its processes, for as long as that runs."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from compilelint.model import Channel
from compilelint.runtime.capture import DynamoWatch
from compilelint.runtime.wire import Recorder


class ProcessRecorder(Recorder):
    """Appends the records of each process to a file of its own in a folder; one that is forked off gets another.

    What the process is (its rank, its device, `watched`) comes before its first record and whenever that has changed.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder, "")
        self._folder = folder
        self._told: object = None
        self.watched: tuple[Channel, ...] = ()

    def send(self, kind: str, **fields: Any) -> None:
        """Write one record. If it can't be written, because the observing ended first, it is lost in silence."""
        self._owner = os.getpid()
        self.path = str(Path(self._folder, f"{self._owner}.jsonl"))
        process = {"pid": self._owner, "rank": _rank(), "torch": _torch_version(), "device": _device()}
        with suppress(OSError):
            if (process, self.watched) != self._told:
                self._told = (process, self.watched)
                super().send("hello", **process)
                super().send("watched", channels=self.watched)
            super().send(kind, **fields)


def attach(folder: str) -> None:
    """Observe Dynamo, which this process has just imported, to the end of the process; the records go into `folder`."""
    recorder = ProcessRecorder(folder)
    recorder.watched = DynamoWatch(recorder).__enter__().watched


def _rank() -> int | None:
    """The process's rank: of its process group, else of the launcher that started it, if there is either."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    announced = os.environ.get("RANK", "")
    return int(announced) if announced.isdecimal() else None


def _device() -> str:
    """`cuda` once the program uses it. This does not ask whether it could: that would start CUDA and break forks."""
    cuda: Any = sys.modules["torch.cuda"]
    return "cuda" if cuda.is_initialized() else "cpu"


def _torch_version() -> str:
    import torch

    return str(torch.__version__)
