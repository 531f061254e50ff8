"""What observing costs: CPU seconds of the same torch.compile calls, watched and unwatched.

    python benchmarks/observing/run.py [FACTORY ...] [--repeat N]

A factory is `pkg.mod:function` or `hf:CLASS`. Each run is a process of its own that builds the target, compiles it as
the default pass does and makes its calls; imports and building are left out, and the least of N runs is kept. Without a
factory: targets of fixtures/ and, where transformers is installed, small models of it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = (
    "decoder.targets:hazards",
    "decoder.targets:clean",
    "moe.targets:hazards",
    "detection.targets:hazards",
    "encoder.targets:clean",
    "diffusion.targets:hazards",
)
MODELS = ("hf:LlamaForCausalLM", "hf:GPT2LMHeadModel", "hf:T5ForConditionalGeneration", "hf:ViTForImageClassification")


def main() -> None:
    """Measure and print a table, one line per target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("factories", nargs="*", metavar="FACTORY")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of each, of which the least counts")
    parser.add_argument("--measure", choices=("watched", "unwatched"), help=argparse.SUPPRESS)  # what a child does
    options = parser.parse_args()
    if options.measure:
        print(measured(options.factories[0], watched=options.measure == "watched"))
        return
    print(f"{'target':32} {'unwatched':>9} {'watched':>9} {'ratio':>6}")
    for factory in options.factories or default_factories():
        pairs = [(in_child("unwatched", factory), in_child("watched", factory)) for _ in range(options.repeat)]
        plain, watched = (min(seconds) for seconds in zip(*pairs, strict=True))
        print(f"{factory:32} {plain:9.2f} {watched:9.2f} {watched / plain:6.2f}", flush=True)


def default_factories() -> tuple[str, ...]:
    """The targets of this repository, and models of transformers if that is installed."""
    return (*FIXTURES, *MODELS) if importlib.util.find_spec("transformers") else FIXTURES


def measured(factory: str, *, watched: bool) -> float:
    """CPU seconds of all calls of a target, compiled with the eager backend."""
    from compilelint.runtime.capture import DynamoWatch
    from compilelint.runtime.exercise import Job, build, call_all, compiling
    from compilelint.runtime.wire import Recorder

    with ExitStack() as stack:
        records = stack.enter_context(tempfile.NamedTemporaryFile(suffix=".jsonl"))
        recorder = Recorder(records.name, factory)
        importlib.import_module("torch._dynamo")
        if watched:
            stack.enter_context(DynamoWatch(recorder))
        compile_ = stack.enter_context(compiling(fullgraph=False, backend="eager"))
        target = build(Job(factory, factory, "cpu", records.name))
        model = compile_(target.model) if target.compile else target.model
        start = time.process_time()
        for _ in call_all(model, target):
            pass
        return time.process_time() - start


def in_child(work: str, factory: str) -> float:
    """Measure in a process of its own, so that nothing is warm."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "fixtures"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, __file__, "--measure", work, factory]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    child = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(child.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
