"""A file's bytes -> its index, or why it cannot be read."""

from __future__ import annotations

import io
import sys
import tokenize
from pathlib import Path

from compilelint.notebook import Notebook, NotebookError, is_notebook
from compilelint.static.project.bodies import Outline
from compilelint.static.project.index import ModuleIndex, index_source


class ReadError(Exception):
    """A file that cannot be read or parsed. `line` is 1-based, or None."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def read_module(path: Path, name: str) -> ModuleIndex:
    """Read and index one file. Raises ReadError with a one-line message for what cannot be decoded or parsed."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}") from error
    return parse_module(data, path, name)


def parse_module(data: bytes, path: Path, name: str, outline: Outline | None = None) -> ModuleIndex:
    """As `read_module`, for bytes that have been read from `path` already; for `outline` see `index_source`."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        source = _NEWLINES.decode(data.decode(encoding), final=True)
        if is_notebook(path):
            source = Notebook(source).code
    except NotebookError as error:
        raise ReadError(str(error), error.line) from None
    except (SyntaxError, UnicodeDecodeError) as error:  # what tokenize says of bytes, or of a coding comment
        raise ReadError("not UTF-8, nor what a coding comment in its first two lines says; save it as UTF-8") from error
    try:
        return index_source(path, name, path.name == "__init__.py", source, outline)
    except SyntaxError as error:
        running = ".".join(map(str, sys.version_info[:2]))  # whose syntax is read: of later ones there is more
        raise ReadError(f"not valid Python {running}: {error.msg}", error.lineno) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ReadError(f"cannot be parsed: {error}") from error


_NEWLINES = io.IncrementalNewlineDecoder(None, translate=True)
