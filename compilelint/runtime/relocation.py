"""Where the files of a trace from another machine, or from another day, are here; and which of its lines still hold.

A trace quotes the source lines it speaks of. A file that lies elsewhere there is the linted file whose path ends as its
path does, if there is only one and quoted lines are in it. What is about a line that reads differently now is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from compilelint.model import Evidence, TargetRun
from compilelint.runtime.frames import definition_line

Quotes = Mapping[str, Mapping[int, str]]
"""By path and line, the text that a trace quotes, without its indentation."""


class Relocation:
    """Places what a trace says on the files that are linted."""

    def __init__(self, files: Iterable[Path], quotes: Quotes) -> None:
        self._files = [file.as_posix() for file in files]
        self._quotes = quotes
        self._known: dict[str, str] = {}
        self._lines: dict[str, list[str]] = {}
        self.changed = 0
        """How many observations were left out because their line reads differently now."""

    def relocate(self, run: TargetRun) -> TargetRun:
        """The run with its paths as they are here; what cannot be placed keeps the path it came with."""
        evidence = tuple(placed for item in run.evidence if (placed := self._evidence(item)) is not None)
        self.changed += len(run.evidence) - len(evidence)
        return replace(run, evidence=evidence, traced=self._traced(run.traced))

    def path(self, path: str) -> str:
        """The path that this file has here."""
        if path not in self._known:
            self._known[path] = path if Path(path).is_file() else self._linted(path) or path
        return self._known[path]

    def _linted(self, path: str) -> str | None:
        scores = {file: _shared_end(file, path) for file in self._files}
        best = max(scores.values(), default=0)
        if best == 0:
            return None
        here = [file for file, score in scores.items() if score == best]
        quoted = self._quotes.get(path, {})
        if quoted:
            here = [file for file in here if any(self._line(file, number) == text for number, text in quoted.items())]
        elif best == 1:  # a bare file name, and nothing that speaks for it
            return None
        return here[0] if len(here) == 1 else None

    def _evidence(self, item: Evidence) -> Evidence | None:
        if not self._holds(item.path, item.line):
            return None
        path = self.path(item.path)
        stack = tuple(
            replace(step, path=self.path(step.path)) for step in item.stack if self._holds(step.path, step.line)
        )
        line = item.line if item.stack else definition_line(path, item.line)
        return replace(item, path=path, line=line, stack=stack)

    def _traced(self, traced: Mapping[str, frozenset[int]]) -> dict[str, frozenset[int]]:
        here: dict[str, frozenset[int]] = {}
        for path, lines in traced.items():
            holding = frozenset(line for line in lines if self._holds(path, line))
            here[self.path(path)] = here.get(self.path(path), frozenset()) | holding
        return here

    def _holds(self, path: str, line: int) -> bool:
        """Whether the line reads as the trace quotes it. Nothing is held against files and lines that can't be told."""
        quoted = self._quotes.get(path, {}).get(line)
        here = self.path(path)
        return quoted is None or not Path(here).is_file() or self._line(here, line) == quoted

    def _line(self, path: str, number: int) -> str:
        """A line without its indentation; nothing where there is none."""
        if path not in self._lines:
            try:
                text = Path(path).read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            self._lines[path] = text.splitlines()
        lines = self._lines[path]
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _shared_end(first: str, second: str) -> int:
    """How many components two paths have in common at their end."""
    count = 0
    for one, other in zip(reversed(_parts(first)), reversed(_parts(second)), strict=False):
        if one != other:
            break
        count += 1
    return count


def _parts(path: str) -> Sequence[str]:
    return path.replace("\\", "/").split("/")
