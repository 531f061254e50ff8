"""Breaks that a run reports against those that another collector recorded for the same models.

    python benchmarks/observing/models.py RECORDS SITE [MODEL ...]

RECORDS holds one JSON file per model with `compile.breaks` (each with a `site`: file, line and function) and `truth`
(by file, `clean_lines`: lines that were compiled without a break); files are relative to SITE, the folder with the
libraries. The models are built anew from their classes, with small configurations (see `small_models.py`) and inputs of
our own, so the comparison is about statements that both ran:

reached   recorded statements with a break that our run of the program executed as well
reported  those of them that the run reports a break or a frame skip for
others    statements that the run reports and the records don't, and whether they say that the line is clean

A recorded frame that reached the recompile limit (at its caller in the records) is met by a report of that for a
function of its name, which is placed at the guard. Recorded generators are left out: they became frames of their own
because of another break.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from compilelint.model import TargetRun
from compilelint.runtime.launch import TargetSpec, run_targets

FACTORIES = {
    "transformers__beit_seg": "small_models:beit_seg",
    "transformers__clipseg": "hf:CLIPSegForImageSegmentation",
    "transformers__ctrl": "hf:CTRLLMHeadModel",
    "transformers__deberta": "small_models:deberta",
    "transformers__dpt": "hf:DPTForDepthEstimation",
    "transformers__encodec": "hf:EncodecModel",
    "transformers__flaubert": "hf:FlaubertWithLMHeadModel",
    "transformers__jetmoe": "hf:JetMoeForCausalLM",
    "transformers__led": "small_models:led",
    "transformers__longcat_flash": "hf:LongcatFlashForCausalLM",
    "transformers__longformer": "small_models:longformer",
    "transformers__nllb_moe": "hf:NllbMoeForConditionalGeneration",
    "transformers__opt_train": "small_models:opt_train",
    "transformers__qwen2_5_vl": "hf:Qwen2_5_VLForConditionalGeneration",
    "transformers__qwen2_vl": "hf:Qwen2VLForConditionalGeneration",
    "transformers__qwen3_vl": "hf:Qwen3VLForConditionalGeneration",
    "transformers__reformer": "small_models:reformer",
    "transformers__switch_transformers": "hf:SwitchTransformersForConditionalGeneration",
    "transformers__vilt": "hf:ViltModel",
    "transformers__vits": "hf:VitsModel",
    "transformers__whisper_train": "small_models:whisper_train",
    "transformers__xmod": "small_models:xmod",
    "transformers__albert": "hf:AlbertForMaskedLM",
    "transformers__phi3": "hf:Phi3ForCausalLM",
}
HERE = Path(__file__).resolve().parent
SEEN = ("graph-break", "frame-skip")
RECOMPILE_LIMIT, GENERATOR = "GB0039", "GB0003"
Place = tuple[str, int]
"""A file, relative to SITE, and the first line of a statement in it."""


def main() -> None:
    """Run the models and print a line for each, the statements that differ, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    parser.add_argument("site", type=Path)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    options = parser.parse_args()
    site = options.site.resolve()
    sums = [0, 0, 0, 0]
    for name in options.models or FACTORIES:
        record = json.loads((options.records / f"{name}.json").read_text(encoding="utf-8"))
        (run,) = run_targets([TargetSpec(name, FACTORIES[name])], device="cpu", root=HERE)
        sums = [before + new for before, new in zip(sums, compared(name, record, run, site), strict=True)]
    print("reached {}, of these reported {}; others {}, of these recorded as clean {}".format(*sums))


def compared(name: str, record: dict[str, Any], run: TargetRun, site: Path) -> tuple[int, int, int, int]:
    """Print how the run differs from the record; how many were reached, reported, others and others on clean lines."""
    executed = {place for path, lines in run.executed.items() for place in _statements(site, path, lines)}
    seen = {
        place for item in run.evidence if item.channel in SEEN for place in _statements(site, item.path, [item.line])
    }
    limits = [item.reason.partition(" ")[0] for item in run.evidence if item.channel == "recompile-limit"]
    recorded = set()
    for found in record["compile"]["breaks"]:
        at = found["site"] or found["leaf"]
        if at is None or found["gb_id"] == GENERATOR or not (site / at["file"]).is_file():
            continue
        places = _statements(site, str(site / at["file"]), [at["line"]])
        recorded |= places
        if found["gb_id"] == RECOMPILE_LIMIT and found["root"]["func"] in limits:
            seen |= places
    clean = {
        place
        for file, lines in record["truth"].items()
        if (site / file).is_file()
        for place in _statements(site, str(site / file), lines["clean_lines"])
    }
    reached, others = recorded & executed, seen - recorded
    print(f"{name}: {run.status} {run.detail[:80]} recorded {len(recorded)}, reached {len(reached)}", end=", ")
    print(f"reported {len(reached & seen)}, others {len(others)}", flush=True)
    for title, places in (("not reported", reached - seen), ("other", others)):
        for file, line in sorted(places):
            print(f"    {title} {file}:{line}{' clean' if (file, line) in clean else ''}")
    return len(reached), len(reached & seen), len(others), len(others & clean)


def _statements(site: Path, path: str, lines: Iterable[int]) -> set[Place]:
    real = Path(path).resolve()
    if not real.is_relative_to(site):
        return set()
    file = str(real.relative_to(site))
    firsts = _first_lines(real)
    return {(file, firsts.get(line, line)) for line in lines}


@lru_cache(maxsize=512)
def _first_lines(path: Path) -> dict[int, int]:
    """For each line of a file, the first line of the innermost statement, or head of one, that it belongs to."""
    found: dict[int, int] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):  # from the outside in
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            found.update(dict.fromkeys(range(node.lineno, max(last, node.lineno) + 1), node.lineno))
    return found


if __name__ == "__main__":
    main()
