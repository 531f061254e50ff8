"""`check --fix` and `check --diff`: make the fixes, or show them."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from compilelint.command.output import write_stdout
from compilelint.fix.apply import Change, LeftAloneError, changes, write
from compilelint.model import Report
from compilelint.report.tally import plural
from compilelint.source import Sources

MOST_PASSES = 10
"""Fixes that overlap are made one pass after the other; a rule that undoes another's fix must not go on for ever."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")
"""A line with its end as the file has it, so that the diff can be applied to the file."""

Stamp = tuple[int, int, int]


def show(report: Report, sources: Sources, *, unsafe: bool) -> int:
    """Print what the fixes would change as a unified diff; 1 if that is anything, else 0."""
    made = changes(report.findings, sources, unsafe=unsafe)
    for change in made:
        before, after = _LINE.findall(change.before), _LINE.findall(change.after)
        for line in difflib.unified_diff(before, after, f"a/{change.path}", f"b/{change.path}"):
            write_stdout(line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n")
    count = _fixed(made)
    more = 0 if unsafe else _fixed(changes(report.findings, sources, unsafe=True)) - count
    rest = f"; {more} more with --unsafe-fixes" if more else ""
    print(f"compilelint: {_told(count, len(made), 'would fix')}{rest}", file=sys.stderr)
    return int(bool(made))


def _fixed(made: Iterable[Change]) -> int:
    return sum(change.fixed for change in made)


def fix(
    check: Callable[[Sources], Report], files: Iterable[Path], cwd: Path, *, unsafe: bool
) -> tuple[Report, Sources]:
    """Fix and check again until nothing more can be fixed: the report of what remains, and the sources as they are."""
    files = tuple(files)
    left: set[str] = set()
    touched: set[str] = set()
    fixed = 0
    for _ in range(MOST_PASSES):
        stamps = {file: _stamp(file) for file in files}
        sources = Sources(cwd)
        report = check(sources)
        progress = 0
        for change in changes(report.findings, sources, unsafe=unsafe):
            file = Path(os.path.normpath(cwd / change.path))
            if change.path in left or file not in stamps:
                continue
            try:
                if _stamp(file) != stamps[file]:
                    raise LeftAloneError("changed while it was being checked, left alone; run again")
                write(change, file)
            except LeftAloneError as reason:
                left.add(change.path)
                print(f"compilelint: {change.path}: {reason}", file=sys.stderr)
                continue
            touched.add(change.path)
            progress += change.fixed
        fixed += progress
        if not progress:
            break
    else:
        sources = Sources(cwd)
        report = check(sources)
    print(f"compilelint: {_told(fixed, len(touched), 'fixed')}", file=sys.stderr)
    return report, sources


def _told(fixed: int, files: int, verb: str) -> str:
    return f"{verb} {plural(fixed, 'finding')} in {plural(files, 'file')}" if fixed else f"{verb} nothing"


def _stamp(file: Path) -> Stamp:
    """What differs once a file has been written to; zeroes where it is gone."""
    try:
        status = file.stat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
