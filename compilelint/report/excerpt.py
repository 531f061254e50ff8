"""Source excerpts for the terminal: the lines around a span, with the span underlined."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.syntax import Syntax
from rich.text import Text

from compilelint.model import Span
from compilelint.source import Sources

MOST_LINES = 5
TAB = 4


class Excerpt:
    """Cuts excerpts of at most `room` terminal columns out of `sources`."""

    def __init__(self, sources: Sources, room: int, colour: bool) -> None:
        self._sources = sources
        self._room = max(room, 20)
        self._syntax = Syntax("", "python", theme="ansi_dark", background_color="default") if colour else None

    def lines(self, span: Span, path: str, style: str) -> Iterator[Text]:
        """The line before the span, then the span's own lines, each with a line of marks below it."""
        before = self._sources.line(path, span.line - 1)
        if not self._sources.line(path, span.line):
            return
        yield _gutter()
        cell, number = self._sources.cell_line(path, span.line)
        if before.strip() and self._sources.cell_line(path, span.line - 1)[0] == cell:
            yield _gutter(number - 1).append_text(self._show(*self._window(before, 0)))
        last = max(span.line, span.end_line)
        shown = range(span.line, last + 1)
        if len(shown) > MOST_LINES:
            yield from self._marked(path, span, range(span.line, span.line + MOST_LINES - 2), style)
            yield Text("…".rjust(4) + " ", "dim")
            shown = range(last, last + 1)
        yield from self._marked(path, span, shown, style)

    def _marked(self, path: str, span: Span, numbers: range, style: str) -> Iterator[Text]:
        for number in numbers:
            line = self._sources.line(path, number)
            start = span.column - 1 if number == span.line else len(line) - len(line.lstrip())
            end = span.end_column - 1 if number == span.end_line else len(line.rstrip())
            text, cut = self._window(line, start)
            code = self._show(text, cut)
            if cut + len(text) < len(line):
                code.append("…", "dim")
            yield _gutter(self._sources.cell_line(path, number)[1]).append_text(code)
            start, end = max(start - cut, 0), min(end - cut, len(text))
            lead = cell_len(_expanded(text[:start])) + (1 if cut else 0)
            marks = max(cell_len(_expanded(text[:end])) + (1 if cut else 0) - lead, 1)
            yield _gutter().append(" " * lead).append("^" * marks, style)

    def _window(self, line: str, start: int) -> tuple[str, int]:
        """What of a line too long for the terminal is shown, and how many characters are cut off on its left."""
        if cell_len(_expanded(line)) <= self._room:
            return line, 0
        cut = max(0, start - self._room // 3) if start > self._room * 2 // 3 else 0
        return line[cut : cut + self._room - 2], cut

    def _show(self, text: str, cut: int) -> Text:
        shown = _expanded(text)
        code = self._syntax.highlight(shown) if self._syntax else Text(shown)
        code.rstrip()
        return Text.assemble(("…" if cut else "", "dim"), code)


def _gutter(number: int | None = None) -> Text:
    return Text.assemble((f"{'' if number is None else number:>4} │ ", "dim"))


def _expanded(text: str) -> str:
    """Tabs as spaces, and other control characters as nothing, so that columns are what they seem."""
    return "".join(char if char.isprintable() else "" for char in text.expandtabs(TAB))
