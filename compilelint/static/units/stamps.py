"""What is in files, told without reading those that nobody has written to since the last run."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from compilelint.notebook import is_notebook
from compilelint.static.project.text import digest_of

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
        status = os.stat(path)  # noqa: PTH116 - asked of thousands of files, and a Path takes longer than the answer
    except OSError:
        return ""
    if max(status.st_mtime_ns, status.st_ctime_ns) > started - SETTLED_NS:
        return ""
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


class Texts:
    """The contents of files by path, and which of them hold none of some `words`, which are in small letters."""

    def __init__(self, words: Collection[bytes]) -> None:
        self._words = words
        self._started = time.time_ns()
        self._digests: dict[str, str] = {}
        self._looks: dict[str, tuple[str, str]] = {}
        """Of files whose content was asked for, what they looked like from outside before that, and the content."""
        self.known: dict[str, tuple[str, str]] = {}
        """The same of files that the last run has read."""
        self.with_words: set[str] = set()
        """The files that may hold some of the words, those of the last run as well."""

    def digest(self, path: str) -> str:
        """What tells the content of a file from another; "" if it cannot be read."""
        if path not in self._digests:
            known, content = self.known.get(path, ("", ""))
            stamp = stamp_of(path, self._started)
            if not stamp or stamp != known:
                content = self._read(path)
            self._digests[path] = content
            self._looks[path] = stamp, content
        return self._digests[path]

    def note(self, path: str, digest: str) -> None:
        """Note the content of a file that was read elsewhere."""
        self._digests[path] = digest

    def stamp(self, path: str, content: str) -> str:
        """What a file of this content looks like from outside; "" where that is not sure.

        It is taken before the content is read, here or at the start of the run: what is written in between shows in
        the next run, whatever the clock of the file system says.
        """
        self.digest(path)
        stamp, was = self._looks.get(path, ("", ""))
        return stamp if was == content else ""

    def without_words(self) -> frozenset[str]:
        """The files that were asked for of which this run or the last one has seen that they hold none of the words."""
        return frozenset(self._looks.keys() - self.with_words)

    def _read(self, path: str) -> str:
        self.with_words.add(path)  # as far as is known
        try:
            data = Path(path).read_bytes()
        except OSError:
            return ""
        text = data.lower()
        if self._words and not any(word in text for word in self._words) and not is_notebook(path):
            self.with_words.discard(path)
        return digest_of(data)
