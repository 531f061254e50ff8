"""Jupyter notebooks as Python: their code cells joined to one module, and the way back to cells and to the file.

The module has the lines of all code cells, one cell after another. What only IPython understands (`%matplotlib inline`,
`!pip install x`, `torch.compile?`, cells in another language) is replaced line by line, so that every line keeps its
number. Cells are numbered as ruff does: from 1, those that hold no code included. The format is nbformat 4
(nbformat documentation, "The Notebook file format").
"""

from __future__ import annotations

import bisect
import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import PurePath
from typing import Any

from compilelint.lines import line_starts, split_lines
from compilelint.model import Span
from compilelint.notebook_json import Source, sources_in
from compilelint.record import record

_PYTHON = frozenset({"python", "ipython"})
_RUNS_ITS_CELL = frozenset({"capture", "debug", "prun", "time", "timeit"})
"""Cell magics whose cell is code of this notebook; the cells of all others are another program."""

_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_COMMAND = re.compile(r"\s*(?:[%!?]|[^\s#'\"]+\?{1,2}\s*;?\s*$)")
_ASSIGNED = re.compile(r"(?P<target>\s*[\w.,\[\] \t]+?=\s*)(?:!|%[A-Za-z])")


class NotebookError(Exception):
    """A file that is not a notebook; the message is one line. `line` is that of the file, 1-based, or None."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@record(frozen=True, slots=True)
class Cell:
    """A code cell: its number in the notebook, its first line in the joined module, and its source as it is written."""

    number: int
    first: int
    source: str


def is_notebook(path: str | PurePath) -> bool:
    """Whether a file is a notebook by its name."""
    return str(path).endswith(".ipynb")


class Notebook:
    """One notebook. `raw` is the text of its file; raises NotebookError where that is no notebook.

    `lines` are those of the joined module as the cells have them, `code` is the module as Python can parse it; one has
    as many lines as the other. A notebook in another language than Python has none.
    """

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.cells: list[Cell] = []
        self.lines: list[str] = []
        code: list[str] = []
        for number, source in _code_cells(_document(raw)):
            self.cells.append(Cell(number, len(self.lines) + 1, source))
            written = split_lines(source)
            self.lines += written
            code += _as_python(written)
        self.code = "\n".join(code)

    def cell_at(self, line: int) -> Cell | None:
        """The cell that holds a 1-based line of the joined module; None for a notebook without code."""
        at = bisect.bisect_right(self.cells, line, key=lambda cell: cell.first) - 1
        return self.cells[at] if at >= 0 else None

    def line_of(self, number: int, line: int) -> int | None:
        """The line of the joined module that is the 1-based `line` of a cell; None where the cell has no such line."""
        for cell in self.cells:
            if cell.number == number and 0 < line <= len(split_lines(cell.source)):
                return cell.first + line - 1
        return None

    def in_file(self, span: Span) -> Span:
        """Where in the file a span of the joined module is; the first line of the file where that can't be told."""
        first, last = self.cell_at(span.line), self.cell_at(span.end_line)
        if first is None or last is None:
            return Span(1, 1, 1, 1)
        start = self._offset(first, span.line, span.column, 0)
        end = self._offset(last, span.end_line, span.end_column - 1, 1) if span.end_column > 1 else start
        return Span(*self._position(start), *self._position(max(start, end)))

    def with_sources(self, changed: Mapping[int, str]) -> str:
        """The text of the file with other sources in the cells of these numbers; nothing else in it changes."""
        text = self.raw
        for number in sorted(changed, reverse=True):
            source = self._sources[number]
            text = text[: source.start] + source.written(changed[number], self.raw) + text[source.end :]
        return text

    @cached_property
    def _sources(self) -> dict[int, Source]:
        return sources_in(self.raw)

    @cached_property
    def _file_lines(self) -> list[int]:
        return line_starts(self.raw, "\n")

    def _offset(self, cell: Cell, line: int, column: int, side: int) -> int:
        """Where in the file a character of the module begins (`side` 0) or ends (1)."""
        characters = self._sources[cell.number].characters(self.raw)
        starts = line_starts(cell.source)
        at = starts[min(line - cell.first, len(starts) - 1)] + column - 1
        if at < len(characters):
            return characters[at][side]
        return characters[-1][1] if characters else self._sources[cell.number].end

    def _position(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._file_lines, offset)
        return line, offset - self._file_lines[line - 1] + 1


def _document(raw: str) -> dict[str, Any]:
    try:
        document = json.loads(raw.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise NotebookError(f"not a notebook, as it is not valid JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise NotebookError("not a notebook: its JSON is nested too deeply") from None
    if isinstance(document, dict) and isinstance(document.get("cells"), list):
        return document
    if isinstance(document, dict) and "worksheets" in document:
        raise NotebookError("a notebook of format 3; save it in format 4 (jupyter nbconvert --to notebook --inplace)")
    raise NotebookError("not a notebook: it has no list of cells")


def _code_cells(document: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """(number, source) of each cell of code in Python."""
    metadata = document.get("metadata")
    if (_entry(metadata, "language_info", "name") or _entry(metadata, "kernelspec", "language")) not in _SPOKEN:
        return
    for number, cell in enumerate(document["cells"], 1):
        source = cell.get("source") if isinstance(cell, dict) else None
        if isinstance(source, list) and all(isinstance(part, str) for part in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise NotebookError(f"not a notebook: cell {number} has no source")
        language = _entry(cell.get("metadata"), "vscode", "languageId")
        if cell.get("cell_type") == "code" and language in _SPOKEN:
            yield number, source


_SPOKEN = _PYTHON | {None}


def _entry(metadata: object, *names: str) -> object:
    """What nested metadata say, in lower case; None where they say nothing."""
    for name in names:
        metadata = metadata.get(name) if isinstance(metadata, dict) else None
    return metadata.lower() if isinstance(metadata, str) else None


def _as_python(lines: list[str]) -> list[str]:
    """The lines of a cell with what only IPython understands replaced, each on its own line."""
    head = next((line for line in lines if line.strip()), "")
    magic = _CELL_MAGIC.match(head)
    if magic and magic[1] not in _RUNS_ITS_CELL:
        return [""] * len(lines)
    code: list[str] = []
    goes_on = False
    for line in lines:
        if goes_on:
            code.append("")
        elif (command := _command(line)) is not None and not _unfinished(code):
            code.append(command)
        else:
            code.append(line)
            continue
        goes_on = line.endswith("\\")
    return code


def _command(line: str) -> str | None:
    """Python in place of a line of IPython; None for a line that is none, if it begins a statement."""
    if assigned := _ASSIGNED.match(line):
        return f"{assigned['target']}get_ipython()"  # a value about which nothing is known
    if _COMMAND.match(line):
        return f"{line[: len(line) - len(line.lstrip())]}pass"
    return None


def _unfinished(lines: list[str]) -> bool:
    """Whether a statement goes on behind these lines: in brackets, in a text over several lines, behind a backslash."""
    if lines and lines[-1].endswith("\\"):
        return True
    try:
        for _ in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
            pass
    except tokenize.TokenError:
        return True
    except SyntaxError:  # an indentation that fits nothing; told when the module is parsed
        return False
    return False
