"""What a report means for the exit code."""

from __future__ import annotations

from pathlib import Path

from compilelint.config import Settings
from compilelint.model import Finding, Report
from compilelint.sift.select import SEEN
from compilelint.static.project.discover import Discovery


def exit_code(report: Report, settings: Settings, found: Discovery) -> int:
    """0 or 1, for a run that checked something; 2 if it was interrupted.

    `fail_on`: `any` finding that the compiler has not refuted (`handled`); `certain` ones and those it confirmed; only
    `confirmed` ones; `never`. An input that could not be read and a target that died also count, but for `never`.

    With a baseline only the code that is checked counts: what breaks in a new release of somebody's library is shown,
    apart, and fails nothing.
    """
    if any(run.status == "interrupted" for run in report.targets):
        return 2
    if settings.fail_on == "never":
        return 0
    if report.failures or any(run.status != "ok" for run in report.targets):
        return 1
    own = {str(file) for file in found.files}
    counted = [
        finding
        for finding in report.findings
        if settings.baseline is None or not Path(finding.path).is_absolute() or finding.path in own
    ]
    return int(any(_fails(finding, settings) for finding in counted))


def _fails(finding: Finding, settings: Settings) -> bool:
    if finding.verdict in SEEN:
        return True
    if finding.verdict == "handled" or settings.fail_on == "confirmed":
        return False
    return settings.fail_on == "any" or finding.confidence == "certain"
