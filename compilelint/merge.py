"""Joining what was predicted with what was seen: findings and evidence become findings with a verdict.

A finding is `confirmed` by evidence of its kind inside its statement; `handled` if a target compiled its line and
watched for its kind of hazard without seeing one; `not-reached` if no target ran its statement, which only those can
say whose executed lines are known. Evidence that no finding explains becomes a finding of its own, `CL000`. A finding
that no target can judge stays `static`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from compilelint.fingerprint import fingerprint
from compilelint.model import Channel, Evidence, Finding, Hazard, Span, TargetRun, Verdict
from compilelint.scopes import Place, place_at

RUNTIME_RULE = ("CL000", "runtime-break")

_BREAKS: frozenset[Hazard] = frozenset({"graph-break", "frame-skip"})
_PROVES: dict[Hazard, frozenset[Hazard]] = {
    "graph-break": _BREAKS,
    "frame-skip": _BREAKS,
    "recompile": frozenset({"recompile"}),
    "host-sync": _BREAKS | {"host-sync"},
    "cudagraph-skip": frozenset({"cudagraph-skip"}),
}
"""For a finding's hazard, what evidence confirms it. A break where a sync was predicted is that read-back."""

_CHANNEL: dict[Hazard, Channel] = {
    "graph-break": "graph-break",
    "frame-skip": "frame-skip",
    "recompile": "recompile",
    "host-sync": "sync",
    "cudagraph-skip": "cudagraph",
}
"""For a finding's hazard, the channel that had to be watched for silence to mean something."""


def merge(findings: Sequence[Finding], runs: Sequence[TargetRun]) -> tuple[Finding, ...]:
    """All findings with their verdicts, in the order given, followed by one CL000 for each place nobody predicted.

    Paths of findings may be relative to the current folder. Without runs, the findings come back as they are.
    """
    if not runs:
        return tuple(findings)
    record = _Record.of(runs)
    confirming = _attach(findings, record.evidence)
    judged = tuple(_judge(finding, confirming.get(at, ()), record) for at, finding in enumerate(findings))
    explained = {
        id(item)
        for at, items in confirming.items()
        for item in items
        if _group(findings[at].hazard) == _group(item.hazard) and _covers(findings[at], item)
    }
    rest = [item for item in record.evidence if id(item) not in explained and not _is_usual(item)]
    return judged + tuple(_unpredicted(rest, findings))


@dataclass(frozen=True)
class _Record:
    """What all targets together showed."""

    evidence: tuple[Evidence, ...]
    reached: Mapping[str, frozenset[int]]
    sound: tuple[TargetRun, ...]

    @classmethod
    def of(cls, runs: Sequence[TargetRun]) -> _Record:
        sound = tuple(run for run in runs if run.status == "ok")
        reached: dict[str, frozenset[int]] = {}
        for run in sound:
            for lines in (run.executed, run.traced):
                for path, numbers in lines.items():
                    reached[_real(path)] = reached.get(_real(path), frozenset()) | numbers
        return cls(tuple(item for run in runs for item in run.evidence), reached, sound)


def _real(path: str) -> str:
    return _resolved(str(Path(path).absolute()))


@lru_cache(maxsize=4096)
def _resolved(path: str) -> str:
    return str(Path(path).resolve())


def _group(hazard: Hazard) -> str:
    return "graph-break" if hazard in _BREAKS else hazard


def _statement(finding: Finding) -> tuple[int, int]:
    first, last = finding.statement
    return (first, last) if first else (finding.span.line, finding.span.end_line)


def _covers(finding: Finding, item: Evidence) -> bool:
    first, last = _statement(finding)
    return _real(finding.path) == _real(item.path) and first <= item.line <= last


# -- evidence to findings -------------------------------------------------------------------------------------------


def _attach(findings: Sequence[Finding], evidence: Iterable[Evidence]) -> dict[int, tuple[Evidence, ...]]:
    """By the position of a finding, the evidence that confirms it."""
    by_path: dict[str, list[int]] = {}
    for at, finding in enumerate(findings):
        by_path.setdefault(_real(finding.path), []).append(at)
    confirming: dict[int, list[Evidence]] = {}
    for item in evidence:
        here = [
            at
            for at in by_path.get(_real(item.path), ())
            if item.hazard in _PROVES.get(findings[at].hazard, frozenset())
        ]
        covering = [at for at in here if _covers(findings[at], item)]
        for at in _narrowest(findings, covering):
            confirming.setdefault(at, []).append(item)
        if item.hazard == "recompile":
            for at in here:
                if at not in covering and _names_guarded(findings[at], item):
                    confirming.setdefault(at, []).append(item)
    return {at: tuple(items) for at, items in confirming.items()}


def _narrowest(findings: Sequence[Finding], covering: list[int]) -> list[int]:
    """Of findings around a line, those of the innermost statement: a loop's finding is not about a line in its body."""

    def length(at: int) -> int:
        first, last = _statement(findings[at])
        return last - first

    return [at for at in covering if length(at) == min(map(length, covering))]


def _names_guarded(finding: Finding, item: Evidence) -> bool:
    """Whether the finding's statement writes what the failed guard reads.

    torch names the line that first read the value (`if n > self.known`); the cause is where it is assigned.
    """
    attribute = _guarded_attribute(item.guard or "")
    if attribute is None:
        return False
    first, last = _statement(finding)
    text = "\n".join(place_at(_real(finding.path), line).text for line in range(first, last + 1))
    return re.search(rf"\.\s*{re.escape(attribute)}\b", text) is not None


def _guarded_attribute(guard: str) -> str | None:
    """`known` of `self._modules['rope'].known == 5`; None if the guard is on no attribute of an object."""
    names = [name for name in re.findall(r"[\w\])]\.([A-Za-z_]\w*)(?!\w*\()", guard) if not name.startswith("_")]
    return names[-1] if names else None


# -- verdicts -------------------------------------------------------------------------------------------------------


def _judge(finding: Finding, confirming: Sequence[Evidence], record: _Record) -> Finding:
    if confirming:
        return replace(finding, verdict="confirmed", evidence=finding.evidence + tuple(confirming))
    return replace(finding, verdict=_verdict(finding, record))


def _verdict(finding: Finding, record: _Record) -> Verdict:
    if not record.sound:
        return finding.verdict
    path = _real(finding.path)
    first, last = _statement(finding)
    if not record.reached.get(path, frozenset()).intersection(range(first, last + 1)):
        return "not-reached" if all(run.executed for run in record.sound) else finding.verdict
    if _on_the_way(finding, record.evidence):
        return finding.verdict
    return "handled" if any(_refutes(run, finding, path) for run in record.sound) else finding.verdict


def _on_the_way(finding: Finding, evidence: Iterable[Evidence]) -> bool:
    """Whether a hazard of this kind was seen further in, in something that the finding's statement calls."""
    first, last = _statement(finding)
    return any(
        item.hazard in _PROVES.get(finding.hazard, frozenset())
        and any(_real(step.path) == _real(finding.path) and first <= step.line <= last for step in item.stack)
        for item in evidence
    )


def _refutes(run: TargetRun, finding: Finding, path: str) -> bool:
    """Whether the run compiled the finding's line, and would have seen its hazard there."""
    channel = _CHANNEL.get(finding.hazard)
    if channel is None or channel not in run.watched or (finding.hazard == "recompile" and run.calls < 2):
        return False
    traced = next((lines for file, lines in run.traced.items() if _real(file) == path), frozenset[int]())
    span = range(finding.span.line, finding.span.end_line + 1)
    first, last = _statement(finding)
    return bool(traced.intersection(span) or traced.intersection(range(first, last + 1)))


# -- evidence that nobody predicted ---------------------------------------------------------------------------------


def _is_usual(item: Evidence) -> bool:
    """A single recompile whose guard names no line of the user's: how torch specialises to a second kind of input.

    The size of an input becomes dynamic at its second value, a gradient mode or a stride gets an entry of its own. The
    same guard failing again is a finding.
    """
    return item.channel == "recompile" and not item.stack and item.hits < 2


def _unpredicted(evidence: Iterable[Evidence], findings: Sequence[Finding]) -> Iterable[Finding]:
    places: dict[tuple[str, int, str], list[Evidence]] = {}
    for item in evidence:
        places.setdefault((_real(item.path), item.line, _group(item.hazard)), []).append(item)
    spelled = {_real(finding.path): finding.path for finding in findings}
    occurrences: dict[str, int] = {}
    for (path, line, _), items in places.items():
        finding = _finding(spelled.get(path) or _spelling(path), line, items, place_at(path, line, items[0].function))
        seen = occurrences.get(finding.fingerprint, 0)
        occurrences[finding.fingerprint] = seen + 1
        if seen:
            text = place_at(path, line).text
            finding = replace(
                finding, fingerprint=fingerprint(finding.path, finding.function, finding.rule, text, seen)
            )
        yield finding


def _spelling(path: str) -> str:
    """A path as the report writes it: relative to the current folder if it lies there."""
    try:
        return str(Path(path).relative_to(Path.cwd().resolve()))
    except ValueError:
        return path


def _finding(path: str, line: int, items: Sequence[Evidence], place: Place) -> Finding:
    rule, name = RUNTIME_RULE
    hazard = next((item.hazard for item in items if item.hazard == "frame-skip"), items[0].hazard)
    # Of recompiles, the one with which it gave up; else what was seen first.
    worst = min((item for item in items if item.hazard == hazard), key=lambda item: item.channel != "recompile-limit")
    text = place.text.rstrip()
    column = len(text) - len(text.lstrip()) + 1
    return Finding(
        rule=rule,
        name=name,
        hazard=hazard,
        path=path,
        span=Span(line, column, line, max(len(text) + 1, column)),
        function=place.function,
        message=f"{_SEEN[hazard]}: {worst.reason}",
        instead=next((item.hint for item in items if item.hint), ""),
        confidence="certain",
        statement=place.statement,
        verdict="runtime-only",
        evidence=tuple(items),
        fingerprint=fingerprint(path, place.function, f"{rule}:{_group(hazard)}", text),
    )


_SEEN: dict[Hazard, str] = {
    "graph-break": "the compiled graph breaks here",
    "frame-skip": "the compiler gives up on the whole function here",
    "recompile": "the compiler compiles this function again",
    "host-sync": "the host waits for the GPU here",
    "cudagraph-skip": "CUDA graphs leave this out",
}
