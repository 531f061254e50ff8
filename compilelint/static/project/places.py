"""Where syntax nodes stand, as findings count: 1-based lines, and columns in code points."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

from compilelint.model import Span
from compilelint.static.project.index import ModuleIndex


def span_of(node: ast.expr | ast.stmt, module: ModuleIndex) -> Span:
    """A node's place in code points. A compound statement is marked by its header only."""
    end_line, end_byte = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    body = getattr(node, "body", None)
    if isinstance(node, ast.stmt) and isinstance(body, list) and body and body[0].lineno > node.lineno:
        end_line, end_byte = node.lineno, len(module.lines[node.lineno - 1].encode())
    return Span(
        node.lineno,
        _column(module.lines[node.lineno - 1], node.col_offset),
        end_line,
        _column(module.lines[end_line - 1], end_byte),
    )


def shown(path: Path, base: Path) -> str:
    """A path as findings show it: relative to the working directory `base` where it lies inside."""
    text, above = path.as_posix(), f"{base.as_posix()}/"
    if text.startswith(above):
        return text[len(above) :]
    try:
        return path.relative_to(base).as_posix()
    except ValueError:
        return path.as_posix()


def real_paths() -> Callable[[Path], Path]:
    """What tells the real path of a file, as `Path.resolve` does, for many: that of a folder is asked for once."""
    folders: dict[str, Path] = {}

    def real_folder(folder: str) -> Path:
        if folder not in folders:
            above, name = os.path.split(folder)
            by_itself = os.name != "posix" or name in ("", "..") or Path(folder).is_symlink()
            folders[folder] = Path(folder).resolve() if by_itself else real_folder(above) / name
        return folders[folder]

    def real_path(file: Path) -> Path:
        if file.is_symlink():
            return file.resolve()
        folder, name = os.path.split(file)
        real = real_folder(folder)
        return file if str(real) == folder else real / name

    return real_path


def _column(line: str, byte: int) -> int:
    """1-based code point column of a 0-based UTF-8 byte offset."""
    return byte + 1 if line.isascii() else len(line.encode()[:byte].decode(errors="ignore")) + 1
