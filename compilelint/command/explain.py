"""`compilelint explain FILE:LINE`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from compilelint.command.options import settings_for
from compilelint.command.output import write_stdout
from compilelint.config import ConfigError, Settings
from compilelint.report.tally import plural
from compilelint.source import Sources
from compilelint.static.project.discover import discover


def run(options: argparse.Namespace) -> int:
    """Print why a line is compiled and what would happen there."""
    place = re.fullmatch(r"(?P<file>.+?):(?:cell (?P<cell>\d+):)?(?P<line>\d+)(?::\d+)?:?", options.place)
    if place is None:
        raise ConfigError(f"explain: expected FILE:LINE, found '{options.place}'")
    file = Path.cwd() / place["file"]
    if not file.is_file():
        raise ConfigError(f"{place['file']}: no such file")
    settings = settings_for(options, [file], Path.cwd())
    line = _line(place["file"], int(place["line"]), place["cell"])
    around = _around(file, line, options.paths, settings)
    from compilelint.static import explain

    write_stdout(explain(file, line, settings, around).rstrip("\n") + "\n")
    return 0


def _line(path: str, line: int, cell: str | None) -> int:
    """The line that the static pass knows: in a notebook, that of the module its cells make. Raises ConfigError."""
    sources = Sources(Path.cwd())
    notebook = sources.notebook(path)
    if notebook is None:
        lines = sources.lines(path)
        length = len(lines) - (lines[-1] == "")  # what stands behind the last line end is no line
        if not 0 < line <= length:
            raise ConfigError(f"explain: {path} has {plural(length, 'line')}, so no line {line}")
        return line
    if cell is None:
        raise ConfigError(f"explain: a line of a notebook needs its cell: '{path}:cell 1:{line}'")
    joined = notebook.line_of(int(cell), line)
    if joined is None:
        raise ConfigError(f"explain: {path} has no line {line} of Python in cell {cell}")
    return joined


def _around(file: Path, line: int, paths: list[str], settings: Settings) -> list[Path]:
    """The files to read with `file`: what the user named, or what in its package names the line's function or class."""
    from compilelint.static.regions.neighbours import neighbours, package_of

    if paths:
        found = discover(paths, settings, Path.cwd())
        if found.failures:
            raise ConfigError(f"explain: {found.failures[0].path}: {found.failures[0].message}")
        return list(found.files)
    return neighbours(file, line, discover([str(package_of(file))], settings, Path.cwd()).files)
