"""Observing a stretch of the very process that asks for it, as a test run does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compilelint.model import TargetRun
from compilelint.runtime.capture import DynamoWatch
from compilelint.runtime.wire import Record, Recorder, fold


class Heard(Recorder):
    """Keeps the records of this process in memory."""

    def __init__(self, name: str) -> None:
        super().__init__(os.devnull, name)
        self._records: list[Record] = []

    def send(self, kind: str, **fields: Any) -> None:
        """Keep one record."""
        self._records.append({"kind": kind, **fields})

    def run(self) -> TargetRun:
        """What was heard so far, as the run of one target."""
        return fold(self.target, self._records)

    @property
    def compiled(self) -> bool:
        """Whether Dynamo traced anything at all, or tried to."""
        return any(record["kind"] in ("traced", "evidence") for record in self._records)


@contextmanager
def observing(name: str) -> Iterator[Heard]:
    """Hear what Dynamo does while the context is open; imports it."""
    heard = Heard(name)
    with DynamoWatch(heard):
        yield heard


def forget_compiled() -> None:
    """Have Dynamo compile everything anew: what is compiled already would show neither its breaks nor its absence."""
    import torch

    torch.compiler.reset()
