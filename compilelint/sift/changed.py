"""Only what changed: the lines of the working tree that differ from a git revision."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from compilelint.config import ConfigError
from compilelint.model import Finding
from compilelint.source import Sources

_READ = ("*.py", "*.pyi", "*.ipynb")
HUNK = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def changed_lines(reference: str, cwd: Path) -> dict[Path, tuple[range, ...]]:
    """Absolute path to the ranges of 1-based lines that differ from where HEAD and `reference` parted.

    Untracked files count as changed as a whole. Raises ConfigError outside a repository or for an unknown revision.
    """
    top = Path(_git(["rev-parse", "--show-toplevel"], cwd).decode().strip())
    base = _git(["merge-base", "--end-of-options", reference, "HEAD"], cwd, reference).decode().strip()
    diff = _git(["diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-prefix", base, "--", *_READ], top)
    lines: dict[Path, list[range]] = {}
    file: Path | None = None
    for line in diff.splitlines():
        if line.startswith(b"+++ "):
            name = _unquoted(line[4:])
            file = None if name == "/dev/null" else top / name
        elif file is not None and (hunk := HUNK.match(line)):
            start, count = int(hunk[1]), int(hunk[2] or 1)
            # A pure deletion has count 0: the line before it is what a reader sees next to the change.
            lines.setdefault(file, []).append(range(start, start + max(count, 1)))
    untracked = _git(["ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", *_READ], top)
    for name in untracked.decode(errors="surrogateescape").split("\0"):
        if name:
            lines[top / name] = [range(1, 1 << 31)]
    return {path: tuple(ranges) for path, ranges in lines.items()}


def on_changed_lines(
    findings: Iterable[Finding], changed: Mapping[Path, tuple[range, ...]], sources: Sources
) -> tuple[Finding, ...]:
    """The findings with at least one line of their span in a changed range."""

    def touches(finding: Finding) -> bool:
        ranges = changed.get((sources.cwd / finding.path).resolve(), ())
        span = sources.in_file(finding.path, finding.span) if ranges else finding.span
        return any(r.start <= span.end_line and span.line < r.stop for r in ranges)

    return tuple(finding for finding in findings if touches(finding))


def _git(arguments: list[str], cwd: Path, reference: str = "") -> bytes:
    try:
        run = subprocess.run(
            ["git", "-c", "core.quotePath=true", *arguments], cwd=cwd, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise ConfigError("--diff-base needs git, which was not found") from None
    if run.returncode:
        if reference:
            raise ConfigError(f"--diff-base: '{reference}' is not a revision that shares history with HEAD")
        raise ConfigError(f"--diff-base: {(run.stderr.decode(errors='replace').splitlines() or ['git failed'])[0]}")
    return run.stdout


def _unquoted(name: bytes) -> str:
    """A file name as git's diff prints it: octal escapes inside double quotes where it holds anything unusual."""
    name = name.rstrip(b"\t")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = name[1:-1].decode("ascii").encode("ascii").decode("unicode_escape").encode("latin-1")
    return name.decode("utf-8", errors="surrogateescape")
