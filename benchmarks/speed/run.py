"""CPU seconds per megabyte of source: compilelint's static pass beside two parsers that do nothing but parse.

    python benchmarks/speed/run.py [FOLDER ...] [--repeat N]

Each is measured in a process of its own, start-up and imports left out, and the least of N runs is kept. Without a
folder: `torch/nn` as installed, then the fixtures of this repository.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKS = ("ast.parse", "libcst.parse_module", "compilelint")


def main() -> None:
    """Measure and print a table, one line per folder and work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of each, of which the least counts")
    parser.add_argument("--measure", choices=WORKS, help=argparse.SUPPRESS)  # what a child process does
    options = parser.parse_args()
    if options.measure:
        print(measured(options.measure, sources(options.folders[0])))
        return
    print(f"{'folder':24} {'files':>5} {'MB':>6}  {'':20} {'CPU s':>7} {'s/MB':>7} {'x ast':>6}")
    for folder in options.folders or default_folders():
        files = sources(folder)
        megabytes = sum(file.stat().st_size for file in files) / 1e6
        if not files:
            sys.exit(f"{folder}: no Python files")
        name = "/".join(folder.resolve().parts[-2:])
        seconds = {work: min(in_child(work, folder) for _ in range(options.repeat)) for work in WORKS}
        for work in WORKS:
            row = f"{seconds[work]:7.2f} {seconds[work] / megabytes:7.2f} {seconds[work] / seconds[WORKS[0]]:6.1f}"
            print(f"{name:24} {len(files):5} {megabytes:6.2f}  {work:20} {row}")


def default_folders() -> list[Path]:
    """`torch/nn` where torch is installed (it is not imported), and the fixtures."""
    torch = importlib.util.find_spec("torch")
    installed = [Path(torch.origin).parent / "nn"] if torch is not None and torch.origin else []
    return [*installed, ROOT / "fixtures"]


def sources(folder: Path) -> list[Path]:
    """The Python files below a folder that parse, so that all three do the same files."""
    return [file for file in sorted(folder.resolve().rglob("*.py")) if parses(file)]


def parses(file: Path) -> bool:
    """Whether `ast` takes the file, as UTF-8."""
    try:
        ast.parse(file.read_bytes().decode())
    except (SyntaxError, ValueError):
        return False
    return True


def in_child(work: str, folder: Path) -> float:
    """CPU seconds of one run in a process of its own."""
    command = [sys.executable, __file__, str(folder), "--measure", work]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measured(work: str, files: Sequence[Path]) -> float:
    """CPU seconds, of all threads, from the first file to the last."""
    task = prepared(work, files)
    gc.disable()  # as compilelint does; else collecting is a good part of what parsing costs
    start = time.process_time()
    task()
    return time.process_time() - start


def prepared(work: str, files: Sequence[Path]) -> Callable[[], object]:
    """What is to be measured, everything imported."""
    if work == "compilelint":
        from compilelint.config import Settings
        from compilelint.rulebook import load_rules
        from compilelint.static import lint

        lint([], Settings(root=ROOT))
        load_rules()
        return lambda: lint(files, Settings(root=ROOT))
    if work == "libcst.parse_module":
        import libcst

        libcst.parse_module("x = 1\n")
        return lambda: [libcst.parse_module(file.read_bytes()) for file in files]
    return lambda: [ast.parse(file.read_bytes()) for file in files]


if __name__ == "__main__":
    main()
