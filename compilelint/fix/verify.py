"""Whether fixes did what they promise, by what the compiler was seen to do before and after them.

A fix holds if the hazard is gone from its statement, every target still runs and returns what it returned, and nothing
new is paid for: no recompile, host sync or CUDA-graph skip that was not there. A graph break further on may come to
light, as the compiler now gets there.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from compilelint.fix.apply import Change
from compilelint.lines import split_lines
from compilelint.model import Evidence, Finding, Leaf, TargetRun

_BREAKS = frozenset({"graph-break", "frame-skip"})
_TOLERANCE = {"float64": 1e-7, "float16": 1e-3, "bfloat16": 1.6e-2}
"""Relative, by element type, as in torch.testing.assert_close; `_FLOAT32` for what is not listed."""
_FLOAT32 = 1e-5


def fault(
    fixed: Sequence[Finding],
    changes: Iterable[Change],
    before: Sequence[TargetRun],
    after: Sequence[TargetRun],
) -> str:
    """Why the fixes of these findings, made by `changes`, do not hold, in one line; "" if they do."""
    now = {run.name: run for run in after}
    texts = {change.path: change for change in changes}
    return next(
        (
            reason
            for run in before
            for reason in (
                _no_longer_runs(run, now[run.name]),
                _returns_other(run, now[run.name]),
                _still_there(fixed, texts, now[run.name]),
                _new_cost(run, now[run.name]),
            )
            if reason
        ),
        "",
    )


def _no_longer_runs(before: TargetRun, after: TargetRun) -> str:
    if before.status == "ok" and after.status != "ok":
        return f"target {after.name} does not run any more ({after.status}: {after.detail})"
    return ""


def _still_there(fixed: Sequence[Finding], texts: Mapping[str, Change], after: TargetRun) -> str:
    for finding in fixed:
        lines = _lines_after(texts[finding.path], finding)
        groups = {_group(item) for item in finding.evidence}
        for item in after.evidence:
            if item.path == finding.path and item.line in lines and _group(item) in groups:
                return f"target {after.name} still shows {item.gb or item.channel} there"
    return ""


def _lines_after(change: Change, finding: Finding) -> range:
    """The lines of the changed text that a finding's statement has become."""
    first, last = finding.statement
    found: list[int] = []
    matcher = SequenceMatcher(None, split_lines(change.before), split_lines(change.after), autojunk=False)
    for how, old, old_end, new, new_end in matcher.get_opcodes():
        start, end = max(old, first - 1), min(old_end, last)
        if how == "equal":
            found += range(new + start - old + 1, new + end - old + 1)
        elif start <= end:
            found += range(new + 1, new_end + 1)
    return range(min(found), max(found) + 1) if found else range(0)


def _new_cost(before: TargetRun, after: TargetRun) -> str:
    was = Counter(map(_cost, before.evidence))
    for item, count in Counter(map(_cost, after.evidence)).items():
        path, group, _ = item
        if group not in _BREAKS and count > was[item]:
            return f"target {after.name} now shows a {group} in {path}"
    return ""


def _group(item: Evidence) -> str:
    return "graph-break" if item.hazard in _BREAKS else item.hazard


def _cost(item: Evidence) -> tuple[str, str, str]:
    """What two observations have in common when lines have moved and values differ."""
    return item.path, _group(item), item.gb or re.sub(r"\d+", "…", item.guard or item.reason)


def _returns_other(before: TargetRun, after: TargetRun) -> str:
    """A compiled call may return what it returned, or what the program returned without the compiler."""
    allowed = list(before.results.values())
    for name, calls in after.results.items():
        for number, result in enumerate(calls):
            expected = [known[number] for known in allowed if number < len(known)]
            if expected and not any(_alike(result, one) for one in expected):
                return f"target {after.name} returns something else in call {number + 1} ({name} pass)"
    return ""


def _alike(one: Sequence[Leaf], other: Sequence[Leaf]) -> bool:
    return len(one) == len(other) and all(map(_same, one, other))


def _same(one: Leaf, other: Leaf) -> bool:
    (kind, numbers), (other_kind, others) = one, other
    if kind != other_kind or len(numbers) != len(others):
        return False
    tolerance = _TOLERANCE.get(kind.partition("[")[0], _FLOAT32)
    slack = tolerance * (1 + numbers[-1]) if numbers else 0.0
    return all(
        first == second or (math.isnan(first) and math.isnan(second)) or abs(first - second) <= slack
        for first, second in zip(numbers, others, strict=True)
    )
