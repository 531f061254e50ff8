"""Score recompile findings against the guards that made real models compile again.

    python benchmarks/agreement/recompiles.py TRUTH SITE -- compilelint [options]

TRUTH holds `recompiles.json` (the source lines whose guard failed in some model, with the kind of guard) and
`clean.json` (by file, the lines that some model compiled without a break); SITE is the folder with the libraries that
the paths in both are relative to.

Foreseen: of the lines whose guard is of one of KINDS, how many carry a recompile finding. False: findings on a line
that was compiled and that no guard names, whatever its kind. Findings on code that no model ran are not scored.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

KINDS = {
    "attribute": "python attribute value",
    "length": "container length",
    "0-d tensor": "value of a 0-d tensor",
    "argument": "python argument",
}
"""What a linter can see coming, by how the truth's `guard_kind` begins. Left out: sizes, types, what a break leaves on
the stack, and attributes that are None at first."""


def main() -> int:
    own, command = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("site", type=Path)
    parser.add_argument("--lib", action="append", help="score these libraries only")
    parser.add_argument("--details", action="store_true", help="list each miss and each false finding")
    options = parser.parse_args(own)
    site = options.site.resolve()
    failed = json.loads((options.truth / "recompiles.json").read_text(encoding="utf-8"))
    clean = {file: set(lines) for file, lines in json.loads((options.truth / "clean.json").read_text()).items()}
    libraries = sorted(set(options.lib or _libraries([*clean, *(line["at"] for line in failed)], site)))
    findings = _findings(command, [site / library for library in libraries], site)

    total: Counter[str] = Counter()
    foreseen: Counter[str] = Counter()
    for line in failed:
        kind = next((name for name, start in KINDS.items() if line["guard_kind"].startswith(start)), None)
        file, _, number = line["at"].rpartition(":")
        if kind is None or file.partition("/")[0] not in libraries:
            continue
        total[kind] += 1
        if any(first <= int(number) <= last for first, last, _ in findings.get(file, ())):
            foreseen[kind] += 1
        elif options.details:
            print(f"missed [{kind}] {line['at']}  {line['guard']}  {line['text'][:80]}")
    false = _false(findings, clean, {line["at"] for line in failed})
    if options.details:
        for at, rule in false:
            print(f"false {at}  {rule}")
    print("by kind:", "  ".join(f"{kind} {foreseen[kind]}/{total[kind]}" for kind in KINDS))
    print("false by rule:", "  ".join(f"{rule} {count}" for rule, count in Counter(r for _, r in false).most_common()))
    print(f"recompiles: foreseen {foreseen.total()}/{total.total()}  false {len(false)}")
    return 0


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The script's own arguments and, behind `--`, the linter's command line."""
    if "--" not in arguments:
        sys.exit("usage: recompiles.py TRUTH SITE [--lib NAME] [--details] -- compilelint [options]")
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


def _libraries(files: Iterable[str], site: Path) -> set[str]:
    """The packages of `files` that lie in `site`."""
    return {top for file in files if (site / (top := file.partition("/")[0])).is_dir()}


def _findings(command: list[str], paths: list[Path], site: Path) -> dict[str, list[tuple[int, int, str]]]:
    """The recompile findings that are shown by default, by file: first line, last line, rule."""
    run = subprocess.run(
        [*command, *map(str, paths), "--output-format", "json"], capture_output=True, text=True, check=False
    )
    if run.returncode not in (0, 1):
        sys.exit(f"exit {run.returncode}: {' '.join(command)}\n{run.stderr[-2000:]}")
    found: dict[str, list[tuple[int, int, str]]] = {}
    report: dict[str, Any] = json.loads(run.stdout)
    for finding in report["findings"]:
        path = Path(finding["path"]).resolve()
        if finding["hazard"] == "recompile" and finding["confidence"] != "possible" and path.is_relative_to(site):
            place = (finding["line"], finding["end_line"], finding["rule"])
            found.setdefault(str(path.relative_to(site)), []).append(place)
    return found


def _false(
    findings: dict[str, list[tuple[int, int, str]]], clean: dict[str, set[int]], named: set[str]
) -> list[tuple[str, str]]:
    """Where a finding stands on a line that was compiled while no guard names one of its lines, with its rule."""
    return [
        (f"{file}:{first}", rule)
        for file, places in sorted(findings.items())
        for first, last, rule in places
        if first in clean.get(file, ()) and not any(f"{file}:{line}" in named for line in range(first, last + 1))
    ]


if __name__ == "__main__":
    sys.exit(main())
