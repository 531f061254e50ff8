"""The text of the files that findings point into, as lines that count as Python counts them."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path


def decode(data: bytes) -> str:
    """Python source as text: by its byte-order mark or coding comment, bad bytes replaced rather than refused."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding, errors="replace")
    except (SyntaxError, LookupError):
        return data.decode("utf-8", errors="replace")


def split_lines(text: str) -> list[str]:
    """Source lines without their ends; unlike in str.splitlines, form feeds and Unicode separators end none."""
    return re.split(r"\r\n|\r|\n", text)


class Sources:
    """Source text by the path that findings carry: relative to `cwd`, or absolute. Unreadable files are empty.

    `given` holds text that is not on disk under its path (standard input).
    """

    def __init__(self, cwd: Path, given: Mapping[str, str] | None = None) -> None:
        self.cwd = cwd
        self._given = dict(given or {})
        self._read = lru_cache(maxsize=64)(self._from_disk)
        self._split = lru_cache(maxsize=64)(lambda path: split_lines(self.text(path)))

    def text(self, path: str) -> str:
        """The whole text."""
        return self._given[path] if path in self._given else self._read(path)

    def raw(self, path: str) -> str:
        """The text as tools outside Python read it: UTF-8 whatever a coding comment says, byte-order mark kept."""
        if path in self._given:
            return self._given[path]
        try:
            return (self.cwd / path).read_bytes().decode("utf-8", errors="replace")
        except (OSError, ValueError):
            return ""

    def lines(self, path: str) -> list[str]:
        """All lines; the first is at index 0."""
        return self._split(path)

    def line(self, path: str, number: int) -> str:
        """The 1-based line `number`, or nothing where there is none."""
        lines = self._split(path)
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def _from_disk(self, path: str) -> str:
        try:
            return decode((self.cwd / path).read_bytes())
        except (OSError, ValueError):
            return ""
