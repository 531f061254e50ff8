"""Draws docs/screenshot.svg: what `compilelint` really prints, on a file of fixtures/, with the compiler's verdicts.

    python docs/make_screenshot.py fixtures/decoder/hazards/model.py --target decoder-hazards

Takes the arguments of `compilelint check`; runs it from the repository's root with colour on, and shows the last lines.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 112
LINES = 48


def main() -> None:
    """Run the linter and write the picture."""
    arguments = sys.argv[1:] or ["fixtures/decoder/hazards/model.py", "--target", "decoder-hazards", "--device", "cpu"]
    command = [sys.executable, "-m", "compilelint", "check", *arguments, "--color", "always"]
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    lines = done.stdout.rstrip("\n").split("\n")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="standard")
    console.print(Text(f"$ compilelint {' '.join(arguments)}", style="bold"))
    if len(lines) > LINES:
        console.print(Text("…", style="dim"))
    for line in _from_a_finding(lines[-LINES:]):
        console.print(Text.from_ansi(line))
    (ROOT / "docs/screenshot.svg").write_text(console.export_svg(title="compilelint"), encoding="utf-8")


def _from_a_finding(lines: list[str]) -> list[str]:
    """Without the tail of a finding whose head is not shown."""
    blank = next((at for at, line in enumerate(lines) if not line.strip()), -1)
    return lines[blank + 1 :]


if __name__ == "__main__":
    main()
