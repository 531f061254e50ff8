"""Where lines end: as Python counts them, at `\\n`, `\\r\\n` and `\\r`; form feeds and Unicode separators end none."""

from __future__ import annotations

import re

_END = r"\r\n|\r|\n"


def split_lines(text: str) -> list[str]:
    """Lines without their ends."""
    return re.split(_END, text)


def line_starts(text: str, end: str = _END) -> list[int]:
    """The 0-based offset of each line's first character; `end` is a pattern of what ends a line."""
    return [0, *(match.end() for match in re.finditer(end, text))]
