"""The static pass in pieces: which files are walked together, and what one piece of work gives.

A unit is walked with a memory of its own, so what it finds depends on the code it reads and not on what was walked
before; it can be walked in any process, and its outcome can be kept. Two passes go over each unit: the regions that
start there, and then the public functions that no region of any unit has entered.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field

from compilelint.model import Failure, Finding
from compilelint.record import record
from compilelint.static.flagging.combine import Claim
from compilelint.static.project.answers import Answers
from compilelint.static.project.bodies import Outline

LEAST_BYTES = 50_000
MOST_BYTES = 100_000
"""A unit has from `LEAST_BYTES` to `MOST_BYTES` of source, or one file. Small ones walk what they share more often than
large ones; of large ones a change makes more work."""


@record(frozen=True, slots=True)
class Task:
    """One pass over one unit.

    `modules` are dotted names as `Program` gives them. The pass over regions has `public` None and also walks
    `entry_points`; the pass over public functions walks those named in `public`, see `Outcome`.
    """

    modules: tuple[str, ...]
    entry_points: tuple[str, ...] = ()
    public: tuple[str, ...] | None = None


NAMES = "names"
"""The part of a file that says which names it may bind."""


@record(slots=True)
class Reading:
    """What was read of one file: the digest of its content, "" if it cannot be read, and that of each part.

    Without parts all was read. `anchors` tell of the lines that the outcome names in which part they are, and where
    there. See `parts.Parts`.
    """

    content: str
    parts: dict[str, str] = field(default_factory=dict)
    anchors: dict[int, tuple[str, int]] = field(default_factory=dict)


@record(slots=True)
class Outcome:
    """What one task gave.

    `fallbacks` are the rules that give way to others. `entered` are the functions and methods that regions, decode
    loops of their file or constructors reached, `public` the public ones of the unit, both by module and name (see
    `parts.Parts.name`). `read` is what was looked into of each file, by path, and `absent` are the files that
    were looked for and not there. `unread` are files that cannot be read or parsed. `asked` are the modules that
    something was asked of. `told` are the transcripts of functions in other units, see `units.told`. `claims` stand for
    findings that are kept with another task, which has found them too. `outlined` are the outlines of files that were
    found out, by content, see `project.bodies`, and `answers` what files answer to questions, see `project.answers`.
    """

    findings: tuple[Finding, ...] = ()
    failures: tuple[Failure, ...] = ()
    unread: tuple[Failure, ...] = ()
    fallbacks: tuple[str, ...] = ()
    entered: frozenset[str] = frozenset()
    public: tuple[str, ...] = ()
    read: dict[str, Reading] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    told: bytes = b""
    claims: tuple[Claim, ...] = ()
    outlined: dict[str, Outline] = field(default_factory=dict)
    answers: dict[str, Answers] = field(default_factory=dict)


def units(modules: Sequence[tuple[str, int]]) -> Iterator[tuple[str, ...]]:
    """The modules, in the order given and each with its size in bytes, cut into units.

    Which files may end one is told by names, and sizes are rounded up to powers of two, so that a file that is added,
    removed or edited moves few cuts. Packages share no unit: what is found in one does not hang on what is linted
    beside it.
    """
    unit: list[str] = []
    total = 0
    packages = frozenset(module.partition(".")[0] for module, _ in modules if "." in module)
    package = ""
    for module, size in modules:
        rounded = 1 << size.bit_length()
        top = module.partition(".")[0]
        before, package = package, top if top in packages else ""
        if unit and (package != before or total + rounded > MOST_BYTES):
            yield tuple(unit)
            unit, total = [], 0
        unit.append(module)
        total += rounded
        if total >= LEAST_BYTES and zlib.crc32(module.encode(errors="surrogateescape")) % 4 == 0:
            yield tuple(unit)
            unit, total = [], 0
    if unit:
        yield tuple(unit)


def second_pass(tasks: Iterable[tuple[Task, Outcome]], entered: Collection[str]) -> list[Task]:
    """The tasks over public functions that follow from the first pass, in which functions were `entered`."""
    found = (
        Task(task.modules, public=tuple(name for name in outcome.public if name not in entered))
        for task, outcome in tasks
    )
    return [task for task in found if task.public]
