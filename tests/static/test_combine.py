"""The findings of many parts: for each place the surest, whatever comes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from samples import ITEM

from compilelint.model import Confidence, Finding, Span
from compilelint.static.flagging.combine import Surest, combined


def found(confidence: Confidence, message: str, line: int = 6, end: int = 31) -> Finding:
    return replace(ITEM, confidence=confidence, message=message, span=Span(line, 17, line, end), fingerprint=message)


PARTS = [
    [found("likely", "first"), found("possible", "other", 9), found("likely", "longer", end=40)],
    [found("certain", "surest"), found("possible", "again", 9)],
    [found("certain", "later"), found("possible", "own", 12), found("certain", "longest", end=50)],
]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_parts_may_come_in_any_order(order: Sequence[int]) -> None:
    surest = Surest()
    kept: list[tuple[Finding, ...]] = [()] * 3
    for position in order:
        kept[position] = surest.of(PARTS[position], position)
    assert combined(kept, frozenset()) == combined(PARTS, frozenset())
    assert [finding.message for finding in combined(kept, frozenset())] == [
        "surest",
        "longer",
        "longest",
        "other",
        "own",
    ]


def test_what_another_part_has_as_sure_is_not_kept() -> None:
    surest = Surest()
    assert surest.of(PARTS[1], 1) == tuple(PARTS[1])
    assert [finding.message for finding in surest.of(PARTS[2], 2)] == ["own", "longest"]
    assert [finding.message for finding in surest.of(PARTS[0], 0)] == ["other", "longer"]
