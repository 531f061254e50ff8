"""Standard input as a file: `compilelint - --stdin-filename PATH`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from compilelint.config import Settings
from compilelint.fingerprint import fingerprint
from compilelint.model import Failure, Finding, Step
from compilelint.source import Sources


def lint_text(name: str, sources: Sources, settings: Settings) -> tuple[tuple[Finding, ...], tuple[Failure, ...]]:
    """Findings and failures of the text that `sources` was given for `name`, as the file of that name has them.

    The static pass reads files, so the text becomes one for as long as that takes. What it imports from beside PATH is
    not seen.
    """
    from compilelint.static import lint

    with tempfile.TemporaryDirectory(prefix="compilelint-") as folder:
        file = Path(folder).resolve() / Path(name).name
        file.write_text(sources.raw(name), encoding="utf-8", newline="")
        result = lint([file], settings)
    stand_in = file.as_posix()

    def place(path: str) -> str:
        return name if path == stand_in else path

    def step(at: Step) -> Step:
        return replace(at, path=place(at.path))

    def recognised_by(finding: Finding) -> str:
        _, dash, occurrence = finding.fingerprint.partition("-")
        text = sources.line(name, finding.span.line)
        return fingerprint(place(finding.path), finding.function, finding.rule, text) + dash + occurrence

    def moved(finding: Finding) -> Finding:
        return replace(
            finding,
            path=place(finding.path),
            fingerprint=recognised_by(finding),
            region=tuple(map(step, finding.region)),
            definition=finding.definition and step(finding.definition),
        )

    findings = tuple(map(moved, result.findings))
    return findings, tuple(replace(failure, path=place(failure.path)) for failure in result.failures)
