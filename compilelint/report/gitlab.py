"""GitLab Code Quality: a JSON array that a merge request's widget reads (CI/CD artifacts, `reports:codequality`)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from compilelint.model import Finding, Report
from compilelint.report import Look
from compilelint.report.places import line_in_file
from compilelint.report.rank import Level, by_place, level
from compilelint.source import Sources

SEVERITY: dict[Level, str] = {"error": "critical", "warning": "major", "note": "info"}


def code_quality(report: Report, look: Look) -> str:
    """Findings, and inputs that could not be checked as blockers. Fingerprints are made unique, as GitLab requires."""
    seen: Counter[str] = Counter()
    items = [_item(finding, look.sources, seen) for finding in by_place(report.findings)]
    for failure in report.failures:
        items.append(
            {
                "description": failure.message,
                "check_name": "not-checked",
                "fingerprint": _unique(f"not-checked:{failure.path}", seen),
                "severity": "blocker",
                "location": {"path": failure.path, "lines": {"begin": line_in_file(failure, look.sources) or 1}},
            }
        )
    return json.dumps(items, indent=2, ensure_ascii=False) + "\n"


def _item(finding: Finding, sources: Sources, seen: Counter[str]) -> dict[str, Any]:
    span = sources.in_file(finding.path, finding.span)
    return {
        "description": f"{finding.rule}: {finding.message}",
        "check_name": finding.name,
        "fingerprint": _unique(finding.fingerprint, seen),
        "severity": SEVERITY[level(finding)],
        "location": {
            "path": finding.path,
            "positions": {
                "begin": {"line": span.line, "column": span.column},
                "end": {"line": span.end_line, "column": span.end_column},
            },
        },
    }


def _unique(fingerprint: str, seen: Counter[str]) -> str:
    seen[fingerprint] += 1
    return fingerprint if seen[fingerprint] == 1 else f"{fingerprint}:{seen[fingerprint]}"
