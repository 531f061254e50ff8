"""What a file is called when it is imported, told by where it lies."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

_PROJECT_MARKS = ("pyproject.toml", "setup.py", ".git")
"""What lies in the top folder of a project: no package reaches across it."""


def module_name(path: Path) -> tuple[str, Path]:
    """The dotted name a file has when imported, and the folder its top-level package lies in."""
    return next(module_names([path]))


def module_names(paths: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """As `module_name`, for each path; what there is to know about a folder is found out once."""
    packages: dict[str, tuple[list[str], Path]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        parts, top = packages.get(folder) or _package(path.parent, packages)
        yield ".".join(parts if name == "__init__.py" else [*parts, path.stem]) or path.stem, top


def are_scripts(paths: Iterable[Path]) -> Iterator[bool]:
    """Of each path whether it lies in no package."""
    scripts: dict[str, bool] = {}
    for path in paths:
        folder, _ = os.path.split(path)
        if folder not in scripts:
            scripts[folder] = not (path.parent / "__init__.py").exists()
        yield scripts[folder]


def _package(folder: Path, known: dict[str, tuple[list[str], Path]]) -> tuple[list[str], Path]:
    """The names that lead to a folder from its top-level package, and where that lies; `known` keeps the answers."""
    if str(folder) not in known:
        parts: list[str] = []
        top = folder
        if folder.name.isidentifier() and _is_in_package(folder):
            above, top = _package(folder.parent, known)
            parts = [*above, folder.name]
        known[str(folder)] = parts, top
    return known[str(folder)]


def _is_in_package(folder: Path) -> bool:
    """Whether a folder is a package, or a part of one that needs no `__init__.py` of its own (PEP 420)."""
    while not (folder / "__init__.py").exists():
        if any((folder / mark).exists() for mark in _PROJECT_MARKS) or not folder.parent.name.isidentifier():
            return False
        folder = folder.parent
    return True


def is_library(name: str) -> bool:
    """Whether a module name means a library whatever files are linted: a script called `torch.py` is not torch."""
    top = name.partition(".")[0]
    return top in ("torch", "numpy", "scipy", "triton", "jax", "tensorflow") or top in sys.stdlib_module_names


def folders_towards(files: Iterable[Path], above: Collection[Path]) -> frozenset[str]:
    """The names of folders that lie in one of `above` and lead to one of `files`: imports there may begin with them."""
    inner = {path.parent for path in files} if above else ()
    found = {path.parts[len(folder.parts)] for path in inner for folder in path.parents if folder in above}
    return frozenset(filter(str.isidentifier, found))
