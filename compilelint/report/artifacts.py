"""How files are named in SARIF: relative URIs that say nothing about the machine."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from compilelint.model import Span
from compilelint.report.line_hash import line_hashes
from compilelint.source import Sources

SOURCE_ROOT = "%SRCROOT%"
PACKAGES = "PACKAGES"
INSTALLED = re.compile(
    r"(?:[A-Za-z]:)?[/\\](?:[^\s'\"/\\]+[/\\])*(?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]"
)


class Artifacts:
    """Files as SARIF names them: relative to the repository, or to the folder that holds their top-level package."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._root = _repository(sources.cwd) or sources.cwd
        self._hashes = lru_cache(maxsize=16)(lambda path: line_hashes(sources.raw(path)))

    def uri(self, path: str) -> tuple[str, str]:
        """(percent-encoded relative URI, the base it is relative to) of a path as findings give it."""
        real = (self._sources.cwd / path).resolve()
        if real.is_relative_to(self._root):
            return quote(real.relative_to(self._root).as_posix(), errors="surrogateescape"), SOURCE_ROOT
        return quote(real.relative_to(_package_home(real)).as_posix(), errors="surrogateescape"), PACKAGES

    def line_hash(self, path: str, line: int) -> str | None:
        """GitHub's fingerprint of a 1-based line, or None where there is no such line."""
        line = self._sources.in_file(path, Span(line, 1, line, 1)).line
        hashes = self._hashes(path)
        return hashes[line - 1] if 0 < line <= len(hashes) else None

    def region(self, path: str, span: Span) -> Span:
        """The span as it stands in the file, with columns in UTF-16 units, and an end that is not before its start."""
        span = self._sources.in_file(path, span)
        first = _units(self._line(path, span.line), span.column)
        last = _units(self._line(path, span.end_line), span.end_column)
        if (span.end_line, last) < (span.line, first):
            return Span(span.line, first, span.line, first)
        return Span(span.line, first, span.end_line, last)

    def line_name(self, path: str, line: int) -> str:
        """`line 4`, in a notebook `cell 3, line 4`."""
        return self._sources.by_cell(f"line {line}", path)

    def _line(self, path: str, number: int) -> str:
        """A 1-based line of the file."""
        if self._sources.notebook(path) is None:
            return self._sources.line(path, number)
        return self._sources.raw(path).split("\n", number)[number - 1]

    def without_machine_paths(self, text: str) -> str:
        """Text of torch's with the folders of this machine cut off the paths in it."""
        for folder in sorted({str(self._sources.cwd), str(self._root)}, key=len, reverse=True):
            text = text.replace(f"{folder}/", "")
        return INSTALLED.sub("", text).replace(str(Path.home()), "~")


def _units(line: str, column: int) -> int:
    """A 1-based column in code points as a 1-based column in UTF-16 units."""
    before = line[: column - 1]
    return column + sum(ord(char) > 0xFFFF for char in before)


def _repository(folder: Path) -> Path | None:
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)


def _package_home(file: Path) -> Path:
    home = file.parent
    while (home / "__init__.py").exists() and home != home.parent:
        home = home.parent
    return home
