"""How the cost of a cold run grows with the size of what is linted, and how its time falls with the number of cores.

    python benchmarks/speed/scaling.py [FOLDER] [--copies N ...] [--cores [N ...]]

A larger project is made of copies of the package FOLDER, each under a name of its own, linted as one: so a megabyte is
the same kind of code whatever the size. `--cores` runs on so many cores, or on one, two, four and so on up to all that
there are. Without a folder: as `run.py`. For Linux.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from run import OURS, Cost, cost, default_folders, load_all


def main() -> None:
    """Measure and print a Markdown table, one line per size and number of cores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=default_folders()[0], metavar="FOLDER")
    parser.add_argument("--copies", nargs="+", type=int, default=[1], metavar="N")
    parser.add_argument("--cores", nargs="*", type=int, metavar="N")
    options = parser.parse_args()
    if max(options.cores or [1]) > len(_all_cores()):
        parser.error(f"--cores: there are {len(_all_cores())} here")
    load_all()
    columns = ("folder", "copies", "MB", "cores", "CPU s", "CPU s/MB", "peak MB", "s passed", "times faster")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    folder = options.folder.resolve()
    for copies in options.copies:
        with tempfile.TemporaryDirectory() as place:
            size = multiplied(folder, Path(place), copies)
            if not size:
                sys.exit(f"{folder}: no Python files")
            first: Cost | None = None
            for cores in [len(_all_cores())] if options.cores is None else options.cores or list(doubled()):
                spent = on_cores(cores, Path(place))
                first = first or spent
                row = f"{spent.seconds:.2f} | {spent.seconds / size:.2f} | {spent.megabytes:.0f} | {spent.passed:.2f}"
                faster = first.passed / spent.passed
                print(f"| `{folder.name}` | {copies} | {size:.2f} | {cores} | {row} | {faster:.2f} |", flush=True)


def multiplied(package: Path, place: Path, copies: int) -> float:
    """Copy a package so many times, each with its own name for itself in its imports; the size in megabytes."""
    itself = re.compile(rf"^(\s*(?:from|import)\s+){re.escape(package.name)}\b", re.MULTILINE)
    size = 0
    for number in range(copies):
        name = f"{package.name}{number or ''}"
        for file in package.rglob("*.py"):
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
            data = itself.sub(rf"\g<1>{name}", text).encode(errors="surrogateescape")
            copy = place / name / file.relative_to(package)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)
            size += len(data)
    return size / 1e6


def on_cores(count: int, folder: Path) -> Cost:
    """What a cold run costs that has so many cores, of which it uses all."""
    cores = _all_cores()
    os.sched_setaffinity(0, cores[:count])
    try:
        return cost((*OURS, "--no-cache"), folder)
    finally:
        os.sched_setaffinity(0, cores)


def doubled() -> Iterator[int]:
    """One, two, four and so on, and last the number of cores there are."""
    every, count = len(_all_cores()), 1
    while count < every:
        yield count
        count *= 2
    yield every


def _all_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


if __name__ == "__main__":
    main()
