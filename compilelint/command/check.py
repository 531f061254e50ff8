"""`compilelint check`: discover, lint, run the targets, merge, sift, report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from compilelint.command.options import settings_for
from compilelint.command.output import emit, outputs, tell_failures
from compilelint.config import ConfigError, Settings
from compilelint.model import Failure, Finding, Report, RuleCard, TargetRun
from compilelint.report import SHOWS_FIXES
from compilelint.report.places import placed
from compilelint.sift import BUILT_IN_CARDS, SUPPRESSION_CARD
from compilelint.sift.select import SEEN, check_codes, outside_per_file_ignores, selected, sure_enough
from compilelint.source import Sources, decode
from compilelint.static.discover import Discovery, discover

if TYPE_CHECKING:
    from compilelint.runtime.launch import TargetSpec


def run(options: argparse.Namespace) -> int:
    """Check what the options name, write the reports, return the exit code."""
    cwd = Path.cwd()
    wanted = outputs(options.output_format, options.output_file)
    arguments = options.paths or ["."]
    _check_fix_options(options, arguments)
    given = _stdin_text(arguments, options.stdin_filename, cwd)
    named = [Path(os.path.normpath(cwd / argument)) for argument in arguments if argument != "-"] or [*given]
    settings = settings_for(options, named, cwd)
    check_selection(settings)
    if options.show_settings:
        from compilelint.command.show import settings_text

        print(settings_text(settings), end="")
        return 0
    found = Discovery(files=tuple(given), named=frozenset(given)) if given else discover(arguments, settings, cwd)
    if options.show_files:
        print("".join(f"{_shown(file, cwd)}\n" for file in found.files), end="")
        return 0
    sources = Sources(cwd, {_shown(path, cwd): text for path, text in given.items()})
    with_fixes = options.fix or options.diff or any(output.format in SHOWS_FIXES for output in wanted)
    if options.fix and not options.diff:
        from compilelint.command.fix import fix
        from compilelint.command.verify import fix_verified

        check = partial(_report, options, settings, found, given, with_fixes=True)
        make = fix_verified if options.verify else fix
        report, sources = make(check, found.files, cwd, unsafe=options.unsafe_fixes)
    else:
        report = _report(options, settings, found, given, sources, with_fixes=with_fixes)
    tell_unread(report, found, sources)
    if options.update_baseline:
        return update_baseline(report, settings)
    if not _checked(report, found):
        return 2
    if options.diff:
        from compilelint.command.fix import show

        return show(report, sources, unsafe=options.unsafe_fixes)
    emit(report, wanted, options, sources)
    return exit_code(report, settings, found)


def tell_unread(report: Report, found: Discovery, sources: Sources) -> None:
    """One line on standard error for each input that could not be checked or holds nothing to check."""
    tell_failures(report.failures, sources)
    for argument in found.empty:
        print(f"compilelint: no Python files found under {argument}", file=sys.stderr)


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


def _report(
    options: argparse.Namespace,
    settings: Settings,
    found: Discovery,
    given: dict[Path, str],
    sources: Sources,
    *,
    with_fixes: bool,
) -> Report:
    specs: Sequence[TargetSpec] = ()
    if options.runtime or options.target:
        from compilelint.command.targets import target_specs

        specs = target_specs(options.target, settings)  # before the static pass: a wrong name should not cost its time
    traced: tuple[TargetRun, ...] = ()
    if options.trace:
        from compilelint.command.trace import read_traces

        traced = read_traces(options.trace, found.files)
    failures: tuple[Failure, ...]
    if given:
        from compilelint.command.stdin import lint_text

        ((path, text),) = given.items()
        findings, failures = lint_text(_shown(path, sources.cwd), text, settings)
    else:
        findings, failures = predicted(found, options.context or (), settings, sources.cwd)
    runs = traced
    if specs:
        from compilelint.command.targets import TargetsInterrupted, run_specs

        try:
            runs += run_specs(specs, settings, results=options.verify)
        except TargetsInterrupted as stop:
            if options.fix or options.update_baseline:  # what is not known in full is no ground for either
                raise
            runs += stop.runs
    return joined(findings, failures, runs, Request(options, settings, found, sources), with_fixes=with_fixes)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for: the options, the settings in force, the files found, and where their text comes from."""

    options: argparse.Namespace
    settings: Settings
    found: Discovery
    sources: Sources


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


def predicted(
    found: Discovery, context: Sequence[str], settings: Settings, cwd: Path
) -> tuple[tuple[Finding, ...], tuple[Failure, ...]]:
    """What the static pass says about the files found; `context` is read with them, for the code that calls them."""
    if not found.files:
        return (), found.failures
    from compilelint.static import lint

    if not context:
        result = lint(found.files, settings, _cores(), settings.cache_folder)
        return result.findings, (*found.failures, *result.failures)
    around = discover(context, settings, cwd)
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


def _sifted(findings: tuple[Finding, ...], request: Request, ran: bool) -> tuple[Finding, ...]:
    from compilelint.sift.suppress import suppressed

    settings, found, sources = request.settings, request.found, request.sources
    shown = {file: _shown(file, sources.cwd) for file in found.files}
    pointed_at = {finding.path for finding in findings}.difference(shown.values())
    findings = suppressed(
        findings,
        ((path, sources.text(path)) for path in (*shown.values(), *sorted(pointed_at))),
        known=_codes,
        report_unused=frozenset(path for file, path in shown.items() if file not in found.named),
        ran=ran,
    )
    own = frozenset(shown.values())  # what is wrong with a comment in somebody else's file is theirs to know
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
    return sum(_shown(file, cwd) not in unread for file in found.files)


def _checked(report: Report, found: Discovery) -> bool:
    """Whether anything at all was checked: a file that could be read, a target that ran, or nothing was asked for."""
    finished = any(run.status == "ok" for run in report.targets)
    return bool(report.files) or finished or (found.excluded > 0 and not report.failures and not found.empty)


def _check_fix_options(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Raise ConfigError where the fix options ask for what cannot be done."""
    if options.unsafe_fixes and not (options.fix or options.diff):
        raise ConfigError("--unsafe-fixes goes with --fix or --diff")
    if options.verify and (not options.fix or options.diff or not (options.runtime or options.target)):
        raise ConfigError("--verify goes with --fix and with --runtime or --target: it runs the targets again")
    if options.fix and not options.diff and options.trace:
        raise ConfigError("--fix would change the lines that the trace speaks of; --diff shows the fixes")
    if options.fix and not options.diff and "-" in arguments:
        raise ConfigError("--fix has no file to write for standard input; --diff shows the fixes")


def update_baseline(report: Report, settings: Settings) -> int:
    from compilelint.sift.baseline import baseline_text

    if settings.baseline is None:
        raise ConfigError("--update-baseline: say where with --baseline FILE, or 'baseline' in the configuration")
    try:
        settings.baseline.write_text(baseline_text(report.findings), encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigError(f"{settings.baseline}: cannot be written: {error.strerror or error}") from None
    print(f"{settings.baseline}: {len(report.findings)} accepted")
    return 0


def check_selection(settings: Settings) -> None:
    """Raise ConfigError for a code that no rule has."""
    groups = {
        "select": settings.select,
        "extend-select": settings.extend_select,
        "ignore": settings.ignore,
        "per-file-ignores": [code for _, codes in settings.per_file_ignores for code in codes],
    }
    for name, codes in groups.items():
        if any(code != "ALL" for code in codes):
            check_codes(codes, _codes(), name)


@lru_cache(maxsize=1)
def all_cards() -> tuple[RuleCard, ...]:
    """Every rule's card, sorted by code, with those of the codes that have no rule file."""
    from compilelint.rulebook import load_rules

    loaded = [rule.card for rule in load_rules()]
    taken = {card.code for card in loaded}
    return tuple(sorted([*loaded, *(c for c in BUILT_IN_CARDS if c.code not in taken)], key=lambda card: card.code))


def _shows_cards(options: argparse.Namespace) -> bool:
    """Whether a report tells about rules themselves; only for that are they loaded where nothing was walked."""
    return any(output.format == "sarif" for output in outputs(options.output_format, options.output_file))


def _codes() -> Collection[str]:
    return [card.code for card in all_cards()]


def torch_version(settings: Settings, runs: Sequence[TargetRun] = ()) -> str:
    """`target-torch`, else the version that ran, else that of the installed torch (which is not imported), else ""."""
    from compilelint.static import installed

    if settings.target_torch:
        return settings.target_torch
    for run in runs:
        if run.torch:
            return run.torch
    return installed() or ""


def _shown(file: Path, cwd: Path) -> str:
    """A path as findings give it."""
    return (file.relative_to(cwd) if file.is_relative_to(cwd) else file).as_posix()


def _stdin_text(arguments: Sequence[str], name: str | None, cwd: Path) -> dict[Path, str]:
    """The text on standard input under its absolute path, if `-` is the argument."""
    if "-" not in arguments:
        if name:
            raise ConfigError("--stdin-filename goes with '-' as the path")
        return {}
    if len(arguments) > 1:
        raise ConfigError("'-' reads standard input and takes no other path beside it")
    path = Path(os.path.normpath(cwd / (name or "stdin.py")))
    return {path: decode(sys.stdin.buffer.read())}
