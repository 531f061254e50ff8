"""`compilelint run -- PROGRAM ...`: run a program and report what the compiler did in it, as `check` does."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from compilelint.command.assembly import Request, joined, predicted
from compilelint.command.codes import check_selection
from compilelint.command.exit_code import exit_code
from compilelint.command.options import settings_for
from compilelint.command.output import Output, emit, outputs, tell_unread, update_baseline
from compilelint.config import ConfigError, Settings
from compilelint.report import SHOWS_FIXES
from compilelint.runtime.program import run_program
from compilelint.source import Sources
from compilelint.static.project.discover import discover


def run(options: argparse.Namespace) -> int:
    """Run the program, then check the paths, write the reports and return the exit code: 2 for a program that fails.

    What is wrong with the arguments is told before the program starts.
    """
    cwd = Path.cwd()
    wanted = outputs(options.output_format, options.output_file)
    paths = options.paths or ["."]
    settings = settings_for(options, [Path(os.path.normpath(cwd / path)) for path in paths], cwd)
    check_selection(settings)
    _check_arguments(options.program, paths, wanted)
    _check_comparisons(options, settings, cwd)
    try:
        seen = run_program(options.program, timeout=options.timeout)
    except OSError as error:
        raise ConfigError(f"run: {options.program[0]}: {error.strerror or error}") from None
    found = discover(paths, settings, cwd)
    sources = Sources(cwd)
    request = Request(options, settings, found, sources)
    findings, failures = predicted(request)
    with_fixes = any(output.format in SHOWS_FIXES for output in wanted)
    report = joined(findings, failures, (seen,), request, with_fixes=with_fixes)
    tell_unread(report, found, sources)
    if seen.detail:
        print(f"compilelint: {seen.name}: {seen.detail}", file=sys.stderr)
    if options.update_baseline:
        return update_baseline(report, settings)
    emit(report, wanted, options, sources)
    return exit_code(report, settings, found) if seen.status == "ok" else 2


def _check_arguments(program: Sequence[str], paths: Sequence[str], wanted: Sequence[Output]) -> None:
    """Raise ConfigError for a program, a path or a report's folder that is not there."""
    if shutil.which(program[0]) is None:
        hint = f"; did you mean 'python {program[0]}'?" if Path(program[0]).is_file() else ""
        raise ConfigError(f"run: there is no program '{program[0]}' to run{hint}")
    for path in paths:
        if not Path(path).exists():
            raise ConfigError(f"{path}: no such file or folder")
    for output in wanted:
        if output.file is not None and not output.file.parent.is_dir():
            raise ConfigError(f"{output.file}: there is no folder {output.file.parent} to write it to")


def _check_comparisons(options: argparse.Namespace, settings: Settings, cwd: Path) -> None:
    """Raise ConfigError for a baseline or a revision to compare with that cannot be had."""
    if settings.baseline and not options.update_baseline:
        from compilelint.sift.baseline import read_baseline

        read_baseline(settings.baseline)
    if options.diff_base:
        from compilelint.sift.changed import changed_lines

        changed_lines(options.diff_base, cwd)
