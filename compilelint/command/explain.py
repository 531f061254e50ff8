"""`compilelint explain FILE:LINE`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from compilelint.command.options import settings_for
from compilelint.command.output import write_stdout
from compilelint.config import ConfigError


def run(options: argparse.Namespace) -> int:
    """Print why a line is compiled and what would happen there."""
    place = re.fullmatch(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?:?", options.place)
    if place is None:
        raise ConfigError(f"explain: expected FILE:LINE, found '{options.place}'")
    file = Path.cwd() / place["file"]
    if not file.is_file():
        raise ConfigError(f"{place['file']}: no such file")
    settings = settings_for(options, [file], Path.cwd())
    from compilelint.static import explain

    write_stdout(explain(file, int(place["line"]), settings).rstrip("\n") + "\n")
    return 0
