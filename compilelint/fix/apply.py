"""From edits to changed text, and from changed text to the file, in one step that either happens or does not."""

from __future__ import annotations

import ast
import io
import os
import shutil
import tempfile
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compilelint.lines import line_starts
from compilelint.model import Edit, Finding, Fix, Span
from compilelint.notebook import Cell, Notebook, is_notebook
from compilelint.source import Sources


class LeftAloneError(Exception):
    """A file that was not changed; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Change:
    """What fixes make of one file (of a notebook: of its JSON). `fixed` counts the findings whose fix is in `after`."""

    path: str
    before: str
    after: str
    fixed: int


def changes(findings: Iterable[Finding], sources: Sources, *, unsafe: bool) -> tuple[Change, ...]:
    """One change per file that has a fix of a wanted safety, by path. Of fixes that overlap the first is made."""
    wanted: dict[str, list[Fix]] = {}
    for finding in findings:
        fix = next((fix for fix in finding.fixes if unsafe or fix.safety == "safe"), None)
        if fix is not None:
            wanted.setdefault(finding.path, []).append(fix)
    made = []
    for path, fixes in sorted(wanted.items()):
        notebook = sources.notebook(path)
        before = sources.text(path) if notebook is None else notebook.raw
        after, fixed = fixed_text(before, fixes) if notebook is None else fixed_notebook(notebook, fixes)
        made.append(Change(path, before, after, fixed))
    return tuple(made)


def fixed_notebook(notebook: Notebook, fixes: Sequence[Fix]) -> tuple[str, int]:
    """As `fixed_text`, for the file of a notebook. No fix goes from one cell to the next."""
    by_cell: dict[Cell, list[Fix]] = {}
    for fix in fixes:
        cell = notebook.cell_at(fix.edits[0].span.line)
        assert cell is not None
        by_cell.setdefault(cell, []).append(_moved_up(fix, cell.first - 1))
    sources, count = {}, 0
    for cell, inside in by_cell.items():
        sources[cell.number], fixed = fixed_text(cell.source, inside)
        count += fixed
    return notebook.with_sources(sources), count


def _moved_up(fix: Fix, lines: int) -> Fix:
    edits = []
    for edit in fix.edits:
        span = replace(edit.span, line=edit.span.line - lines, end_line=edit.span.end_line - lines)
        edits.append(replace(edit, span=span))
    return replace(fix, edits=tuple(edits))


def fixed_text(text: str, fixes: Sequence[Fix]) -> tuple[str, int]:
    """The text with the fixes made, and how many were: one that overlaps an earlier one in the text is not."""
    starts = line_starts(text)
    done: list[tuple[int, int]] = []
    made: list[tuple[int, int, str]] = []
    count = 0
    for fix in sorted(fixes, key=lambda fix: [_order(edit) for edit in fix.edits]):
        places = [(*_offsets(edit.span, starts), edit.replacement) for edit in fix.edits]
        if any(_overlap(place[:2], other) for place in places for other in done):
            continue
        done += [place[:2] for place in places]
        made += places
        count += 1
    for start, end, replacement in sorted(made, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text, count


def _order(edit: Edit) -> tuple[int, int]:
    return edit.span.line, edit.span.column


def _offsets(span: Span, starts: Sequence[int]) -> tuple[int, int]:
    """0-based start and end of a span in the whole text."""
    return starts[span.line - 1] + span.column - 1, starts[span.end_line - 1] + span.end_column - 1


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two stretches share text; two insertions at one place do as well."""
    return one == other or (one[0] < other[1] and other[0] < one[1])


def write(change: Change, file: Path) -> None:
    """Put `change.after` in place of `file`, keeping its encoding, byte-order mark and mode.

    Raises LeftAloneError if the file no longer holds `change.before`, if the result would not be Python, or if it
    cannot be written.
    """
    file = file.resolve()  # a link stays one
    try:
        data = file.read_bytes()
        encoding = "utf-8" if is_notebook(file) else tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        if data.decode(encoding) != change.before:
            raise LeftAloneError("changed while it was being checked, left alone; run again")
        ast.parse(Notebook(change.after).code if is_notebook(file) else change.after)
        replacement = change.after.encode(encoding)
    except (UnicodeError, SyntaxError, ValueError) as error:
        raise LeftAloneError(f"cannot be fixed without damage, left alone: {error}") from None
    except OSError as error:
        raise LeftAloneError(f"cannot be read: {error.strerror or error}") from None
    if not os.access(file, os.W_OK):
        raise LeftAloneError("is read-only, left alone")
    try:
        _replace(file, replacement)
    except OSError as error:
        raise LeftAloneError(f"cannot be written: {error.strerror or error}") from None


def _replace(file: Path, data: bytes) -> None:
    """Write beside the file and move into place: whoever reads meanwhile sees all of the old or all of the new."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        shutil.copymode(file, beside)
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
