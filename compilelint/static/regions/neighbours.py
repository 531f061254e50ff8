"""Which files may lead to a line: those that name the function or class it stands in, and those that name these."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from compilelint.notebook import Notebook, NotebookError, is_notebook
from compilelint.static.project.naming import module_name
from compilelint.static.project.parsing import ReadError, read_module

MAX_FILES = 40
"""What names a common word (`forward`, `apply`) says little; no more files than these are read."""

Definition = tuple[str, int, int]
"""The name of a top-level function or class, its first and its last line, 1-based."""


def package_of(path: Path) -> Path:
    """The folder of the top-level package that a file belongs to; the file's own folder if it is a plain script."""
    name, root = module_name(path)
    return root / name.partition(".")[0] if "." in name or path.name == "__init__.py" else path.parent


def neighbours(path: Path, line: int, candidates: Iterable[Path]) -> list[Path]:
    """Those of `candidates` that may lead to the 1-based `line` of `path`, the nearest callers first.

    Told by their text, so that a large package costs little. Nothing if the line is in no function or class, or if
    `path` cannot be parsed.
    """
    texts = {other: _text(other) for other in {path, *candidates}}
    found = [path]
    names = {name for name, first, last in _definitions(path) if first <= line <= last}
    asked: set[str] = set()
    while names and len(found) <= MAX_FILES:
        word = re.compile(rb"\b(?:" + b"|".join(re.escape(name.encode()) for name in sorted(names)) + rb")\b")
        asked |= names
        hits = {other: _lines_with(word, texts[other]) for other in texts}
        news = [other for other, lines in hits.items() if lines and other not in found]
        found += sorted(news, key=partial(_distance, path))[: MAX_FILES + 1 - len(found)]
        names = {
            name
            for file in found
            for name, first, last in _definitions(file)
            if hits[file] & set(range(first, last + 1))
        } - asked
    return found[1:]


def _definitions(path: Path) -> list[Definition]:
    try:
        tree = read_module(path, path.stem).tree
    except ReadError:
        return []
    return [
        (node.name, node.lineno, node.end_lineno or node.lineno)
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]


def _text(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return Notebook(data.decode()).code.encode() if is_notebook(path) else data
    except (OSError, UnicodeDecodeError, NotebookError):
        return b""


def _lines_with(word: re.Pattern[bytes], text: bytes) -> set[int]:
    return {text.count(b"\n", 0, match.start()) + 1 for match in word.finditer(text)}


def _distance(path: Path, other: Path) -> tuple[int, Path]:
    return -len(Path(os.path.commonpath((path, other))).parts), other
