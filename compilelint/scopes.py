"""Where a line of a file is: in which function, and in which statement. Standard library `ast`, one parse per file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from compilelint.lines import split_lines
from compilelint.record import record
from compilelint.source import decode


@record(frozen=True, slots=True)
class Place:
    """What surrounds a line: the qualified function name, the statement's first and last line, and the line's text."""

    function: str
    statement: tuple[int, int]
    text: str


def place_at(path: str, line: int, function: str = "") -> Place:
    """What surrounds the 1-based `line`; for a file that can't be read or parsed, `function` and the line alone."""
    text, scopes, statements = _layout(path)
    inner = [name for first, last, name in scopes if first <= line <= last]
    spans = [span for span in statements if span[0] <= line <= span[1]]
    return Place(
        function=inner[-1] if inner else function,
        statement=min(spans, key=lambda span: span[1] - span[0], default=(line, line)),
        text=text[line - 1] if 0 < line <= len(text) else "",
    )


@lru_cache(maxsize=128)
def _layout(path: str) -> tuple[list[str], list[tuple[int, int, str]], list[tuple[int, int]]]:
    """The lines of a file; its scopes from outer to inner; its statements, compound ones by their head alone."""
    try:
        source = decode(Path(path).read_bytes())
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return [], [], []
    return (
        split_lines(source),
        list(_scopes(tree, "")),
        [_extent(node) for node in ast.walk(tree) if isinstance(node, ast.stmt)],
    )


def _scopes(node: ast.AST, outer: str) -> Iterator[tuple[int, int, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{outer}.{child.name}" if outer else child.name
            yield child.lineno, child.end_lineno or child.lineno, name
            yield from _scopes(child, name)
        else:
            yield from _scopes(child, outer)


def _extent(node: ast.stmt) -> tuple[int, int]:
    body = getattr(node, "body", None)
    last = node.end_lineno or node.lineno
    if isinstance(body, list) and body:
        last = max(node.lineno, min(last, body[0].lineno - 1))
    return node.lineno, last
