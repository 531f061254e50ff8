"""One report out of what was predicted and what was seen: merged, sifted, with fixes and cards where they are shown."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from compilelint.command.codes import all_cards, rule_codes
from compilelint.command.output import outputs
from compilelint.config import Settings
from compilelint.model import Failure, Finding, Report, TargetRun
from compilelint.record import record
from compilelint.report.places import placed
from compilelint.sift import SUPPRESSION_CARD
from compilelint.sift.select import outside_per_file_ignores, selected, sure_enough
from compilelint.source import Sources
from compilelint.static.project.discover import Discovery, discover
from compilelint.static.project.places import shown


@record(frozen=True, slots=True)
class Request:
    """What is asked for: the options, the settings in force, the files found, and where their text comes from.

    `given` is the text on standard input under its absolute path, where that takes the place of files.
    """

    options: argparse.Namespace
    settings: Settings
    found: Discovery
    sources: Sources
    given: Mapping[Path, str] = field(default_factory=dict)


def predicted(request: Request) -> tuple[tuple[Finding, ...], tuple[Failure, ...]]:
    """What the static pass says about the files found, and what could not be read."""
    found, settings = request.found, request.settings
    if not found.files:
        return (), found.failures
    if request.given:
        from compilelint.command.stdin import lint_text

        (path,) = request.given
        return lint_text(shown(path, request.sources.cwd), request.sources, settings)
    if request.options.context:
        return _predicted_in_context(request)
    from compilelint.sift.suppress import WORDS
    from compilelint.static import lint

    result = lint(found.files, settings, _cores(), settings.cache_folder, WORDS)
    request.sources.unmarked = result.without_words
    return result.findings, (*found.failures, *result.failures)


def _predicted_in_context(request: Request) -> tuple[tuple[Finding, ...], tuple[Failure, ...]]:
    """As `predicted`; what `--context` names is read too, for the code that calls the files, and not reported on."""
    from compilelint.static import lint

    found, settings, cwd = request.found, request.settings, request.sources.cwd
    around = discover(request.options.context, settings, cwd)
    every = tuple(dict.fromkeys((*found.files, *around.files)))
    result = lint(every, settings, _cores(), settings.cache_folder)
    real = {file.resolve() for file in found.files}

    def asked(path: str) -> bool:
        return (cwd / path).resolve() in real

    findings = tuple(finding for finding in result.findings if asked(finding.path))
    unread = tuple(failure for failure in result.failures if asked(failure.path))
    return findings, (*found.failures, *around.failures, *unread)


def _cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def joined(
    findings: tuple[Finding, ...],
    failures: tuple[Failure, ...],
    runs: tuple[TargetRun, ...],
    request: Request,
    *,
    with_fixes: bool,
) -> Report:
    """What was predicted and what was seen as one report, sifted as the request says."""
    if runs:
        from compilelint.merge import merge

        findings = merge(findings, runs)
    findings, accepted = _new(_sifted(findings, request, bool(runs)), request)
    if with_fixes:
        from compilelint.fix import fixed

        findings = fixed(findings, request.sources)
    report = Report(
        findings=findings,
        failures=failures,
        targets=runs,
        cards=all_cards() if _shows_cards(request.options) else (),
        torch=torch_version(request.settings, runs),
        files=_readable(request.found, failures, request.sources.cwd),
        accepted=accepted,
    )
    return placed(report, request.sources)


def _sifted(findings: tuple[Finding, ...], request: Request, ran: bool) -> tuple[Finding, ...]:
    from compilelint.sift.suppress import WORDS, suppressed

    settings, found, sources = request.settings, request.found, request.sources
    names = {file: shown(file, sources.cwd) for file in found.files}
    may_hold = (name for file, name in names.items() if file.as_posix() not in sources.unmarked)
    pointed_at = {finding.path for finding in findings}.difference(names.values())
    findings = suppressed(
        findings,
        ((path, sources.text(path)) for path in (*may_hold, *sorted(pointed_at)) if sources.may_hold(path, WORDS)),
        known=rule_codes,
        report_unused=frozenset(path for file, path in names.items() if file not in found.named),
        ran=ran,
    )
    own = frozenset(names.values())  # what is wrong with a comment in somebody else's file is theirs to know
    findings = tuple(f for f in findings if f.rule != SUPPRESSION_CARD.code or f.path in own)
    findings = selected(findings, settings)
    findings = outside_per_file_ignores(findings, settings, sources.cwd)
    return sure_enough(findings, settings.min_confidence)


def _new(findings: tuple[Finding, ...], request: Request) -> tuple[tuple[Finding, ...], int]:
    """The findings on changed lines that the baseline does not accept, and how many there it does."""
    options, settings, sources = request.options, request.settings, request.sources
    if options.diff_base:
        from compilelint.sift.changed import changed_lines, on_changed_lines

        findings = on_changed_lines(findings, changed_lines(options.diff_base, sources.cwd), sources)
    if settings.baseline is None or options.update_baseline:
        return findings, 0
    from compilelint.sift.baseline import not_in_baseline, read_baseline

    new = not_in_baseline(findings, read_baseline(settings.baseline))
    return new, len(findings) - len(new)


def _readable(found: Discovery, failures: Sequence[Failure], cwd: Path) -> int:
    """How many of the files found could be read and parsed."""
    unread = {failure.path for failure in failures}
    if not unread:
        return len(found.files)
    return sum(shown(file, cwd) not in unread for file in found.files)


def _shows_cards(options: argparse.Namespace) -> bool:
    """Whether a report tells about rules themselves; only for that are they loaded where nothing was walked."""
    return any(output.format == "sarif" for output in outputs(options.output_format, options.output_file))


def torch_version(settings: Settings, runs: Sequence[TargetRun] = ()) -> str:
    """`target-torch`, else the version that ran, else that of the installed torch (which is not imported), else ""."""
    from compilelint.static import installed

    if settings.target_torch:
        return settings.target_torch
    for run in runs:
        if run.torch:
            return run.torch
    return installed() or ""
