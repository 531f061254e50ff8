"""CUDA graphs in the logs of TORCH_TRACE (seen with torch 2.11): what Inductor left out of them, skipped or did again.

A graph that is split has its parts as functions in the generated code; what runs between them is what the graph that
Inductor compiled has on the CPU and copies to and from it. Why a graph is not recorded is in the metrics if that was
decided while compiling; what a later call decides, such as an input that is written to, is not in these logs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from compilelint.model import Step
from compilelint.runtime.breaks import one_line
from compilelint.runtime.frames import parse_stack, plain_name, user_owned
from compilelint.runtime.inside import Heard

_FILE = re.compile(r"^\s*# File: (?P<path>.+?):(?P<line>\d+) in (?P<function>[^,]+), code:")
_NODE = re.compile(
    r'^\s*(?P<name>\w+): "[^"]*\](?P<device>[a-z]+)(?::\d+)?"(?: \w+)* = torch\.ops\.(?P<op>[\w.]+)\((?P<inputs>[^;]*)'
)
_INPUT = re.compile(r'(?P<name>\w+): "[^"]*\](?P<device>[a-z]+)(?::\d+)?"')
_PART = re.compile(r"^def partition_\d+\(", re.M)
_SKIPPED = re.compile(r"(?:skipping cudagraphs? due to )+(?P<reason>[^\n]*?)(?:\. Found from :\s*)?(?:\n|$)")
_VIEWS = frozenset(
    "alias as_strided detach diagonal expand permute reshape select slice split squeeze t transpose unfold unsqueeze "
    "view".split()
)
_TIMES = 2  # a part runs once to warm up and is then recorded


class TracedCudaGraphs:
    """Reads what one process wrote about CUDA graphs, compilation by compilation."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._graphs: dict[object, str] = {}
        self._parts: Counter[object] = Counter()
        self._made: Counter[object] = Counter()

    def add_graph(self, compilation: object, text: str) -> None:
        """Take in a graph as Inductor compiled it (`inductor_post_grad_graph`)."""
        self._graphs[compilation] = text

    def add_code(self, compilation: object, code: str) -> None:
        """Take in the code that was made of the last graph (`inductor_output_code`)."""
        graph = self._graphs.pop(compilation, "")
        parts = len(_PART.findall(code))
        self._parts[compilation] += parts
        if parts:
            for place, op, reason in _left_out(graph):
                told = f"CUDA graphs leave out {op}: {reason}."
                self._heard.observe("cudagraph", place, told, stack=(place,))

    def add_metrics(self, compilation: object, metrics: dict[str, Any], beginning: Step | None) -> None:
        """Take in the metrics of a compilation, or of what its code did when it first ran."""
        if metrics.get("runtime_cudagraphify_time_us") and metrics.get("is_runtime"):
            self._add_recording(compilation, beginning)
        text = str(metrics.get("cudagraph_skip_reason") or "")
        skipped = _SKIPPED.search(text)
        stack = tuple(step for step in parse_stack(text) if user_owned(step.path))
        place = stack[-1] if stack else beginning
        if skipped and place is not None:
            reason = f"No CUDA graph is recorded: {one_line(skipped['reason']).rstrip('.')}."
            self._heard.observe("cudagraph", place, reason, stack=stack)

    def _add_recording(self, compilation: object, beginning: Step | None) -> None:
        self._made[compilation] += 1
        once = self._parts[compilation] * _TIMES
        if once and self._made[compilation] == once + 1 and beginning is not None:
            reason = "Its CUDA graphs are recorded more than once, as they are for each size of an input."
            self._heard.observe("cudagraph", beginning, reason)


def _left_out(graph: str) -> Iterator[tuple[Step, str, str]]:
    """Place, operator and reason of what a CUDA graph cannot hold."""
    devices: dict[str, str] = {}
    place: Step | None = None
    for line in graph.splitlines():
        node = _NODE.match(line)
        found = _FILE.match(line)
        if found:
            place = Step(found["path"], int(found["line"]), plain_name(found["function"]))
        elif node is None:
            devices.update((each["name"], each["device"]) for each in _INPUT.finditer(line))
        else:
            devices[node["name"]] = node["device"]
            moved = "device_put" in node["op"] and any(
                devices.get(name) == "cpu" for name in re.findall(r"\w+", node["inputs"])
            )
            kept = node["op"].split(".")[1] in _VIEWS or (node["device"] != "cpu" and not moved)
            if place is not None and user_owned(place.path) and not kept:
                yield place, node["op"], "cpu ops" if node["device"] == "cpu" else "DeviceCopy ops"
