"""Outcomes kept between runs, each with what it depends on.

An entry is one file: a line with the digests and sizes of the two parts that follow, these, which are compressed JSON,
and transcripts of functions, see `units.told`. The first part is the outcome, and the contents of the files that were
read; what was looked into of each is in the second, which is read where one has changed. An entry is written beside its
place and moved there, so that a reader sees a whole entry or none, whoever else writes and whenever a writer is killed.
An entry counts only while what was looked into of each file is the same, wherever in the file it stands (see
`parts.Parts`), and every file that was looked for in vain is still absent; what does not count, or cannot be read, is
as good as no entry.

What a whole run gave is an entry too, see `last_run`. It tells all that the next run needs of the tasks that no change
concerns: their own entries are not opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from compilelint.model import Failure, Finding
from compilelint.static.flagging.combine import Key, claim_of
from compilelint.static.project.places import shown
from compilelint.static.project.text import digest_of, names_digest
from compilelint.static.units.entries import entry_of, finding_of, outcome_of, reading_of
from compilelint.static.units.last_run import LastRun, Row, row_of, written
from compilelint.static.units.stamps import Texts
from compilelint.static.units.told import LEVEL, found_in, replaced
from compilelint.static.units.work import NAMES, Outcome, Reading, Task

if TYPE_CHECKING:
    from compilelint.static.project.answers import Answers
    from compilelint.static.project.bodies import Outline
    from compilelint.static.project.parts import Parts, Pattern
    from compilelint.static.units.retrial import Read

    Try = Callable[[str, str, str], Read | None]

MOST_BYTES = 128 * 1024 * 1024
"""When the entries take more than this, those that were used least recently go until half of it is free."""
_NO_ENTRY = (OSError, ValueError, LookupError, TypeError)
"""What reading an entry raises that is not there, damaged, or no longer what it was."""
TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache folder, see https://bford.info/cachedir/\n"


class Cache:
    """The entries in `folder`. `context` tells all that outcomes depend on besides files.

    `base` is the folder that paths of findings are relative to; `pattern` is for `parts.Parts`, `retrial` what
    `retrial.Retrial.read` does, `words` are for `Texts`. Where the folder cannot be written, nothing is kept.
    """

    def __init__(
        self, folder: Path, context: str, base: Path, pattern: Pattern, retrial: Try, words: Collection[bytes] = ()
    ) -> None:
        self._folder = folder
        self._context = context
        self._base = base
        self._pattern = pattern
        self._retrial = retrial
        self._tried: dict[tuple[str, str, str], Read | None] = {}
        self._parts: dict[str, Parts | None] = {}
        self._absent: dict[str, bool] = {}
        self._made = False
        self._rows: dict[str, Row] = {}
        self._as_before: set[str] = set()
        """The files that tasks have read of which the last run's entry tells."""
        self._read: dict[str, str] = {}
        self._steady = True
        self.texts = Texts(words)
        self.part_digests: dict[str, dict[str, str]] = {}
        """Those of parts of files that tasks looked into which are to be walked again, by content of the file."""
        self._last: LastRun | None = None

    def get(self, task: Task) -> Outcome | None:
        """The outcome that was kept for a task, if all it depends on is as it was. What was read is not told again.

        Of its findings some may be claims only, see `finding`.
        """
        place, public = self._place(task), _listed(task.public)
        try:
            last = self._last.row(place.name, public) if self._last is not None else None
            if self._last is not None and last is not None:
                os.utime(place)
                row, outcome = last
                self._rows[place.name] = row
                self._as_before.update(row.read)
                return outcome
            with place.open("rb") as file:
                sizes, entry, changed = self._opened(file)
                if entry["public"] != public:
                    return None
                if changed:
                    looked_into = _checked(file, *sizes[2:])
                    read = {path: reading_of(content, *looked_into[path]) for path, content in entry["read"].items()}
                    kept = outcome_of(entry, read, file.read())
                    return self._as_it_is(task, kept, changed)
            os.utime(place)
            outcome = outcome_of(entry, {}, b"")
            self._note(place, row_of(public, outcome, entry["read"]), entry["read"])
            return outcome
        except _NO_ENTRY:
            return None

    def _as_it_is(self, task: Task, kept: Outcome, changed: list[str]) -> Outcome | None:
        """What was kept for a task with the lines as they are now, if the files that have changed give the same."""
        edited: dict[tuple[str, str], Read] = {}
        if not all(self._same(path, kept, edited) for path in changed):
            for one in kept.read.values():
                self.part_digests.setdefault(one.content, {}).update(one.parts)
            return None
        outcome = self._moved(kept, changed, edited)
        self._keep(task, outcome)
        return outcome

    def last_run(self, entry_points: tuple[str, ...]) -> Outcome | None:
        """What all tasks together gave, see `keep_run`, if none of the files that they read has changed.

        Where some have, `get` makes use of it for the other tasks.
        """
        place = self._place(Task((), entry_points), "run")
        try:
            last = LastRun(place.read_bytes())
            self.texts.known = {path: (stamp, last.read[path]) for path, stamp in last.stamps.items()}
            self.texts.with_words.update(last.with_words)
            changed = {path for path, content in last.read.items() if self.texts.digest(path) != content}
            appeared = {path for path in last.absent if not self._is_absent(path)}
            if changed or appeared:
                last.without(changed, appeared)
                self._last = last
                return None
            outcome = last.whole()
        except _NO_ENTRY:
            return None
        for name in (place.name, self._outlines_place.name, *last.entries):
            with suppress(OSError):  # another run has just removed it
                os.utime(self._folder / name)
        return outcome

    def knows(self, names: Iterable[str]) -> bool:
        """Whether the outcomes that `get` gave tell of each of these functions whether they were entered."""
        return self._last is None or self._last.names.issuperset(names)

    def finding(self, task: Task, wanted: Key) -> Finding:
        """A finding that a task has a claim to. Raises LookupError where its entry is gone."""
        try:
            with self._place(task).open("rb") as file:
                _, entry, changed = self._opened(file)
            return next(
                found for found in map(finding_of, entry["findings"]) if not changed and claim_of(found)[0] == wanted
            )
        except (*_NO_ENTRY, StopIteration) as error:
            raise LookupError(task) from error

    def forget_last_run(self) -> None:
        """Open the entries of all tasks from here on."""
        self._last = None
        self._rows.clear()
        self._as_before.clear()

    def _opened(self, file: BinaryIO) -> tuple[list[bytes], dict[str, Any], list[str]]:
        """The first line of an entry, its outcome, and the files that have changed since. Raises one of `_NO_ENTRY`."""
        sizes = file.readline().split()
        entry = _checked(file, *sizes[:2])
        if not all(map(self._is_absent, entry["absent"])):
            raise LookupError
        return sizes, entry, [path for path, content in entry["read"].items() if self.texts.digest(path) != content]

    def _note(self, place: Path, row: Row, contents: Mapping[str, str]) -> None:
        """Note for `keep_run` what was used in this run."""
        self._rows[place.name] = row
        self._note_contents(contents)

    def _note_contents(self, contents: Mapping[str, str]) -> None:
        for path, content in contents.items():
            self._steady &= self._read.setdefault(path, content) == content

    def put(self, task: Task, outcome: Outcome) -> None:
        """Keep an outcome, unless the pass itself failed in it."""
        if not outcome.failures:
            self._keep(task, outcome)

    def _keep(self, task: Task, outcome: Outcome) -> None:
        place, public = self._place(task), _listed(task.public)
        entry = {"public": public, **entry_of(outcome)}
        looked_into = {path: [one.parts, list(one.anchors.items())] for path, one in outcome.read.items()}
        parts = [*map(_compressed, (entry, looked_into))]
        about = " ".join(f"{digest_of(part)} {len(part)}" for part in parts)
        self._store(place, b"".join((f"{about}\n".encode(), *parts, outcome.told)))
        self._note(place, row_of(public, outcome, entry["read"]), entry["read"])

    def keep_run(
        self,
        entry_points: tuple[str, ...],
        tasks: Iterable[Task],
        findings: Mapping[Key, Finding],
        unread: tuple[Failure, ...],
    ) -> None:
        """Keep what all tasks together gave, of which none failed; of the findings for each place the surest.

        Not where a file has changed meanwhile: some of them have seen it as it was, others as it is.
        """
        if self._last is not None:
            self._note_contents({path: self._last.read[path] for path in self._as_before})
        names = [self._place(task).name for task in tasks]
        if self._steady and self._rows.keys() >= {*names}:
            rows = {name: self._rows[name] for name in names}
            kept = self._last.lines() if self._last is not None else {}
            place = self._place(Task((), entry_points), "run")
            stamps = {path: stamp for path, text in self._read.items() if (stamp := self.texts.stamp(path, text))}
            with_words = self.texts.with_words & self._read.keys()
            self._store(place, written(rows, findings, unread, self._read, kept, stamps, with_words))

    def outlines(self) -> tuple[dict[str, Outline], dict[str, Answers]]:
        """The outlines of files that were kept, by content, and what is known of these files.

        Both are right whatever has changed.
        """
        place = self._outlines_place
        try:
            with place.open("rb") as file:
                found = _checked(file, *file.readline().split())
            os.utime(place)
            questions = found["questions"]
            answers = {
                content: {questions[number]: answer for number, answer in zip(*known, strict=True)}
                for content, known in found["answers"].items()
            }
            return found["outlines"], answers
        except _NO_ENTRY:
            return {}, {}

    def keep_outlines(self, new: Mapping[str, Outline], answers: Mapping[str, Answers]) -> None:
        """Keep outlines too that are new, and of all those of the files that were read in this run.

        What is known of these files is kept with them.
        """
        read = {*self._read.values()}
        if read.isdisjoint(new):
            return
        before, known = self.outlines()
        outlines = {content: outline for content, outline in {**before, **new}.items() if content in read}
        known = {content: {**known.get(content, {}), **answers.get(content, {})} for content in outlines}
        questions = sorted({question for about in known.values() for question in about})
        numbers = {question: number for number, question in enumerate(questions)}
        kept = {content: [[*map(numbers.get, about)], [*about.values()]] for content, about in known.items()}
        part = _compressed({"outlines": outlines, "questions": questions, "answers": kept})
        self._store(self._outlines_place, f"{digest_of(part)} {len(part)}\n".encode() + part)

    @property
    def _outlines_place(self) -> Path:
        return self._place(Task(()), "outlines")

    def _store(self, place: Path, data: bytes) -> None:
        with suppress(OSError):
            self._make_folder()
            _write(place, data)

    def trim(self) -> None:
        """Remove what was used least recently where the entries have grown too many, and what a killed run left."""
        entries = sorted(_entries(self._folder), key=lambda entry: entry[0], reverse=True)
        total = 0
        full = sum(size for _, size, _ in entries) > MOST_BYTES
        for _, size, path in entries:
            total += size
            if full and total > MOST_BYTES // 2:
                path.unlink(missing_ok=True)

    def _place(self, task: Task, which: str = "") -> Path:
        which = which or ("regions" if task.public is None else "public")
        key = "\0".join((self._context, which, *task.modules, "", *task.entry_points))
        return self._folder / f"{digest_of(key.encode(errors='surrogateescape'))}.json"

    def _same(self, path: str, kept: Outcome, edited: dict[tuple[str, str], Read]) -> bool:
        """Whether a file that has changed is the same in the parts that were looked into, or gives the same.

        `edited` gets its functions of which that is known, by path and name.
        """
        parts = kept.read[path].parts
        if NAMES in parts:
            return self._names(path) == parts[NAMES]
        now = self._parts_now(path) if parts else None
        if now is None:
            return False
        from compilelint.static.project.parts import function_of

        changed = [part for part, digest in parts.items() if now.digest(part, self._pattern) != digest]
        for name in sorted(set(map(function_of, changed))):
            read = self._gives_the_same(path, name, kept)
            if read is None:
                return False
            edited[path, name] = read
        return True

    def _gives_the_same(self, path: str, name: str, kept: Outcome) -> Read | None:
        """What was read for a function that has changed, if it gives what it gave; None if that is not known."""
        text = found_in(kept.told, path, name)
        if text is None:
            return None
        anchored = {line: at for line, (part, at) in kept.read[path].anchors.items() if part == f"body {name}"}
        if anchored and not self._are_calls(anchored, path, kept):
            return None
        key = (path, name, text)
        if key not in self._tried:
            self._tried[key] = self._retrial(path, name, text)
        now = self._tried[key]
        same = now is not None and now.is_part_of(kept.read, kept.absent, name)
        return now if now is not None and same and now.lines.keys() >= {*anchored.values()} else None

    def _are_calls(self, lines: Iterable[int], path: str, kept: Outcome) -> bool:
        """Whether findings name these lines of a file as places of calls only."""
        from compilelint.static.units.reading import lines_of_hits

        return lines_of_hits(kept.findings, shown(Path(path), self._base)).isdisjoint(lines)

    def _parts_now(self, path: str) -> Parts | None:
        from compilelint.static.units.reading import parts_now  # with all that the tracer needs

        if path not in self._parts:
            data = Path(path).read_bytes()
            self._parts[path] = parts_now(data, Path(path))
            self.texts.note(path, digest_of(data))
        return self._parts[path]

    def _moved(self, outcome: Outcome, changed: list[str], edited: Mapping[tuple[str, str], Read]) -> Outcome:
        """An outcome with the lines of the changed files where they are now; what is `edited` gives the same."""
        from compilelint.static.project.parts import function_of
        from compilelint.static.units.reading import moved

        read = dict(outcome.read)
        lines: dict[str, dict[int, int]] = {}
        for path in changed:
            now, anchors = {}, {}
            for line, (part, number) in read[path].anchors.items():
                again = edited.get((path, function_of(part)))
                now[line] = self._line(path, (part, number)) if again is None else again.lines[number]
                anchors[now[line]] = self._anchor(path, now[line])
            read[path] = Reading(self.texts.digest(path), self._digests_now(path, read[path].parts), anchors)
            lines[shown(Path(path), self._base)] = now
        findings = tuple(moved(finding, lines) for finding in outcome.findings)
        told = (
            replaced(outcome.told, {place: again.told for place, again in edited.items()}) if edited else outcome.told
        )
        return replace(outcome, findings=findings, read=read, told=told)

    def _digests_now(self, path: str, parts: dict[str, str]) -> dict[str, str]:
        """The same parts as they are now: another body may give the same."""
        now = None if NAMES in parts else self._parts_now(path)
        return parts if now is None else {part: now.digest(part, self._pattern) for part in parts}

    def _line(self, path: str, anchor: tuple[str, int]) -> int:
        parts = self._parts_now(path)
        if parts is None:
            raise LookupError(path)
        return parts.line(anchor)

    def _anchor(self, path: str, line: int) -> tuple[str, int]:
        parts = self._parts_now(path)
        anchor = parts.anchor(line) if parts is not None else None
        if anchor is None:
            raise LookupError(path)
        return anchor

    def _names(self, path: str) -> str:
        try:
            return names_digest(Path(path).read_bytes())
        except OSError:
            return ""

    def _is_absent(self, path: str) -> bool:
        if path not in self._absent:
            self._absent[path] = not Path(path).is_file()
        return self._absent[path]

    def _make_folder(self) -> None:
        if not self._made:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", TAG)):
                if not (self._folder / name).exists():
                    _write(self._folder / name, text.encode())
            self._made = True


def _entries(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each entry was used last, its size in bytes, and its path."""
    try:
        found = list(os.scandir(folder))
    except OSError:
        return
    for entry in found:
        try:
            status = entry.stat()
        except OSError:  # another run has just removed it
            continue
        if entry.name.endswith((".json", ".new")):
            yield status.st_mtime, status.st_size, Path(entry.path)


def _write(place: Path, data: bytes) -> None:
    import tempfile

    handle, temporary = tempfile.mkstemp(suffix=".new", dir=place.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    Path(temporary).replace(place)


def _compressed(part: dict[str, Any]) -> bytes:
    import zlib

    return zlib.compress(json.dumps(part, separators=(",", ":")).encode(), LEVEL)


def _checked(file: BinaryIO, digest: bytes, size: bytes) -> dict[str, Any]:
    """The next part of an entry. Raises ValueError where that is damaged."""
    import zlib

    data = file.read(int(size))
    if digest_of(data).encode() != digest:
        raise ValueError
    found: dict[str, Any] = json.loads(zlib.decompress(data))
    return found


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
