"""The JSON formats: `json` (one object for the whole run) and `jsonl` (one object per line).

Field names are part of the schema `compilelint/1`. Lines and columns are 1-based, columns count code points, ends are
exclusive. In a notebook, `cell` is the number of the cell among all cells, from 1, and lines count in that cell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compilelint.model import Evidence, Failure, Finding, Fix, Report, Span, Step, TargetRun
from compilelint.report import Look
from compilelint.report.rank import by_place
from compilelint.source import Sources

SCHEMA = "compilelint/1"


def whole(report: Report, look: Look) -> str:
    """One JSON object."""
    document = {
        "schema": SCHEMA,
        "torch": report.torch,
        "findings": [finding_object(finding, look.sources) for finding in by_place(report.findings)],
        "targets": [target_object(run) for run in report.targets],
        "failures": [failure_object(failure, look.sources) for failure in report.failures],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def lines(report: Report, look: Look) -> str:
    """One JSON object per line, each with its `kind`: `run` first, then `finding`, `target`, `failure`."""
    objects: list[Mapping[str, Any]] = [{"kind": "run", "schema": SCHEMA, "torch": report.torch}]
    objects += [{"kind": "finding", **finding_object(finding, look.sources)} for finding in by_place(report.findings)]
    objects += [{"kind": "target", **target_object(run)} for run in report.targets]
    objects += [{"kind": "failure", **failure_object(failure, look.sources)} for failure in report.failures]
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in objects)


def finding_object(finding: Finding, sources: Sources) -> dict[str, Any]:
    """A finding in its outside form."""
    return {
        "rule": finding.rule,
        "name": finding.name,
        "hazard": finding.hazard,
        "path": finding.path,
        **_span(finding.path, finding.span, sources),
        "function": finding.function,
        "region": [_step(step, sources) for step in finding.region],
        "definition": finding.definition and _step(finding.definition, sources),
        "confidence": finding.confidence,
        "verdict": finding.verdict,
        "evidence": [_evidence(evidence, sources) for evidence in finding.evidence],
        "fixes": [_fix(fix, finding.path, sources) for fix in finding.fixes],
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


def failure_object(failure: Failure, sources: Sources) -> dict[str, Any]:
    """An input that could not be checked; `line` is null where no line is to blame."""
    place = {"line": None} if failure.line is None else _line(failure.path, failure.line, sources)
    return {"path": failure.path, **place, "message": failure.message}


def _line(path: str, line: int, sources: Sources) -> dict[str, int]:
    cell, line = sources.cell_line(path, line)
    return {"line": line} if cell is None else {"cell": cell, "line": line}


def _span(path: str, span: Span, sources: Sources) -> dict[str, int]:
    end = sources.cell_line(path, span.end_line)[1]
    return {
        **_line(path, span.line, sources),
        "column": span.column,
        "end_line": end,
        "end_column": span.end_column,
    }


def _step(step: Step, sources: Sources) -> dict[str, Any]:
    return {
        "path": step.path,
        **_line(step.path, step.line, sources),
        "function": step.function,
        "note": step.note,
    }


def _evidence(evidence: Evidence, sources: Sources) -> dict[str, Any]:
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
        "stack": [_step(step, sources) for step in evidence.stack],
        "cost": evidence.cost,
        "tried": list(evidence.tried),
    }


def _fix(fix: Fix, path: str, sources: Sources) -> dict[str, Any]:
    edits = [{**_span(path, edit.span, sources), "replacement": edit.replacement} for edit in fix.edits]
    return {"title": fix.title, "safety": fix.safety, "verified": fix.verified, "edits": edits}
