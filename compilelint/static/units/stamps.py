"""What tells from outside that nobody has written to a file."""

from __future__ import annotations

import os
from pathlib import Path

SETTLED_NS = 3 * 10**9
"""A file that was written less long ago may be written once more within what its file system tells times apart by."""


def stamp_of(path: str, started: int) -> str:
    """What tells a file from any that was written since, as git does: where it lies, its size and its times.

    "" for one that was written about when the run started, in nanoseconds: another one may have the same times. Only
    where a file has a time that nobody can set.
    """
    if os.name != "posix":
        return ""
    try:
        status = Path(path).stat()
    except OSError:
        return ""
    if max(status.st_mtime_ns, status.st_ctime_ns) > started - SETTLED_NS:
        return ""
    times = status.st_mtime_ns, status.st_ctime_ns
    return " ".join(map(str, (status.st_dev, status.st_ino, status.st_size, *times)))
