"""Make the table of what CUDA does with calls: `python -m compilelint.knowledge.generate_cuda [--out FILE]`.

Questions that need a GPU, asked of every public function and tensor method that computes: does the call make the host
wait for the device, and can a CUDA graph hold it. Needs a POSIX system and one GPU, and takes half an hour of processor
time, which `--jobs` shares out. Whether a compiled call waits cannot be asked in this way: the warning of an operator
that Inductor calls directly does not reach Python (seen with torch 2.11).
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.utils

from compilelint.knowledge import children, stock
from compilelint.knowledge.candidates import Candidate, candidates
from compilelint.knowledge.probe import Accepted, Prober

MODULES = frozenset(
    """torch torch.Tensor torch.nn.functional torch.linalg torch.fft torch.special torch.nn.utils
    torch.nn.utils.rnn""".split()
)
# Classes, settings, and operators of one backend that programs do not call themselves.
NOT_COMPUTING = re.compile(r"\.(_|[A-Z]\w*$|cudnn_|miopen_|mkldnn_|fbgemm_|q_|quantize|set_|get_|is_[^n]|to_mkldnn)")
WAITED = "called a synchronizing CUDA operation"
# Shapes tried on the GPU for each function, and calls of each compiled one: warm-up, recording, replay.
MOST_SHAPES = 6
MOST_COMPILED = 2
CALLS = 3
SECONDS_PER_CANDIDATE = 90.0


def main() -> int:
    release = ".".join(torch.__version__.split(".")[:2])
    parser = argparse.ArgumentParser(prog="python -m compilelint.knowledge.generate_cuda", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name(f"cuda-{release}.json"), metavar="FILE")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="examine these names only")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that examine side by side")
    options = parser.parse_args()
    out = options.out.resolve()
    generate(options.only, max(1, options.jobs), out)
    return 0


def generate(only: list[str] | None, jobs: int, out: Path) -> None:
    """Write `{name: {"waits": shapes, "error": shapes, ...}}` for each name of which there is something to say.

    It is written twice: after the eager calls, and with what became of the compiled ones.
    """
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    wanted = [candidate for candidate in _computing() if only is None or candidate.name in only]
    with tempfile.TemporaryDirectory() as place:
        os.environ.update(HOME=place, TMPDIR=place, TORCHINDUCTOR_COMPILE_THREADS="1")
        tempfile.tempdir = place
        torch.set_num_threads(1)
        eager = dict(zip(wanted, _all(_eager, wanted, Path(place, "eager"), jobs), strict=True))
        first = {candidate.name: {"waits": seen.get("waits", [])} for candidate, seen in eager.items()}
        out.write_text(render(first), encoding="utf-8")
        suspects = [candidate for candidate, seen in eager.items() if seen]
        recorded = _all(_recorded, suspects, Path(place, "recorded"), jobs)
        os.chdir("/")
    whole = {
        candidate.name: {"waits": eager[candidate].get("waits", []), **outcomes}
        for candidate, outcomes in zip(suspects, recorded, strict=True)
    }
    out.write_text(render(whole), encoding="utf-8")


def _computing() -> list[Candidate]:
    """One candidate for each operator: no methods or in-place forms where a function has the same name."""
    found = [
        candidate
        for candidate in candidates()
        if candidate.callable
        and candidate.family in ("torch", "method")
        and candidate.name.rpartition(".")[0] in MODULES
        and not NOT_COMPUTING.search(candidate.name)
    ]
    functions = {candidate.name.rpartition(".")[2] for candidate in found if candidate.family == "torch"}
    return [
        candidate
        for candidate in found
        if candidate.name.rpartition(".")[2].rstrip("_") not in functions
        or (candidate.family == "torch" and not candidate.name.endswith("_"))
    ]


def _all(examine: children.Examination, wanted: list[Candidate], place: Path, jobs: int) -> list[dict[str, Any]]:
    place.mkdir()
    return children.examine_all(examine, wanted, place, jobs, seconds=SECONDS_PER_CANDIDATE)


def _eager(candidate: Candidate) -> dict[str, Any]:
    """The shapes whose eager call waits for the device, and those that a CUDA graph refuses to capture."""
    prober = Prober(candidate)
    seen: dict[str, list[str]] = {"waits": [], "refused": []}
    for found in _on_device(prober):
        function = prober.define(f"    {found.call}\n", found.realization)
        if _waits(function, found):
            seen["waits"].append(found.shape)
        elif not _captured(function, found):
            seen["refused"].append(found.shape)
            break  # a capture that failed can leave the device in a state in which all that follows fails too
    return {what: shapes for what, shapes in seen.items() if shapes}


def _recorded(candidate: Candidate) -> dict[str, Any]:
    """What `mode="reduce-overhead"` makes of each shape: `error`, `skip`, `split`; nothing where it is recorded."""
    prober = Prober(candidate)
    seen: dict[str, list[str]] = {}
    callable_there = _on_device(prober)
    suspect = [
        found for found in callable_there if _waits(prober.define(f"    {found.call}\n", found.realization), found)
    ]
    for found in (suspect or callable_there)[:MOST_COMPILED]:
        returned = "" if " = " in found.call else "result = "
        function = prober.define(
            f"    {returned}{found.call}\n    return x + 1, {returned[:6] or 'x'}\n", found.realization
        )
        outcome = _replayed(function, found)
        if outcome:
            seen.setdefault(outcome, []).append(found.shape)
        if outcome == "error":
            break
    return seen


def _on_device(prober: Prober) -> list[Accepted]:
    """The accepted calls that also run with all of their tensors on the GPU."""
    kept = []
    for found in itertools.islice(prober.accepted(), 2 * MOST_SHAPES):
        if not any("tensor" in kind for kind in found.shape.split(",")):
            continue
        try:
            prober.define(f"    {found.call}\n", found.realization)(*_given(found))
            torch.cuda.synchronize()
        except Exception:
            continue
        kept.append(found)
    return kept[:MOST_SHAPES]


def _given(found: Accepted) -> list[Any]:
    stocked = [value.cuda() if isinstance(value, torch.Tensor) else value for value in stock.inputs(found.realization)]
    return [torch.ones(4, device="cuda"), *stocked]


def _waits(function: Callable[..., Any], found: Accepted) -> bool:
    given = _given(found)
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            function(*given)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return any(WAITED in str(warning.message) for warning in caught)


def _captured(function: Callable[..., Any], found: Accepted) -> bool:
    given = _given(found)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(graph):
            function(*given)
        graph.replay()
        torch.cuda.synchronize()
    except Exception:
        return False
    return True


def _replayed(function: Callable[..., Any], found: Accepted) -> str:
    counted = torch._dynamo.utils.counters
    torch._dynamo.reset()
    counted.clear()
    compiled = torch.compile(function, mode="reduce-overhead")
    try:
        with torch.no_grad():
            for _ in range(CALLS):
                compiled(*_given(found))
            torch.cuda.synchronize()
    except Exception:
        return "" if counted["graph_break"] else "error"
    if counted["graph_break"]:
        return ""
    if counted["inductor"]["cudagraph_skips"]:
        return "skip"
    return "split" if counted["inductor"]["cudagraph_partitions"] > 1 else ""


def render(entries: dict[str, dict[str, list[str]]]) -> str:
    """The file: a header, then one name a line, sorted; a name without anything to say has no line."""
    header = {"torch": torch.__version__.split("+")[0], "cuda": torch.version.cuda}
    said = {
        name: {what: " ".join(shapes) for what, shapes in entry.items() if shapes}
        for name, entry in sorted(entries.items())
    }
    lines = [f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}" for name, entry in said.items() if entry]
    return f'{json.dumps(header)[:-1]}, "facts": {{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    sys.exit(main())
