"""All that outcomes depend on besides the files that were read."""

from __future__ import annotations

import sys
from pathlib import Path

import compilelint
from compilelint.rulebook import rule_folders
from compilelint.static.project.text import digest_of


def own_code() -> str:
    """What tells one state of compilelint itself from another: version, and size and time of each of its files."""
    folders = (Path(compilelint.__file__).parent, *map(Path, rule_folders()))
    files = sorted(file for folder in folders for file in folder.rglob("*") if file.suffix in (".py", ".json"))
    stats = ((file.stat(), file) for file in files)
    return "\0".join([compilelint.__version__, *(f"{file}:{s.st_size}:{s.st_mtime_ns}" for s, file in stats)])


def context_of(base: Path, names: dict[str, str], about: str, stamp: str) -> str:
    """All that an outcome depends on besides the content of files.

    `base` is the folder that paths are shown relative to, `names` the linted modules and where they lie, `about` the
    version of the knowledge table, the engine, the packages that nobody installs and the folders that imports are
    looked up in, `stamp` the state of compilelint's own code.
    """
    python = ".".join(map(str, sys.version_info))
    modules = (f"{name}\0{path}" for name, path in names.items())
    text = "\0".join((stamp, python, about, base.as_posix(), *modules))
    return digest_of(text.encode(errors="surrogateescape"))
