"""`compilelint clean`: removes the cache folder."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from compilelint.command.options import settings_for
from compilelint.config import ConfigError


def run(options: argparse.Namespace) -> int:
    """Remove the folder that `check` with the same paths and configuration keeps its outcomes in."""
    cwd = Path.cwd()
    named = [Path(os.path.normpath(cwd / argument)) for argument in options.paths or ["."]]
    folder = settings_for(options, named, cwd).cache_folder
    if folder is None or not folder.exists():
        print(f"nothing to remove: there is no {folder}")
        return 0
    if not (folder / "CACHEDIR.TAG").is_file():
        raise ConfigError(f"{folder}: no cache folder of compilelint (it has no CACHEDIR.TAG); remove it yourself")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be removed: {error.strerror or error}") from None
    print(f"removed {folder}")
    return 0
