"""CPU seconds of compilelint beside other tools on the same files: cold, with everything kept, and after one edit.

    python benchmarks/speed/run.py [FOLDER ...] [--megabytes N ...] [--repeat N] [--plot FILE.svg]

Each work is a process of its own, started as a user starts it; what is counted is its user and system time with that of
its children, start-up included, and its largest resident memory. The least of N runs counts. The folder is copied
first, so that an edit (see `edits.py`) and a cache harm nothing. Without a folder: `torch/nn` as installed (it is read,
not imported).
`--megabytes 1 5 25` measures the first so many megabytes of each folder; see `scaling.py` for how the cost grows.
Peers that are not installed beside this Python are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from edits import EDITS

PARSE = "import gc, sys, pathlib, {0}; gc.disable(); [{0}.{1}(p.read_bytes()) for p in pathlib.Path('.').rglob('*.py')]"
OURS = (sys.executable, "-m", "compilelint", ".", "--isolated", "--exit-zero", "--output-format", "concise")
BIN = Path(sys.executable).parent
CHANGED = "compilelint, changed: "
EQUIVALENT = Path(__file__).with_name("semgrep.yml")


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """User and system time in seconds, the largest resident memory of a process in megabytes, seconds on the clock."""

    seconds: float
    megabytes: float
    passed: float


def works() -> Iterator[tuple[str, Sequence[str]]]:
    """What is measured, in the order of the table: a name and the command, run in the folder."""
    yield "ast.parse", (sys.executable, "-c", PARSE.format("ast", "parse"))
    yield "libcst.parse_module", (sys.executable, "-c", PARSE.format("libcst", "parse_module"))
    yield "compilelint, cold", (*OURS, "--no-cache")
    yield "compilelint, nothing changed", OURS
    for edit in EDITS:
        yield f"{CHANGED}{edit}", OURS
    yield "ruff, cold", (str(BIN / "ruff"), "check", "--no-cache", "--isolated", "--exit-zero", "--quiet", ".")
    yield "semgrep", (str(BIN / "semgrep"), "--metrics=off", "--quiet", "--config", str(EQUIVALENT), ".")
    yield "torch-preflight", (str(BIN / "torch-preflight"), "check", ".")
    yield "TorchFix", (str(BIN / "torchfix"), "--select", "ALL", ".")


def main() -> None:
    """Measure and print a Markdown table, one line per folder and work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--megabytes", nargs="+", type=float, default=[float("inf")], metavar="N")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs of each, of which the least counts")
    parser.add_argument("--only", metavar="TEXT", default="", help="works whose name holds this text only")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw seconds per megabyte of the last folder")
    options = parser.parse_args()
    print("| folder | files | MB | work | CPU s | s/MB | peak MB |\n| --- | --- | --- | --- | --- | --- | --- |")
    load_all()
    for folder in options.folders or default_folders():
        for limit in options.megabytes:
            with tempfile.TemporaryDirectory() as temporary:
                copy = Path(temporary) / folder.resolve().name
                files, size = copied(folder.resolve(), copy, limit)
                if not files:
                    sys.exit(f"{folder}: no Python files")
                rates = {}
                for name, spent in measured(copy, options.only, options.repeat):
                    rates[name] = spent.seconds / size
                    row = f"{spent.seconds:.2f} | {rates[name]:.2f} | {spent.megabytes:.0f}"
                    print(f"| `{folder.resolve().name}` | {len(files)} | {size:.2f} | {name} | {row} |", flush=True)
    if options.plot:
        options.plot.write_text(chart(rates, "CPU seconds per megabyte of source"), encoding="utf-8")


def load_all() -> None:
    """Have every module of compilelint loaded once, so that its bytecode is there, as an installer leaves a peer's.

    Raises `subprocess.CalledProcessError` where compilelint does not run at all: a failure would be measured as fast.
    """
    with tempfile.TemporaryDirectory() as temporary:
        model = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
        Path(temporary, "model.py").write_text(model, encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run(OURS, cwd=temporary, env=environment, check=True, stdout=subprocess.DEVNULL)


def default_folders() -> list[Path]:
    """`torch/nn` where torch is installed, else compilelint itself."""
    torch = importlib.util.find_spec("torch")
    found = torch is not None and torch.origin is not None
    return [Path(torch.origin).parent / "nn" if found else Path(__file__).parents[2] / "compilelint"]  # type: ignore


def copied(folder: Path, copy: Path, limit: float) -> tuple[list[Path], float]:
    """Copy the Python files of a folder, in order, until `limit` megabytes; the copies, and their size in megabytes."""
    files: list[Path] = []
    size = 0.0
    for file in sorted(folder.rglob("*.py")):
        if size + file.stat().st_size / 1e6 > limit:
            break
        place = copy / file.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
        files.append(place)
        size += file.stat().st_size / 1e6
    return files, size


def measured(folder: Path, only: str, repeat: int) -> Iterator[tuple[str, Cost]]:
    """Each work that is installed, and what it cost."""
    for name, command in works():
        if only in name and Path(command[0]).exists() and importable(name):
            yield name, min(once(name, command, folder) for _ in range(repeat))


def importable(name: str) -> bool:
    """Whether the parser that a work is named after is installed."""
    return not name.startswith("libcst") or importlib.util.find_spec("libcst") is not None


def once(name: str, command: Sequence[str], folder: Path) -> Cost:
    """Run a work; one that is not the first over its files gets what it needs beforehand, uncounted."""
    if name.startswith("compilelint") and "cold" not in name:
        cost(OURS, folder)
        if name.startswith(CHANGED):
            EDITS[name.removeprefix(CHANGED)](folder)
    return cost(command, folder)


def cost(command: Sequence[str], folder: Path) -> Cost:
    """What a command and its children cost. Bytecode may be written, whatever the environment says."""
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        os.execv(command[0], list(command))
    _, _, usage = os.wait4(child, 0)
    megabytes = usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024)
    return Cost(usage.ru_utime + usage.ru_stime, megabytes, time.monotonic() - start)


def chart(values: dict[str, float], title: str) -> str:
    """Horizontal bars as SVG, each with its value."""
    most, row, left, width = max(values.values()), 26, 220, 520
    bars: Iterable[str] = (
        f'<text x="{left - 8}" y="{number * row + 58}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{left}" y="{number * row + 45}" width="{value / most * width:.1f}" height="17" fill="#4878a8"/>'
        f'<text x="{left + value / most * width + 6:.1f}" y="{number * row + 58}">{value:.2f}</text>'
        for number, (name, value) in enumerate(values.items())
    )
    size = f'width="{left + width + 70}" height="{len(values) * row + 60}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">'
        f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="28">{escape(title)}</text>'
        f"{''.join(bars)}</svg>\n"
    )


if __name__ == "__main__":
    main()
