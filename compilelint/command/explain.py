"""`compilelint explain FILE:LINE`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from compilelint.command.options import settings_for
from compilelint.command.output import write_stdout
from compilelint.config import ConfigError, Settings
from compilelint.static.discover import discover


def run(options: argparse.Namespace) -> int:
    """Print why a line is compiled and what would happen there."""
    place = re.fullmatch(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?:?", options.place)
    if place is None:
        raise ConfigError(f"explain: expected FILE:LINE, found '{options.place}'")
    file = Path.cwd() / place["file"]
    if not file.is_file():
        raise ConfigError(f"{place['file']}: no such file")
    settings = settings_for(options, [file], Path.cwd())
    line = int(place["line"])
    around = _around(file, line, options.paths, settings)
    from compilelint.static import explain

    write_stdout(explain(file, line, settings, around).rstrip("\n") + "\n")
    return 0


def _around(file: Path, line: int, paths: list[str], settings: Settings) -> list[Path]:
    """The files to read with `file`: what the user named, or what in its package names the line's function or class."""
    from compilelint.static.neighbours import neighbours, package_of

    if paths:
        found = discover(paths, settings, Path.cwd())
        if found.failures:
            raise ConfigError(f"explain: {found.failures[0].path}: {found.failures[0].message}")
        return list(found.files)
    return neighbours(file, line, discover([str(package_of(file))], settings, Path.cwd()).files)
