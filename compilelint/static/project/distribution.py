"""Whether packages are there for others to install, or make up a program that is run where it lies."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_LEVELS = 3
"""How far above its packages a project's own files lie: beside them, above `src`, above `python/src`."""
_OF_A_LIBRARY = frozenset({"setup.py", "setup.cfg", "PKG-INFO"})
_INSTALLED = (".dist-info", ".egg-info", ".egg-link")
_OF_A_PROGRAM = (".git", "Dockerfile", "requirements", "environment.y")
_TABLES = ("[project]", "[build-system]", "[tool.poetry]", "[tool.flit")
"""What a pyproject.toml has that says how to build a distribution, and not only how to lint."""


def packages_run_in_place(modules: Iterable[tuple[str, Path]]) -> frozenset[str]:
    """The top-level packages among some modules, by dotted name and file, that belong to a program."""
    in_folders: dict[tuple[str, int, str], Path] = {}
    for name, path in modules:
        top, dot, _ = name.partition(".")
        if dot:
            folder, file = os.path.split(path)
            in_folders.setdefault((folder, name.count(".") + (file == "__init__.py"), top), path)
    tops: dict[Path, set[str]] = {}
    for (_, depth, top), path in in_folders.items():
        tops.setdefault(path.parents[depth], set()).add(top)
    return frozenset(top for folder, names in tops.items() if _is_of_program(folder) for top in names)


def _is_of_program(folder: Path) -> bool:
    """Whether what needs the packages in `folder` is listed, or in version control, and nothing says how to build them.

    What says neither may be anything.
    """
    for place in (folder, *folder.parents)[:_LEVELS]:
        try:
            names = {entry.name for entry in place.iterdir()}
        except OSError:
            return False
        if names & _OF_A_LIBRARY or any(name.endswith(_INSTALLED) for name in names) or _is_built(place, names):
            return False
        if any(name.startswith(_OF_A_PROGRAM) for name in names):
            return True
    return False


def _is_built(place: Path, names: set[str]) -> bool:
    if "pyproject.toml" not in names:
        return False
    try:
        lines = (place / "pyproject.toml").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.strip().startswith(_TABLES) for line in lines)
