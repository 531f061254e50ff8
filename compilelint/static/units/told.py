"""Transcripts of functions as an entry of the cache keeps them: compressed, and one text for each function.

Few of them are ever looked at: only those of a function that was edited, see `tracer.transcripts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

LEVEL = 1
"""Of compression: transcripts repeat themselves so much that more of it saves little."""


def text_of(path: str, name: str, told: dict[str, Any]) -> str:
    """What is kept of one function of a file."""
    return f"{_key(path, name)}{json.dumps(told, separators=(',', ':'))}"


def packed(texts: Iterable[str]) -> bytes:
    """The texts for an entry."""
    import zlib

    text = "\n".join(texts)
    return zlib.compress(text.encode(errors="surrogateescape"), LEVEL) if text else b""


def found_in(data: bytes, path: str, name: str) -> str | None:
    """The text about a function, without its name; None where nothing is told of it or the data are damaged."""
    import zlib

    try:
        texts = zlib.decompress(data).decode(errors="surrogateescape") if data else ""
    except (zlib.error, ValueError):
        return None
    key = _key(path, name)
    start = texts.find(key) if texts.startswith(key) else texts.find(f"\n{key}") + 1
    return texts[start:].partition("\n")[0].removeprefix(key) if texts.startswith(key, start) else None


def replaced(data: bytes, texts: Mapping[tuple[str, str], str]) -> bytes:
    """`packed`, with other texts about some functions, by path and name; they may be the same."""
    import zlib

    keys = [_key(*place) for place in texts]
    lines = zlib.decompress(data).decode(errors="surrogateescape").split("\n") if data else []
    kept = [line for line in lines if not line.startswith(tuple(keys))]
    return packed([*kept, *(f"{key}{text}" for key, text in zip(keys, texts.values(), strict=True))])


def _key(path: str, name: str) -> str:
    return f"{json.dumps([path, name])} "
