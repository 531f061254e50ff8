"""What CUDA does with a call: the reader of what `compilelint.knowledge.generate_cuda` made. Needs no torch.

Each line of `cuda-<major>.<minor>.json` is a name, with the shapes (see `table`) of which something was seen:
`waits`: an eager call makes the host wait for the device. Of those that wait, the first two were also compiled with
`mode="reduce-overhead"`: `error`, the CUDA graph could not be recorded and the call raised; `skip`, the whole graph
went without one; `split`, the call was left out of the CUDA graph. A method or in-place form without a line of its own
does what the function of its name does.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
MEASURED = "cuda-2.11.json"
"""The one version that was measured; it speaks for all."""


def on_cuda(dotted: str) -> dict[str, frozenset[str]]:
    """By what was seen (`waits`, `error`, `skip`, `split`), the shapes of a public name; empty if nothing was."""
    facts = _facts()
    for name in (dotted, f"torch.{dotted.removeprefix('torch.Tensor.').rstrip('_')}"):
        if name in facts and dotted.startswith("torch."):
            seen = {what: frozenset(shapes.split()) for what, shapes in facts[name].items()}
            # What waits for one reason with all arguments fails to be recorded with all of them.
            return {**seen, "error": seen["error"] | seen.get("waits", frozenset())} if "error" in seen else seen
    return {}


@cache
def _facts() -> dict[str, dict[str, str]]:
    facts: dict[str, dict[str, str]] = json.loads((HERE / MEASURED).read_text(encoding="utf-8"))["facts"]
    return facts
