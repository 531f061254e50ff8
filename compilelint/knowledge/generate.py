"""Make the knowledge table of the installed torch: `python -m compilelint.knowledge.generate [--out FILE]`.

Needs a POSIX system, see `children.py`. Takes about ten minutes of processor time; torch, numpy and scipy (for
`scipy.optimize`) should be the versions that the file's header is to name.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from compilelint.knowledge import arguments, children, probe, returns, stock, trace
from compilelint.knowledge.candidates import Candidate, candidates
from compilelint.knowledge.table import SCHEMA


def main() -> int:
    release = ".".join(torch.__version__.split(".")[:2])
    parser = argparse.ArgumentParser(prog="python -m compilelint.knowledge.generate", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name(f"torch-{release}.json"), metavar="FILE")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="examine these names only and print what was seen")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that examine side by side")
    options = parser.parse_args()
    out = options.out.resolve()
    started = time.monotonic()
    entries = generate(options.only, max(1, options.jobs))
    text = render(entries)
    if options.only:
        print(text)
    else:
        out.write_text(text, encoding="utf-8")
        print(f"{out}: {len(entries)} names, {len(text) >> 10} KiB, {time.monotonic() - started:.0f} s")
    return 0


def generate(only: Iterable[str] | None = None, jobs: int = 1) -> dict[str, list[Any]]:
    """The table's entries in the file's form (see `table.py`): of every candidate, or of the names in `only`."""
    names = None if only is None else frozenset(only)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    wanted = [candidate for candidate in candidates() if names is None or candidate.name in names]
    distinct = {_identity(candidate): candidate for candidate in reversed(wanted) if candidate.callable}
    with tempfile.TemporaryDirectory() as place:
        _settle(place)
        observed = dict(
            zip(distinct, children.examine_all(_examined, list(distinct.values()), Path(place), jobs), strict=True)
        )
        os.chdir("/")
    return {candidate.name: _entry(candidate, observed.get(_identity(candidate), {})) for candidate in wanted}


def _examined(candidate: Candidate) -> dict[str, Any]:
    return probe.examine(candidate).as_json()


def _identity(candidate: Candidate) -> tuple[int, str]:
    """Names of one function share its examination."""
    return id(candidate.value), candidate.family


def _settle(place: str) -> None:
    """Bring the process into the state that every child starts from: one thread, nothing to import, no output."""
    os.chdir(place)
    os.environ.update(HOME=place, TMPDIR=place)
    tempfile.tempdir = place
    torch.set_num_threads(1)
    trace.install()
    for family in arguments.SHAPES:
        for shape in arguments.shapes(family):
            stock.prepared(shape)
    known = ((lambda x: x.sin() + 1, False), (lambda x: x.sum().item(), True), (lambda x: print(x), True))
    for function, breaks in known:
        if (trace.trace(function, [], fullgraph=False) is not None) != breaks:
            raise RuntimeError("this torch is not observed as expected: a probe with a known outcome had another one")
    gc.collect()
    gc.freeze()


def _entry(candidate: Candidate, observed: dict[str, Any]) -> list[Any]:
    """`[returns, lookup, tags, probes, returned]`; trailing empty parts are left out."""
    seen = [returns.Seen(**run) for run in observed.get("seen", ())]
    stubbed, takes_dtype = returns.documented(candidate.name, candidate.value, bool(seen))
    whole, by_shape = returns.combine(seen, stubbed, takes_dtype)
    if candidate.family == "module":
        whole, by_shape = "module", {"call": whole} if seen else {}
    tags = sorted({*observed.get("tags", ()), *_operator_tags(candidate.name)})
    probes = observed.get("probes", {}) or _without_counterpart(candidate)
    entry = [whole, trace.lookup(candidate.value), " ".join(tags), _grouped(probes.items())]
    if by_shape:
        entry.append(_inverted(by_shape.items()))
    while entry and not entry[-1]:
        entry.pop()
    return entry


def _without_counterpart(candidate: Candidate) -> dict[str, tuple[str, str]]:
    """The outcome of a numpy function that no arguments were found for: without a torch version, any call breaks."""
    function = candidate.family == "numpy" and candidate.callable and not isinstance(candidate.value, type)
    return {} if not function or trace.has_counterpart(candidate.value) else {"none": ("GB0294", "GB0294")}


def _operator_tags(dotted: str) -> set[str]:
    """Tags that any overload of the operator of this name carries."""
    if not dotted.startswith("torch."):
        return set()
    packet = getattr(torch.ops.aten, returns.operator_name(dotted), None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return set()
    overloads = [getattr(packet, name) for name in packet.overloads()]  # type: ignore[no-untyped-call]
    return {tag.name for overload in overloads for tag in overload.tags if tag.name in trace.TAGS}


def _grouped(probes: Iterable[tuple[str, tuple[str | None, str | None]]]) -> dict[str, str]:
    """Shapes by outcome: `{"GB0036 -": "tensor tensor,tensor"}`, default mode first, `-` where it compiles."""
    return _inverted((shape, f"{default or '-'} {full or '-'}") for shape, (default, full) in probes)


def _inverted(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    groups: dict[str, list[str]] = defaultdict(list)
    for key, value in pairs:
        groups[value].append(key)
    return {value: " ".join(sorted(keys)) for value, keys in sorted(groups.items())}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def render(entries: dict[str, list[Any]]) -> str:
    """The file: a header, then one name a line, sorted."""
    header = {
        "schema": SCHEMA,
        "torch": torch.__version__.split("+")[0],
        "python": ".".join(map(str, sys.version_info[:2])),
        **{package: _version(package) for package in ("numpy", "scipy")},
    }
    lines = [
        f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}" for name, entry in sorted(entries.items())
    ]
    head = json.dumps(header)[:-1]
    return f'{head}, "facts": {{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    sys.exit(main())
