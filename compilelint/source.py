"""The text of the files that findings point into, as lines that count as Python counts them."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from compilelint.lines import split_lines
from compilelint.model import Span
from compilelint.notebook import Notebook, NotebookError, is_notebook

_QUOTED_OR_LINE = re.compile(r"`[^`]*`|\bline (\d+)\b")


def decode(data: bytes) -> str:
    """Python source as text: by its byte-order mark or coding comment, bad bytes replaced rather than refused."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding, errors="replace")
    except (SyntaxError, LookupError):
        return data.decode("utf-8", errors="replace")


class Sources:
    """Source text by the path that findings carry: relative to `cwd`, or absolute. Unreadable files are empty.

    Of a notebook it is the module that its cells make, in which findings have their places; see `compilelint.notebook`.
    `given` holds text that is not on disk under its path (standard input).
    """

    def __init__(self, cwd: Path, given: Mapping[str, str] | None = None) -> None:
        self.cwd = cwd
        self._given = dict(given or {})
        self.unmarked: frozenset[str] = frozenset()
        """Files on disk, by absolute path, of which it is known that no suppression stands in them."""
        self._read = lru_cache(maxsize=64)(self._from_disk)
        self._split = lru_cache(maxsize=64)(self._lines)
        self._parsed = lru_cache(maxsize=64)(self._notebook)

    def notebook(self, path: str) -> Notebook | None:
        """The notebook of that path; None if it is something else, or no valid one."""
        return self._parsed(path) if is_notebook(path) else None

    def text(self, path: str) -> str:
        """The whole text, as Python can parse it."""
        if is_notebook(path):
            notebook = self.notebook(path)
            return notebook.code if notebook else ""
        return self._given[path] if path in self._given else self._read(path)

    def raw(self, path: str) -> str:
        """The text as tools outside Python read it: UTF-8 whatever a coding comment says, byte-order mark kept."""
        if path in self._given:
            return self._given[path]
        try:
            return (self.cwd / path).read_bytes().decode("utf-8", errors="replace")
        except (OSError, ValueError):
            return ""

    def may_hold(self, path: str, words: Iterable[bytes]) -> bool:
        """Whether one of some ASCII words in small letters may stand in the text, in whatever letters.

        False where the bytes of the file have none.
        """
        if path in self._given or is_notebook(path):
            return True
        try:
            data = (self.cwd / path).read_bytes().lower()
        except (OSError, ValueError):
            return False
        return any(word in data for word in words)

    def lines(self, path: str) -> list[str]:
        """All lines as they were written, also those that only IPython understands; the first is at index 0."""
        return self._split(path)

    def line(self, path: str, number: int) -> str:
        """The 1-based line `number`, or nothing where there is none."""
        lines = self._split(path)
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def place(self, path: str, line: int, column: int | None = None) -> str:
        """`path:line` or `path:line:column`; in a notebook `path:cell 3:line`, with the line in that cell."""
        cell, line = self.cell_line(path, line)
        parts = [path, *([f"cell {cell}"] if cell else []), str(line), *([str(column)] if column else [])]
        return ":".join(parts)

    def cell_line(self, path: str, line: int) -> tuple[int | None, int]:
        """The number of the cell and the line in it, in a notebook; else None and the line as it is."""
        notebook = self.notebook(path)
        cell = notebook.cell_at(line) if notebook else None
        return (None, line) if cell is None else (cell.number, line - cell.first + 1)

    def by_cell(self, text: str, path: str) -> str:
        """A message about a file with the lines that it speaks of named by their cells, if that is a notebook."""
        if self.notebook(path) is None:
            return text

        def named(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0]
            cell, line = self.cell_line(path, int(match[1]))
            return f"cell {cell}, line {line}"

        return _QUOTED_OR_LINE.sub(named, text)

    def in_file(self, path: str, span: Span) -> Span:
        """A span as it stands in the file; that is another one in notebooks, which are JSON."""
        notebook = self.notebook(path)
        return notebook.in_file(span) if notebook else span

    def _lines(self, path: str) -> list[str]:
        notebook = self.notebook(path)
        return notebook.lines if notebook else split_lines(self.text(path))

    def _notebook(self, path: str) -> Notebook | None:
        try:
            return Notebook(self.raw(path))
        except NotebookError:
            return None

    def _from_disk(self, path: str) -> str:
        try:
            return decode((self.cwd / path).read_bytes())
        except (OSError, ValueError):
            return ""
