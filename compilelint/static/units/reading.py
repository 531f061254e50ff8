"""What a task read of each file, part by part, and where the lines that its outcome names are to be found again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from compilelint.model import Finding, Rewrite, Span, Step
from compilelint.static.project.parsing import ReadError, parse_module
from compilelint.static.project.parts import (
    CODE,
    FACT,
    GIVEN,
    HEAD,
    MADE,
    OUTSIDE,
    PLAN,
    REBOUND,
    STARTS,
    SURFACE,
    TESTS,
    Parts,
    Pattern,
)
from compilelint.static.project.program import Note, Program
from compilelint.static.units import told as kept
from compilelint.static.units.work import NAMES, Reading, Task

if TYPE_CHECKING:
    from compilelint.static.project.definitions import FunctionRef
    from compilelint.static.tracer.transcripts import NotingTracer

_NAMES_LINE = re.compile(r"\blines? \d|\.\w+:\d")
"""A text that names a line says something else once that has moved."""

_BESIDES_CODE = (CODE, STARTS, HEAD)
"""What counts of a file of which all code does: the other parts are made of that, but these two hold comments too."""

Lines = Mapping[str, Mapping[int, int]]
"""By path as findings show it, where lines have moved to."""


def readings(
    program: Program, task: Task, findings: Iterable[Finding], shown: Callable[[Path], str], pattern: Pattern
) -> dict[str, Reading]:
    """What was read since `Program.begin`, by path."""
    notes: dict[str, list[Note]] = {}
    for note in program.noted:
        notes.setdefault(note[0], []).append(note)
    found: dict[str, Reading] = {}
    sources: dict[str, tuple[Reading, Parts]] = {}
    for name, path, content, names in program.read():
        reading = Reading(content, {NAMES: names} if names else {})
        parts = parts_of(program, name) if not names and program.is_asked(name) else None
        if parts is not None:
            # Of files in the unit every function is looked at, to tell whether a walk starts there.
            own = [CODE, STARTS] if name in task.modules else [SURFACE]
            wanted = dict.fromkeys([*own, *_wanted(parts, notes.get(name, ()))])
            if CODE in wanted:
                wanted = {part: None for part in wanted if part in _BESIDES_CODE}
            reading.parts = _digests(parts, wanted, pattern)
            sources[shown(path)] = reading, parts
        if path.as_posix() in found:  # one file under two names
            reading = Reading(content)
        found[path.as_posix()] = reading
    for finding in findings:
        _anchor(finding, sources)
    return found


def all_told(program: Program, found: Mapping[str, Reading], tracer: NotingTracer) -> bytes:
    """The transcripts of the functions whose text nobody has looked into."""
    looked_into = {(module, line) for module, sort, _, line in program.noted if sort == "body"}
    texts: list[str] = []
    for ref, told in tracer.told(looked_into, partial(name_of, program=program), partial(number_of, program)):
        module = program.module(ref.module)
        path, name = module.path.as_posix() if module is not None else "", name_of(ref, program)
        if path in found and f"body {name}" in found[path].parts:
            texts.append(kept.text_of(path, name, told))
    return kept.packed(texts)


def parts_of(program: Program, name: str) -> Parts | None:
    """The parts of a module of the program; None if it cannot be parsed."""
    if name not in program.parts:
        module = program.module(name)
        if module is None:
            return None
        program.parts[name] = Parts(module, program.part_digests.get(program.content(module)))
    return program.parts[name]


def name_of(ref: FunctionRef, program: Program) -> str:
    """What a function is known by in its file, see `Parts.name`."""
    parts = parts_of(program, ref.module)
    return parts.name(ref.line, ref.column) if parts is not None else ""


def number_of(program: Program, ref: FunctionRef, line: int) -> int:
    """Which line of a function's body, from 0, a line of its file is; -1 where it is none."""
    parts = parts_of(program, ref.module)
    part, number = (parts and parts.anchor(line)) or ("", -1)
    return number if part == f"body {name_of(ref, program)}" else -1


def parts_now(data: bytes, path: Path) -> Parts | None:
    """The parts of a file of this content; None if it cannot be parsed."""
    try:
        return Parts(parse_module(data, path, path.stem))
    except ReadError:
        return None


def _wanted(parts: Parts, notes: Iterable[Note]) -> Iterator[str]:
    for _, sort, name, line in notes:
        if sort in ("body", "walked"):
            yield parts.body_at(line)
        elif sort in ("class", "assigned"):
            yield parts.class_at(sort, name, line)
        elif sort == TESTS:
            yield parts.tests_at(line)
        elif sort == PLAN:
            yield parts.plan_at(name, line)
        elif sort in (MADE, GIVEN, OUTSIDE, FACT, REBOUND):
            yield f"{sort} {name}"
        else:
            yield sort


def _digests(parts: Parts, wanted: Iterable[str], pattern: Pattern) -> dict[str, str]:
    """The digest of each part; nothing, which stands for all, where the file has no such part."""
    found = {part: parts.digest(part, pattern) for part in wanted}
    return found if all(found.values()) else {}


def _anchor(finding: Finding, sources: Mapping[str, tuple[Reading, Parts]]) -> None:
    """Note where the lines of a finding are; of a file where that cannot be told all counts."""
    text = " ".join((finding.message, finding.instead, *(step.note for step in finding.region)))
    for path, (reading, _) in sources.items() if _NAMES_LINE.search(text) else ():
        if path == finding.path or path in text:
            reading.parts.clear()
    for path, line in _places(finding):
        if path in sources:
            reading, parts = sources[path]
            anchor = parts.anchor(line)
            if anchor is not None and not reading.parts.keys().isdisjoint((anchor[0], CODE)):
                reading.anchors[line] = anchor
            else:
                reading.parts.clear()


def lines_of_hits(findings: Iterable[Finding], path: str) -> set[int]:
    """The lines of a file, by its path as findings show it, that findings name other than as a place of a call."""
    return {line for finding in findings for where, line in _own_places(finding) if where == path}


def _places(finding: Finding) -> Iterator[tuple[str, int]]:
    """The lines that a finding names."""
    yield from _own_places(finding)
    yield from ((step.path, step.line) for step in finding.region)


def _own_places(finding: Finding) -> Iterator[tuple[str, int]]:
    path = finding.path
    rewrite = finding.rewrite
    for span in (finding.span, *((rewrite.span, rewrite.part) if rewrite is not None else ())):
        if span is not None:
            yield path, span.line
            yield path, span.end_line
    yield from ((path, line) for line in finding.statement)
    if finding.definition is not None:
        yield finding.definition.path, finding.definition.line


def moved(finding: Finding, lines: Lines) -> Finding:
    """A finding whose lines have moved."""
    here = lines.get(finding.path, {})

    def span(old: Span) -> Span:
        return replace(old, line=here.get(old.line, old.line), end_line=here.get(old.end_line, old.end_line))

    def step(old: Step) -> Step:
        return replace(old, line=lines.get(old.path, {}).get(old.line, old.line))

    def rewrite(old: Rewrite) -> Rewrite:
        return replace(old, span=span(old.span), part=old.part and span(old.part))

    first, last = finding.statement
    return replace(
        finding,
        span=span(finding.span),
        statement=(here.get(first, first), here.get(last, last)),
        region=tuple(map(step, finding.region)),
        definition=finding.definition and step(finding.definition),
        rewrite=finding.rewrite and rewrite(finding.rewrite),
    )
