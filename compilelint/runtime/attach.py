"""Observing a program from inside one of its processes, for as long as that runs."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from compilelint.model import Channel, Evidence, Step
from compilelint.runtime import generated
from compilelint.runtime.capture import DynamoWatch
from compilelint.runtime.cudagraph import LOGGERS, CudagraphLog, listen
from compilelint.runtime.mutation import InputWrites
from compilelint.runtime.rewritten import FirstBreaks
from compilelint.runtime.sync_watch import SyncWatch
from compilelint.runtime.wire import Recorder

_CACHED = (
    "Inductor had some of the code in its cache, which does not tell what CUDA graphs leave out of it; "
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 has it made anew"
)

WhenImported = Callable[[str, Callable[[ModuleType], object]], None]
"""Calls a function with the module of that name once the program has imported it."""


class ProcessRecorder(Recorder):
    """Appends the records of each process to a file of its own in a folder; one that is forked off gets another.

    What the process is (its rank, its device, `watched`) comes before its first record and whenever that has changed.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder, "")
        self._folder = folder
        self._told: object = None
        self._breaks = FirstBreaks()
        self.watched: tuple[Channel, ...] = ()
        self.syncs = SyncWatch(self, self._breaks)

    def send(self, kind: str, **fields: Any) -> None:
        """Write one record. If it can't be written, because the observing ended first, it is lost in silence."""
        if kind == "traced":
            self.syncs.start()
        self._owner = os.getpid()
        self.path = str(Path(self._folder, f"{self._owner}.jsonl"))
        process = {"pid": self._owner, "rank": _rank(), "torch": _torch_version(), "device": _device()}
        with suppress(OSError):
            if (process, self.watched) != self._told:
                self._told = (process, self.watched)
                super().send("hello", **process)
                super().send("watched", channels=self.watched)
            super().send(kind, **fields)

    def observe(self, channel: Channel, place: Step, reason: str, **fields: Any) -> Evidence:
        """Record one observation, and keep in mind where the function being compiled breaks."""
        self._breaks.note(channel, fields.get("stack", ()))
        return super().observe(channel, place, reason, **fields)

    def watch_cuda_graphs(self, when_imported: WhenImported) -> None:
        """Hear what Inductor leaves out of CUDA graphs, from when the program imports it."""
        self._breaks.compilation.watching().__enter__()
        writes = InputWrites(self._breaks.compilation)
        log = CudagraphLog(self, writes)
        when_imported("torch._inductor.compile_fx", writes.read_graphs_of)
        when_imported("torch._inductor.scheduler", generated.mark_origins)
        when_imported("torch._inductor.cudagraph_trees", lambda module: atexit.register(self._tell_cached))
        for module, name in LOGGERS.items():
            when_imported(module, functools.partial(listen, name=name, log=log))

    def _tell_cached(self) -> None:
        """Code that comes out of Inductor's cache is not made again, and so says nothing of what it leaves out."""
        counters: Any = sys.modules["torch._dynamo.utils"].counters
        hits = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
        if hits and _device() == "cuda":
            self.send("note", text=_CACHED)


def attach(folder: str, when_imported: WhenImported) -> None:
    """Observe Dynamo, which this process has just imported, to the end of the process; the records go into `folder`."""
    recorder = ProcessRecorder(folder)
    recorder.watched = DynamoWatch(recorder).__enter__().watched
    recorder.watch_cuda_graphs(when_imported)


def _rank() -> int | None:
    """The process's rank: of its process group, else of the launcher that started it, if there is either."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    announced = os.environ.get("RANK", "")
    return int(announced) if announced.isdecimal() else None


def _device() -> str:
    """`cuda` once the program has had memory there. This does not start CUDA, which would break forks; Dynamo may."""
    cuda: Any = sys.modules["torch.cuda"]
    used = cuda.is_initialized() and any(map(cuda.max_memory_reserved, range(cuda.device_count())))
    return "cuda" if used else "cpu"


def _torch_version() -> str:
    import torch

    return str(torch.__version__)
