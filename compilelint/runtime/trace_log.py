"""The file format of TORCH_TRACE, torch 2.4 to 2.14: glog headers with JSON, each followed by its payload's lines.

`V0930 12:00:00.000000 4242 torch/_dynamo/guards.py:10] {"artifact": {...}, "has_payload": "<md5>"}`, then the payload,
every line behind a tab. The number is the process, in torch 2.4 the thread. Logs come cut short, mixed and damaged:
what is whole is read, the rest is counted.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

_HEAD = re.compile(
    r"(?:\[rank\d+\]:)?[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (?P<process>\d+) [^\n\]]*:\d+\] (?P<metadata>\{.*\})\s*$"
)


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One record: who wrote it, its metadata, and the text that belongs to it."""

    process: int
    metadata: dict[str, Any]
    payload: str = ""


class TraceLog:
    """One log file, plain or gzipped. `damaged` counts what could not be read, once the records are read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.damaged = 0

    def records(self) -> Iterator[TraceRecord]:
        """The records that are whole, in the order of the file. An unreadable file or rest of a file is damage."""
        try:
            with self._open() as stream:
                yield from self._records(stream)
        except (OSError, EOFError, zlib.error):
            self.damaged += 1

    def _open(self) -> TextIO:
        if self._path.suffix == ".gz":
            return gzip.open(self._path, "rt", encoding="utf-8", errors="replace")
        return self._path.open(encoding="utf-8", errors="replace")

    def _records(self, stream: TextIO) -> Iterator[TraceRecord]:
        head: re.Match[str] | None = None
        payload: list[str] = []
        for line in stream:
            if line.startswith("\t"):
                payload.append(line[1:].rstrip("\n"))
                continue
            if head is not None:
                yield from self._record(head, payload)
            head, payload = _HEAD.match(line), []
            if head is None and line.strip():
                self.damaged += 1
        if head is not None:
            yield from self._record(head, payload)

    def _record(self, head: re.Match[str], payload: list[str]) -> Iterator[TraceRecord]:
        text = "\n".join(payload)
        try:
            metadata = json.loads(head["metadata"])
        except ValueError:
            self.damaged += 1
            return
        digest = metadata.get("has_payload")
        if digest and hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() != digest:
            self.damaged += 1
            return
        yield TraceRecord(int(head["process"]), metadata, text)
