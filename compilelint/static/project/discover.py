"""Arguments to files: what of a tree is Python source, notebooks included, that the user wants checked.

A path named on the command line is always walked, wherever it lies; exclude patterns and .gitignore speak only about
what is found below it (`force_exclude` makes the patterns speak about named paths too, for callers such as pre-commit
that name files they were handed).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from compilelint.config import Settings
from compilelint.model import Failure
from compilelint.record import record
from compilelint.static.project.places import real_paths

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@record(frozen=True, slots=True)
class Discovery:
    """What the arguments stand for.

    `files` are absolute, each file once, in the order of the arguments and sorted below each. `named` are those of
    them that were arguments themselves. `empty` are the folders without any Python file, as the user wrote them.
    `excluded` counts arguments that `force_exclude` dropped.
    """

    files: tuple[Path, ...] = ()
    named: frozenset[Path] = frozenset()
    empty: tuple[str, ...] = ()
    excluded: int = 0
    failures: tuple[Failure, ...] = ()


@record(slots=True)
class _Found:
    """Files by their real path, so that a file reached twice (overlapping arguments, a symlink) is kept once."""

    by_real_path: dict[Path, Path] = field(default_factory=dict)
    real_path: Callable[[Path], Path] = field(default_factory=real_paths)

    def add(self, file: Path) -> None:
        real = self.real_path(file)
        if file == real or real not in self.by_real_path:
            self.by_real_path[real] = file


def discover(arguments: Sequence[str], settings: Settings, cwd: Path) -> Discovery:
    """The Python files that `arguments` (paths relative to `cwd`, or absolute) stand for."""
    found = _Found()
    named: set[Path] = set()
    empty: list[str] = []
    failures: list[Failure] = []
    excluded = 0
    for argument in arguments:
        path = Path(os.path.normpath(cwd / argument))
        if settings.force_exclude and _Patterns(settings, path).names(path):
            excluded += 1
        elif path.is_file():
            found.add(path)
            named.add(path.resolve())
        elif path.is_dir():
            below = list(_walk(path, settings))
            for file in below:
                found.add(file)
            if not below:
                empty.append(argument)
        else:
            failures.append(Failure(argument, _why_not(path)))
    return Discovery(
        files=tuple(found.by_real_path.values()),
        named=frozenset(file for real, file in found.by_real_path.items() if real in named),
        empty=tuple(empty),
        excluded=excluded,
        failures=tuple(failures),
    )


def _why_not(path: Path) -> str:
    if path.is_symlink():
        return "broken symbolic link"
    return "not a file or folder" if path.exists() else "no such file or folder"


def _walk(top: Path, settings: Settings) -> Iterator[Path]:
    """The *.py and *.ipynb files below `top`.

    Symbolic links to folders are not followed, which also keeps the walk finite.
    """
    patterns = _Patterns(settings, top)
    ignores = _Ignores(top) if settings.respect_gitignore else None
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:  # a folder that may not be read has nothing to offer
            continue
        if ignores:
            ignores.enter(folder, {entry.name for entry in entries})
        below = []
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not (entry.name.endswith((".py", ".ipynb")) and _is_file(entry)):
                continue
            path = folder / entry.name
            if patterns.exclude(path) or (ignores and ignores.ignore(folder, entry.name, is_folder)):
                continue
            if is_folder:
                below.append(path)
            else:
                yield path
        pending.extend(reversed(below))


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a symbolic link to itself
        return False


class _Patterns:
    """The exclude settings, in .gitignore's pattern language, relative to the configuration's folder.

    Where the walked folder itself lies under an excluded one, it was named on purpose: patterns are then relative to
    it.
    """

    def __init__(self, settings: Settings, top: Path) -> None:
        names = (*settings.exclude, *settings.extend_exclude)
        # The default list holds plain names; only a real pattern is worth the import of pathspec.
        self._plain = frozenset(name for name in names if not set(name) & set("*?[]!/#\\"))
        patterns = [name for name in names if name not in self._plain]
        self._spec = _spec(patterns) if patterns else None
        self._root = settings.root
        self._base = top if not top.is_relative_to(self._root) or self.names(top) else self._root

    def exclude(self, path: Path) -> bool:
        """Whether an entry below the walked folder is excluded; its parents were asked before."""
        return path.name in self._plain or self._match(path, self._base)

    def names(self, path: Path) -> bool:
        """Whether `path` or a folder above it, up to the configuration's folder, is excluded."""
        if not path.is_relative_to(self._root):
            return path.name in self._plain
        inside = path.relative_to(self._root)
        return not self._plain.isdisjoint(inside.parts) or self._match(path, self._root)

    def _match(self, path: Path, base: Path) -> bool:
        if self._spec is None or path == base:
            return False
        name = path.relative_to(base).as_posix()
        return self._spec.match_file(name) or self._spec.match_file(f"{name}/")


class _Ignores:
    """The .gitignore files about a walked folder: its own, those below it, those above it in its repository."""

    def __init__(self, top: Path) -> None:
        self._specs: dict[Path, GitIgnoreSpec | None] = {}
        self._barrier: set[Path] = set()
        self._about: dict[Path, list[tuple[GitIgnoreSpec, str]]] = {}
        above = list(_up_to_repository(top))
        for folder in reversed(above):
            self._load(folder)
        if any(self._verdict(path.parent, path.name, True) for path in (top, *above[:-1])):
            self._specs.clear()  # named although ignored: what is ignored above it cannot be meant
        self._about.clear()

    def enter(self, folder: Path, names: set[str]) -> None:
        """Take in the ignore files of a folder before its entries are asked about."""
        if ".git" in names:
            self._barrier.add(folder)
        if ".gitignore" in names or ".git" in names:
            self._load(folder)

    def ignore(self, folder: Path, name: str, is_folder: bool) -> bool:
        """Whether an entry of an entered folder is ignored."""
        return bool(self._specs) and self._verdict(folder, name, is_folder)

    def _verdict(self, folder: Path, name: str, is_folder: bool) -> bool:
        """The nearest file with an opinion decides, as in git; a repository's own folder ends the search."""
        for spec, above in self._specs_about(folder):
            include = spec.check_file(f"{above}{name}/" if is_folder else f"{above}{name}").include
            if include is not None:
                return include
        return False

    def _specs_about(self, folder: Path) -> list[tuple[GitIgnoreSpec, str]]:
        """The ignore files for what lies in a folder, nearest first, each with the way from there to the folder."""
        if folder not in self._about:
            spec, found = self._specs.get(folder), []
            if folder not in self._barrier and folder.parent != folder:
                found = [(one, f"{way}{folder.name}/") for one, way in self._specs_about(folder.parent)]
            self._about[folder] = [(spec, ""), *found] if spec is not None else found
        return self._about[folder]

    def _load(self, folder: Path) -> None:
        lines: list[str] = []
        for name in (Path(".git", "info", "exclude"), Path(".gitignore")):
            try:
                lines += (folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                continue
        if lines:
            self._specs[folder] = _spec(lines)


def _up_to_repository(top: Path) -> Iterator[Path]:
    """The folders from the one above `top` up to the root of its git repository; none outside a repository."""
    if (top / ".git").exists():
        return
    above = []
    for folder in top.parents:
        above.append(folder)
        if (folder / ".git").exists():
            yield from above
            return


def _spec(patterns: Sequence[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)
