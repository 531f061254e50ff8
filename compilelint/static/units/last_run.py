"""What a whole run gave, as one entry: all that the next run needs of the tasks that no change concerns.

That is a line with digests of what follows, a line about the run, one with what is kept of each task, and a line for
each finding. A finding is kept once, with the surest of the tasks that made it; the others have a claim to it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from sys import intern
from typing import Any

from compilelint.model import CONFIDENCES, Failure, Finding
from compilelint.record import record
from compilelint.static.flagging.combine import Claim, Key, claim_of, reported
from compilelint.static.project.text import digest_of
from compilelint.static.units.entries import entry_of_finding, finding_of
from compilelint.static.units.work import Outcome

_Numbers = dict[str, int]


@record(slots=True)
class Row:
    """What is kept of one task: its own `public`, which files it read and missed, and of its outcome all but texts."""

    public: list[str] | None
    read: Collection[str]
    absent: Collection[str]
    roots: tuple[str, ...]
    fallbacks: tuple[str, ...]
    unread: tuple[Failure, ...]
    entered: Collection[str]
    claims: Sequence[Claim]


def row_of(public: list[str] | None, outcome: Outcome, read: Collection[str]) -> Row:
    """The row of a task that gave an outcome. There may be hundreds that speak of the same files and functions."""
    claims = [*map(claim_of, outcome.findings)]
    entered = [*map(intern, outcome.entered)]
    about = (outcome.public, outcome.fallbacks, outcome.unread, entered, claims)
    return Row(public, [*map(intern, read)], [*map(intern, outcome.absent)], *about)


class LastRun:
    """What `written` has written. Raises ValueError, LookupError or TypeError for what is damaged.

    `names` are the functions of which the rows tell whether they were entered.
    """

    def __init__(self, data: bytes) -> None:
        digests, head, self._rows_line, self._finding_lines = data.split(b"\n", 3)
        self._digests = digests.split()
        if digest_of(head + self._finding_lines).encode() != self._digests[0]:
            raise ValueError
        about = json.loads(head)
        self.read: dict[str, str] = about["read"]
        self.stamps: dict[str, str] = about["stamps"]
        self.with_words: list[str] = about["with words"]
        self.absent: list[str] = about["absent"]
        self.entries: list[str] = about["entries"]
        self.names: frozenset[str] = frozenset()
        self._fallbacks = frozenset(about["fallbacks"])
        self._unread = tuple(Failure(*one) for one in about["unread"])
        self._findings: list[Finding] = []
        self._lines: list[bytes] = []
        self._rows: dict[str, Any] = {}
        self._tables: tuple[list[str], list[Claim]] = [], []
        self._paths = [*self.read]
        self._stale: frozenset[int] = frozenset()
        self._appeared: frozenset[int] = frozenset()

    def whole(self) -> Outcome:
        """What the run gave."""
        self._read_findings()
        return Outcome(reported(self._findings, self._fallbacks), unread=self._unread)

    def without(self, changed: Collection[str], appeared: Collection[str]) -> None:
        """Get ready to tell what tasks gave that read none of the `changed` files and missed none that `appeared`."""
        if digest_of(self._rows_line).encode() != self._digests[1]:
            raise ValueError
        about = json.loads(self._rows_line)
        self._read_findings()
        self._lines = self._finding_lines.split(b"\n") if self._finding_lines else []
        self._rows = dict(zip(self.entries, about["rows"], strict=True))
        self.names = frozenset(about["names"])
        self._tables = about["names"], [*map(claim_of, self._findings)]
        self._stale = frozenset(place for place, path in enumerate(self.read) if path in changed)
        self._appeared = frozenset(place for place, path in enumerate(self.absent) if path in appeared)

    def row(self, entry: str, public: list[str] | None) -> tuple[Row, Outcome] | None:
        """What a task gave, if nothing that it read has changed. Of the outcome's findings some are claims only."""
        if entry not in self._rows:
            return None
        was, read, absent, roots, fallbacks, unread, entered, own, *claims = self._rows[entry]
        if was != public or not self._stale.isdisjoint(read) or not self._appeared.isdisjoint(absent):
            return None
        names, keys = self._tables
        others = [(keys[place][0], sure) for sure, places in enumerate(claims) for place in places]
        row = Row(
            public,
            [self._paths[place] for place in read],
            [self.absent[place] for place in absent],
            tuple(roots),
            tuple(fallbacks),
            tuple(Failure(*one) for one in unread),
            [names[place] for place in entered],
            [*[keys[place] for place in own], *others],
        )
        findings = tuple(self._findings[place] for place in own)
        outcome = Outcome(findings, (), row.unread, row.fallbacks, frozenset(row.entered), row.roots)
        outcome.claims = tuple(others)
        return row, outcome

    def lines(self) -> dict[Key, tuple[Finding, bytes]]:
        """Each finding with its line."""
        pairs = zip(self._findings, self._lines, strict=bool(self._lines))  # none where `without` was not asked for
        return {claim_of(finding)[0]: (finding, line) for finding, line in pairs}

    def _read_findings(self) -> None:
        if self._finding_lines and not self._findings:
            listed = b"[%s]" % self._finding_lines.replace(b"\n", b",")
            self._findings = [finding_of(one) for one in json.loads(listed)]


def written(
    rows: Mapping[str, Row],
    findings: Mapping[Key, Finding],
    unread: Iterable[Failure],
    contents: Mapping[str, str],
    kept: Mapping[Key, tuple[Finding, bytes]],
    stamps: Mapping[str, str],
    with_words: Collection[str],
) -> bytes:
    """A run as `LastRun` reads it: what is kept of its tasks by the name of their entries, in their order, the surest
    findings, the files that could not be read, and the contents of all. `kept` are lines of findings,
    `stamps` tell by path that a file is the one that was read, for `with_words` see `Texts`."""
    absent = sorted({path for row in rows.values() for path in row.absent})
    names = sorted({name for row in rows.values() for name in row.roots})
    order = {key: place for place, key in enumerate(findings)}
    tables = _numbered(contents), _numbered(absent), _numbered(names)
    left = {key: claim_of(finding)[1] for key, finding in findings.items()}
    lines = [_line(finding, *kept.get(key, (None, b""))) for key, finding in findings.items()]
    head = {
        "read": dict(contents),
        "stamps": dict(stamps),
        "with words": sorted(with_words),
        "absent": absent,
        "entries": [*rows],
        "fallbacks": sorted({code for row in rows.values() for code in row.fallbacks}),
        "unread": [*map(_failure, unread)],
    }
    about = {"names": names, "rows": [_row(row, *tables, order, left) for row in rows.values()]}
    first, second = (json.dumps(line, separators=(",", ":")).encode() for line in (head, about))
    text = b"\n".join(lines)
    digests = f"{digest_of(first + text)} {digest_of(second)}".encode()
    return b"\n".join((digests, first, second, text))


def _row(
    row: Row, files: _Numbers, absent: _Numbers, names: _Numbers, order: Mapping[Key, int], left: dict[Key, int]
) -> list[Any]:
    """A row by places in the tables. Of the findings that are `left`, those that are as sure here are its own."""
    own: list[int] = []
    claims: list[list[int]] = [[] for _ in CONFIDENCES]
    for key, sure in row.claims:
        if left.get(key) == sure:
            own.append(order[key])
            del left[key]
        else:
            claims[sure].append(order[key])
    read = [files[path] for path in row.read]
    missed = [absent[path] for path in row.absent]
    entered = [names[name] for name in row.entered if name in names]
    unread = [*map(_failure, row.unread)]
    return [row.public, read, missed, row.roots, row.fallbacks, unread, entered, own, *claims]


def _numbered(items: Iterable[str]) -> _Numbers:
    return {item: place for place, item in enumerate(items)}


def _failure(failure: Failure) -> list[Any]:
    return [failure.path, failure.message, failure.line]


def _line(finding: Finding, known: Finding | None, line: bytes) -> bytes:
    return line if known is finding else json.dumps(entry_of_finding(finding), separators=(",", ":")).encode()
