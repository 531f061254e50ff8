"""The JSON formats: `json` (one object for the whole run) and `jsonl` (one object per line).

Field names are part of the schema `compilelint/1`. Lines and columns are 1-based, columns count code points, ends are
exclusive.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compilelint.model import Evidence, Failure, Finding, Fix, Report, Span, Step, TargetRun
from compilelint.report import Look
from compilelint.report.rank import by_place

SCHEMA = "compilelint/1"


def whole(report: Report, look: Look) -> str:
    """One JSON object."""
    document = {
        "schema": SCHEMA,
        "torch": report.torch,
        "findings": [finding_object(finding) for finding in by_place(report.findings)],
        "targets": [target_object(run) for run in report.targets],
        "failures": [failure_object(failure) for failure in report.failures],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def lines(report: Report, look: Look) -> str:
    """One JSON object per line, each with its `kind`: `run` first, then `finding`, `target`, `failure`."""
    objects: list[Mapping[str, Any]] = [{"kind": "run", "schema": SCHEMA, "torch": report.torch}]
    objects += [{"kind": "finding", **finding_object(finding)} for finding in by_place(report.findings)]
    objects += [{"kind": "target", **target_object(run)} for run in report.targets]
    objects += [{"kind": "failure", **failure_object(failure)} for failure in report.failures]
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in objects)


def finding_object(finding: Finding) -> dict[str, Any]:
    """A finding in its outside form."""
    return {
        "rule": finding.rule,
        "name": finding.name,
        "hazard": finding.hazard,
        "path": finding.path,
        **_span(finding.span),
        "function": finding.function,
        "region": [_step(step) for step in finding.region],
        "confidence": finding.confidence,
        "verdict": finding.verdict,
        "evidence": [_evidence(evidence) for evidence in finding.evidence],
        "fixes": [_fix(fix) for fix in finding.fixes],
        "fingerprint": finding.fingerprint,
        "message": finding.message,
        "instead": finding.instead,
    }


def target_object(run: TargetRun) -> dict[str, Any]:
    """A target's outcome; the lines it executed and traced are the merge's business and stay out."""
    fullgraph = run.fullgraph and {
        "passes": run.fullgraph.passes,
        "reason": run.fullgraph.reason,
        "gb": run.fullgraph.gb,
        "path": run.fullgraph.path,
        "line": run.fullgraph.line,
    }
    return {
        "name": run.name,
        "status": run.status,
        "detail": run.detail,
        "device": run.device,
        "torch": run.torch,
        "seconds": round(run.seconds, 3),
        "fullgraph": fullgraph,
    }


def failure_object(failure: Failure) -> dict[str, Any]:
    """An input that could not be checked; `line` is null where no line is to blame."""
    return {"path": failure.path, "line": failure.line, "message": failure.message}


def _span(span: Span) -> dict[str, int]:
    return {"line": span.line, "column": span.column, "end_line": span.end_line, "end_column": span.end_column}


def _step(step: Step) -> dict[str, Any]:
    return {"path": step.path, "line": step.line, "function": step.function, "note": step.note}


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "target": evidence.target,
        "channel": evidence.channel,
        "hazard": evidence.hazard,
        "path": evidence.path,
        "line": evidence.line,
        "function": evidence.function,
        "gb": evidence.gb,
        "reason": evidence.reason,
        "hits": evidence.hits,
        "guard": evidence.guard,
        "hint": evidence.hint,
        "stack": [_step(step) for step in evidence.stack],
        "cost": evidence.cost,
    }


def _fix(fix: Fix) -> dict[str, Any]:
    edits = [{**_span(edit.span), "replacement": edit.replacement} for edit in fix.edits]
    return {"title": fix.title, "safety": fix.safety, "verified": fix.verified, "edits": edits}
