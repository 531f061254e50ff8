"""The findings of all tasks -> those of the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from compilelint.model import CONFIDENCES, Finding, Hazard, Span

Key = tuple[str, str, Span]
"""Rule, path and place: findings that agree in these are one."""
Claim = tuple[Key, int]
"""A finding by its key, and how sure it is: the less, the surer."""


class Surest:
    """Which finding is the surest for each place, of parts that come in any order; of equals that of the first part.

    A run over many files finds much of what they share in every unit.
    """

    def __init__(self) -> None:
        self._ranks: dict[Key, tuple[int, int]] = {}
        self._claimed: dict[Key, tuple[int, int]] = {}

    def of(self, findings: Iterable[Finding], position: int) -> tuple[Finding, ...]:
        """Those of the findings of the part at `position` that none is better than so far."""
        return tuple(finding for finding in findings if self._is_best(*claim_of(finding), position))

    def claim(self, claims: Iterable[Claim], position: int) -> None:
        """Have the part at `position` hold such findings too, of which no more is known."""
        for key, sure in claims:
            if self._is_best(key, sure, position):
                self._claimed[key] = (sure, position)

    def wanted(self) -> Iterator[tuple[Key, int]]:
        """The surest findings of which no more is known, each with the position of its part."""
        return ((key, rank[1]) for key, rank in self._claimed.items() if self._ranks[key] == rank)

    def _is_best(self, key: Key, sure: int, position: int) -> bool:
        rank = (sure, position)
        if self._ranks.setdefault(key, rank) < rank:
            return False
        self._ranks[key] = rank
        return True


def claim_of(finding: Finding) -> Claim:
    """What tells which of several findings for one place counts."""
    return (finding.rule, finding.path, finding.span), CONFIDENCES.index(finding.confidence)


def combined(parts: Iterable[Sequence[Finding]], fallbacks: frozenset[str]) -> tuple[Finding, ...]:
    """The findings of all `parts` by file and line: of those for one place the surest, of equals the first."""
    return reported(surest_of(parts).values(), fallbacks)


def surest_of(parts: Iterable[Iterable[Finding]]) -> dict[Key, Finding]:
    """Of the findings of all parts for one place the surest, of equals the first."""
    found: dict[Key, Finding] = {}
    for part in parts:
        for finding in part:
            key = (finding.rule, finding.path, finding.span)
            known = found.get(key)
            if known is None or CONFIDENCES.index(known.confidence) > CONFIDENCES.index(finding.confidence):
                found[key] = finding
    return found


def reported(findings: Collection[Finding], fallbacks: frozenset[str]) -> tuple[Finding, ...]:
    """Findings, one for each place, by file and line.

    `fallbacks` are the rules that are silent on lines where another rule names a break, or the same hazard. Equal
    fingerprints are numbered apart.
    """
    return tuple(number_apart(sorted(_without_overlaps(findings, fallbacks), key=_place)))


def _place(finding: Finding) -> tuple[object, ...]:
    span = finding.span
    return finding.path, span.line, span.column, finding.rule, span.end_line, span.end_column


def _without_overlaps(findings: Collection[Finding], fallbacks: frozenset[str]) -> Iterator[Finding]:
    """All findings but those of fallback rules on lines where another rule has named a break, or the same hazard."""
    taken: dict[tuple[str, int], set[Hazard]] = {}
    for finding in findings:
        if finding.rule not in fallbacks:
            for line in range(finding.span.line, finding.span.end_line + 1):
                taken.setdefault((finding.path, line), set()).add(finding.hazard)
    for finding in findings:
        named = taken.get((finding.path, finding.span.line), set()) if finding.rule in fallbacks else set()
        if not named & {"graph-break", "frame-skip", finding.hazard}:
            yield finding


def number_apart(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Give findings that share a fingerprint (one line twice in a function) distinct, stable ones."""
    seen: dict[str, int] = {}
    for finding in findings:
        count = seen.get(finding.fingerprint, 0)
        seen[finding.fingerprint] = count + 1
        yield replace(finding, fingerprint=f"{finding.fingerprint}-{count}") if count else finding
