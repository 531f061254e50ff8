"""Keeps what the installed torch does with the rules' examples in `docs/observed/torch-<minor version>.json`.

python -m tools.observe_examples             # all rules
python -m tools.observe_examples CL1 CL203   # only codes that start so; the rest of the file stays
python -m tools.observe_examples --print CL1 # show, write nothing; claims the examples get wrong are marked
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import torch

from compilelint.rulebook import load_rules
from tools.measure_example import (
    REFERENCE,
    REFERENCE_PYTHON,
    Observed,
    examples_of,
    measure,
    minor_version,
    observed_file,
    running_python,
)


def main() -> int:
    """Returns 1 if an example claims what the reference version of torch does not do."""
    parser = argparse.ArgumentParser(prog="python -m tools.observe_examples", description=__doc__)
    parser.add_argument("codes", nargs="*", help="beginnings of rule codes; none means all rules")
    parser.add_argument("--print", action="store_true", dest="only_print", help="write nothing")
    args = parser.parse_args()

    examples = dict(item for rule in load_rules() for item in examples_of(rule))
    chosen = [key for key in examples if not args.codes or key.startswith(tuple(args.codes))]
    measured: dict[str, Observed] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for key in chosen:
            seen = measured[key] = measure(examples[key], Path(folder) / f"{key.replace('/', '_')}.py")
            claimed = (examples[key].default, examples[key].fullgraph)
            is_reference = (minor_version(), running_python()) == (REFERENCE, REFERENCE_PYTHON)
            refuted = is_reference and claimed != (seen.default, seen.fullgraph)
            wrong += refuted
            print(key, seen.default, seen.fullgraph, *seen.gb, f"  claims {claimed}" if refuted else "")
    if not args.only_print:
        write({key: measured[key].as_json() for key in measured}, known=set(examples))
    return int(wrong > 0)


def write(new: dict[str, object], known: set[str]) -> None:
    """Merge `new` into the file of the installed version and drop what is said there about examples not `known`.

    Under another Python than the reference only what differs there is kept, in a part of its own.
    """
    file = observed_file(minor_version())
    kept = json.loads(file.read_text()) if file.exists() else {"torch": torch.__version__, "examples": {}}
    if running_python() == REFERENCE_PYTHON:
        kept["torch"] = torch.__version__
        kept["examples"] |= new
    else:
        others = kept.setdefault(f"python {running_python()}", {})
        others |= new
        for key in [key for key, seen in others.items() if seen == kept["examples"].get(key)]:
            del others[key]
    file.parent.mkdir(parents=True, exist_ok=True)
    # One line per example, so that a diff between two versions of torch reads as a list of changes.
    parts = [f'{{"torch": {json.dumps(kept.pop("torch"))}']
    for name, examples in kept.items():
        rows = sorted((key, value) for key, value in examples.items() if key in known)
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in rows)
        parts.append(f"{json.dumps(name)}: {{\n{lines}\n}}")
    file.write_text(", ".join(parts) + "}\n")


if __name__ == "__main__":
    sys.exit(main())
