"""Where reports go: formats, files, colour."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from compilelint.config import ConfigError, Settings, did_you_mean
from compilelint.model import Failure, Report
from compilelint.record import record
from compilelint.report import FORMATS, Format, Look, render
from compilelint.source import Sources
from compilelint.static.project.discover import Discovery


@record(frozen=True, slots=True)
class Output:
    """One format and its file; None is standard output."""

    format: Format
    file: Path | None = None


def outputs(formats: Sequence[str] | None, file: str | None) -> tuple[Output, ...]:
    """What `--output-format FORMAT[:FILE]` and `--output-file FILE` ask for.

    At most one format has no file of its own: it goes to `--output-file`, or to standard output. Raises ConfigError.
    """
    asked = []
    for text in formats or ("full",):
        name, _, target = text.partition(":")
        if name not in FORMATS:
            raise ConfigError(
                f"--output-format: '{name}' is not one of {', '.join(FORMATS)}{did_you_mean(name, FORMATS)}"
            )
        asked.append(Output(name, Path(target) if target else None))
    free = [output for output in asked if output.file is None]
    if len(free) > 1:
        names = " and ".join(output.format for output in free)
        raise ConfigError(f"--output-format: {names} both go to standard output; write FORMAT:FILE for all but one")
    if file and not free:
        raise ConfigError("--output-file: every --output-format has a file already")
    return tuple(Output(output.format, Path(file)) if file and output in free else output for output in asked)


def emit(report: Report, wanted: Iterable[Output], options: argparse.Namespace, sources: Sources) -> None:
    """Write the report in every format. Raises ConfigError for a file that cannot be written."""
    for output in wanted:
        colour = output.file is None and wants_colour(options.color)
        look = Look(
            sources,
            colour=colour,
            statistics=options.statistics,
            quiet=options.quiet,
            category=options.sarif_category or "",
            warn=lambda message: print(f"compilelint: {message}", file=sys.stderr),
        )
        text = render(report, output.format, look)
        if output.file is None:
            write_stdout(text)
            continue
        try:
            output.file.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        except OSError as error:
            raise ConfigError(f"{output.file}: cannot be written: {error.strerror or error}") from None


def write_stdout(text: str) -> None:
    """Write UTF-8 whatever the locale says: a report in a file or pipe must not depend on it."""
    data = text.encode("utf-8", errors="replace")  # the name of a file may be no text at all
    if sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(data.decode("utf-8"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    sys.stdout.flush()


def tell_failures(failures: Iterable[Failure], sources: Sources) -> None:
    """One line on standard error per input that could not be checked."""
    for failure in failures:
        place = failure.path if failure.line is None else sources.place(failure.path, failure.line)
        print(f"compilelint: {place}: {' '.join(failure.message.split())}", file=sys.stderr)


def wants_colour(choice: str) -> bool:
    """Whether standard output gets colour: `--color`, then NO_COLOR and FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def tell_unread(report: Report, found: Discovery, sources: Sources) -> None:
    """One line on standard error for each input that could not be checked or holds nothing to check."""
    tell_failures(report.failures, sources)
    for argument in found.empty:
        print(f"compilelint: no Python files found under {argument}", file=sys.stderr)


def update_baseline(report: Report, settings: Settings) -> int:
    """Write the findings to the baseline of the settings; the exit code. Raises ConfigError."""
    from compilelint.sift.baseline import baseline_text

    if settings.baseline is None:
        raise ConfigError("--update-baseline: say where with --baseline FILE, or 'baseline' in the configuration")
    try:
        settings.baseline.write_text(baseline_text(report.findings), encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigError(f"{settings.baseline}: cannot be written: {error.strerror or error}") from None
    print(f"{settings.baseline}: {len(report.findings)} accepted")
    return 0
