"""Where in the JSON text of a notebook the sources of its cells stand, character by character.

The standard library's parser says what a text means and not where it stood. What points into the file itself (SARIF,
annotations, git) and what changes one cell without touching the rest need the place.
"""

from __future__ import annotations

import json
import re
from dataclasses import field

from compilelint.record import record

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]', re.DOTALL)
"""What gives JSON its structure, and texts; numbers and literals are of no interest here."""
_CHARACTER = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]", re.DOTALL)
"""One character of a text: as itself, as an escape, or as the two escapes of one beyond the basic plane."""


@record(slots=True)
class Source:
    """The source of one cell: 0-based start and end of its value in the file, and of what each text in it holds."""

    start: int
    end: int
    texts: list[tuple[int, int]] = field(default_factory=list)

    def characters(self, raw: str) -> list[tuple[int, int]]:
        """Start and end in `raw`, the text of the file, of each character of the source."""
        return [match.span() for start, end in self.texts for match in _CHARACTER.finditer(raw, start, end)]

    def written(self, source: str, raw: str) -> str:
        """Another source as a value in JSON, laid out and escaped as this one is in `raw`."""
        old = raw[self.start : self.end]
        ascii_only = old.isascii() and "\\u" in old
        if not old.startswith("["):
            return json.dumps(source, ensure_ascii=ascii_only)
        lines = [json.dumps(line, ensure_ascii=ascii_only) for line in source.splitlines(keepends=True)]
        if not lines:
            return "[]"
        before = raw[self.start + 1 : self.texts[0][0] - 1] if self.texts else ""
        after = raw[self.texts[-1][1] + 1 : self.end - 1] if self.texts else ""
        return f"[{before}{f',{before or chr(32)}'.join(lines)}{after}]"


def sources_in(raw: str) -> dict[int, Source]:
    """The source of each cell by the cell's number, from 1. `raw` is the text of a notebook, and valid JSON."""
    found: dict[int, Source] = {}
    path: list[int | str | None] = []
    """Where the walk is: for an array the position in it, for an object the key, or None where a key comes next."""
    for token in _TOKEN.finditer(raw):
        text = token[0]
        if text in "{[":
            if text == "[" and _is_source(path):
                found[_cell(path)] = Source(token.start(), token.end())
            path.append(None if text == "{" else 0)
        elif text in "}]":
            path.pop()
            if text == "]" and _is_source(path):
                found[_cell(path)].end = token.end()
        elif text == ",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else None
        elif path and path[-1] is None:
            path[-1] = json.loads(text)
        elif _is_source(path):
            found[_cell(path)] = Source(*token.span(), [(token.start() + 1, token.end() - 1)])
        elif _is_source(path[:-1]):
            found[_cell(path)].texts.append((token.start() + 1, token.end() - 1))
    return found


def _is_source(path: list[int | str | None]) -> bool:
    return len(path) == 3 and path[0] == "cells" and isinstance(path[1], int) and path[2] == "source"


def _cell(path: list[int | str | None]) -> int:
    position = path[1]
    assert isinstance(position, int)
    return position + 1
