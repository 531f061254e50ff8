"""Outcomes and findings as an entry of the cache holds them: as JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from compilelint.model import Failure, Finding, Rewrite, Span, Step
from compilelint.static.units.work import Outcome, Reading


def entry_of(outcome: Outcome) -> dict[str, Any]:
    """What is kept of an outcome besides what was looked into of each file."""
    return {
        "findings": [entry_of_finding(finding) for finding in outcome.findings],
        "fallbacks": outcome.fallbacks,
        "unread": [[failure.path, failure.message, failure.line] for failure in outcome.unread],
        "entered": sorted(outcome.entered),
        "roots": outcome.public,
        "read": {path: one.content for path, one in outcome.read.items()},
        "absent": sorted(outcome.absent),
    }


def entry_of_finding(finding: Finding) -> dict[str, Any]:
    """What is kept of a finding."""
    entry: dict[str, Any] = {name: getattr(finding, name) for name in _PLAIN}
    entry["span"] = _span_entry(finding.span)
    entry["region"] = [_step_entry(step) for step in finding.region]
    entry["definition"] = finding.definition and _step_entry(finding.definition)
    rewrite = finding.rewrite
    if rewrite is not None:
        part = _span_entry(rewrite.part) if rewrite.part is not None else None
        entry["rewrite"] = [
            *(rewrite.how, rewrite.title, rewrite.safety, _span_entry(rewrite.span), rewrite.template, part)
        ]
    return entry


_PLAIN = ("rule", "name", "hazard", "path", "function", "message", "instead", "confidence", "statement", "fingerprint")
"""What the static pass sets of a finding and JSON keeps as it is."""


def _step_entry(step: Step) -> list[str | int]:
    return [step.path, step.line, step.function, step.note]


def _span_entry(span: Span) -> list[int]:
    return [getattr(span, field.name) for field in fields(Span)]


def outcome_of(entry: dict[str, Any], read: dict[str, Reading], told: bytes) -> Outcome:
    """The outcome of an entry."""
    return Outcome(
        findings=tuple(finding_of(one) for one in entry["findings"]),
        fallbacks=tuple(entry["fallbacks"]),
        unread=tuple(Failure(*one) for one in entry["unread"]),
        entered=frozenset(entry["entered"]),
        public=tuple(entry["roots"]),
        read=read,
        absent=frozenset(entry["absent"]),
        told=told,
    )


def reading_of(content: str, parts: dict[str, str], anchors: list[tuple[int, tuple[str, int]]]) -> Reading:
    """What was read of one file."""
    return Reading(content, parts, {line: (part, number) for line, (part, number) in anchors})


def finding_of(entry: dict[str, Any]) -> Finding:
    """The finding of an entry, which is used up."""
    rewrite = entry.pop("rewrite", None)
    entry["span"] = Span(*entry["span"])
    entry["statement"] = tuple(entry["statement"])
    entry["region"] = tuple(Step(*step) for step in entry["region"])
    entry["definition"] = entry["definition"] and Step(*entry["definition"])
    if rewrite is not None:
        how, title, safety, span, template, part = rewrite
        entry["rewrite"] = Rewrite(how, title, safety, Span(*span), template, Span(*part) if part else None)
    return Finding(**entry)
