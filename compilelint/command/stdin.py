"""Standard input as a file: `compilelint - --stdin-filename PATH`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from compilelint.config import Settings
from compilelint.model import Failure, Finding, Step


def lint_text(name: str, text: str, settings: Settings) -> tuple[tuple[Finding, ...], tuple[Failure, ...]]:
    """Findings and failures of `text`, placed at `name`.

    The static pass reads files, so the text becomes one for as long as that takes. What it imports from beside PATH is
    not seen.
    """
    from compilelint.static import lint

    with tempfile.TemporaryDirectory(prefix="compilelint-") as folder:
        file = Path(folder).resolve() / Path(name).name
        file.write_text(text, encoding="utf-8", newline="")
        result = lint([file], settings)
    stand_in = file.as_posix()

    def place(path: str) -> str:
        return name if path == stand_in else path

    def step(at: Step) -> Step:
        return replace(at, path=place(at.path))

    def moved(finding: Finding) -> Finding:
        return replace(
            finding,
            path=place(finding.path),
            region=tuple(map(step, finding.region)),
            definition=finding.definition and step(finding.definition),
        )

    findings = tuple(map(moved, result.findings))
    return findings, tuple(replace(failure, path=place(failure.path)) for failure in result.failures)
