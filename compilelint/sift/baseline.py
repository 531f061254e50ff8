"""The baseline: findings that are known and accepted, so that only new ones count.

An entry is a finding's fingerprint with the graph-break ids that were seen at it. Line numbers and torch's wording
take no part, so that moved lines and a newer torch do not bring back what was accepted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from compilelint.config import ConfigError
from compilelint.model import Finding

SCHEMA = "compilelint-baseline/1"

Known = dict[str, frozenset[str]]
"""Fingerprint to the graph-break ids seen there; no id where nothing ran."""


def read_baseline(file: Path) -> Known:
    """The entries of a baseline file. Raises ConfigError if it is missing or not a baseline."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ConfigError(f"{file}: baseline schema is {data['schema']!r}, this version reads {SCHEMA!r}")
        return {entry["fingerprint"]: frozenset(entry["gb"]) for entry in data["findings"]}
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such baseline; write it with --update-baseline") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{file}: not a compilelint baseline; write it anew with --update-baseline") from None


def baseline_text(findings: Iterable[Finding]) -> str:
    """The baseline that accepts `findings`, as the text of its file; equal findings give equal bytes."""
    entries = {
        finding.fingerprint: {
            "fingerprint": finding.fingerprint,
            "rule": finding.rule,
            "path": finding.path,
            "gb": sorted(_ids(finding)),
        }
        for finding in findings
    }
    ordered = sorted(entries.values(), key=lambda entry: (entry["path"], entry["rule"], entry["fingerprint"]))
    return json.dumps({"schema": SCHEMA, "findings": ordered}, indent=1) + "\n"


def not_in_baseline(findings: Iterable[Finding], known: Known) -> tuple[Finding, ...]:
    """The findings that are new.

    A finding with an accepted fingerprint is new again only when the compiler was seen to break there for a reason, by
    graph-break id, that was not among those accepted; where either side has no id, the fingerprint decides.
    """
    return tuple(finding for finding in findings if not _accepted(finding, known))


def _accepted(finding: Finding, known: Known) -> bool:
    if finding.fingerprint not in known:
        return False
    accepted, seen = known[finding.fingerprint], _ids(finding)
    return not accepted or seen <= accepted


def _ids(finding: Finding) -> frozenset[str]:
    return frozenset(evidence.gb for evidence in finding.evidence if evidence.gb)
