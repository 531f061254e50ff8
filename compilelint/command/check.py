"""`compilelint check`: discover, lint, run the targets, merge, sift, report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compilelint.command.assembly import Request, joined, predicted
from compilelint.command.codes import check_selection
from compilelint.command.exit_code import exit_code
from compilelint.command.options import settings_for
from compilelint.command.output import Output, emit, outputs, tell_unread, update_baseline
from compilelint.config import ConfigError
from compilelint.model import Report, TargetRun
from compilelint.report import SHOWS_FIXES
from compilelint.source import Sources, decode
from compilelint.static.project.discover import Discovery, discover
from compilelint.static.project.places import shown

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
        print("".join(f"{shown(file, cwd)}\n" for file in found.files), end="")
        return 0
    sources = Sources(cwd, {shown(path, cwd): text for path, text in given.items()})
    report, sources = _made(Request(options, settings, found, sources, given), wanted)
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


def _made(request: Request, wanted: Sequence[Output]) -> tuple[Report, Sources]:
    """The report, of what remains where fixes are made, and the sources as they are then."""
    options = request.options
    if not options.fix or options.diff:
        with_fixes = options.diff or any(output.format in SHOWS_FIXES for output in wanted)
        return _report(request, with_fixes=with_fixes), request.sources
    from compilelint.command.fix import fix
    from compilelint.command.verify import fix_verified

    def check(sources: Sources) -> Report:
        return _report(replace(request, sources=sources), with_fixes=True)

    make = fix_verified if options.verify else fix
    return make(check, request.found.files, request.sources.cwd, unsafe=options.unsafe_fixes)


def _report(request: Request, *, with_fixes: bool) -> Report:
    specs = _targets(request)  # before the static pass: a wrong name should not cost its time
    traced: tuple[TargetRun, ...] = ()
    if request.options.trace:
        from compilelint.command.trace import read_traces

        traced = read_traces(request.options.trace, request.found.files)
    findings, failures = predicted(request)
    runs = traced + _runs(specs, request)
    return joined(findings, failures, runs, request, with_fixes=with_fixes)


def _targets(request: Request) -> Sequence[TargetSpec]:
    if not (request.options.runtime or request.options.target):
        return ()
    from compilelint.command.targets import target_specs

    return target_specs(request.options.target, request.settings)


def _runs(specs: Sequence[TargetSpec], request: Request) -> tuple[TargetRun, ...]:
    """What the targets showed, up to an interrupt if there is one.

    Raises TargetsInterrupted for it where files are to be written: what is not known in full is no ground for that.
    """
    if not specs:
        return ()
    from compilelint.command.targets import TargetsInterrupted, run_specs

    try:
        return run_specs(specs, request.settings, results=request.options.verify)
    except TargetsInterrupted as stop:
        if request.options.fix or request.options.update_baseline:
            raise
        return stop.runs


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
