"""Evidence out of the logs that TORCH_TRACE left behind, of torch 2.4 to 2.14: `compilelint --trace DIR`.

Where a graph breaks is an artifact from torch 2.6 on, why it was compiled again one from 2.5 on; a frame that was given
up is in the `compilation_metrics`. What an older torch does not write is told, not guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from compilelint.model import Channel, Evidence, Step, TargetRun
from compilelint.runtime import breaks, guards
from compilelint.runtime.breaks import BreakReport
from compilelint.runtime.frames import plain_name, user_owned
from compilelint.runtime.inside import Heard
from compilelint.runtime.processes import ProcessRun, together
from compilelint.runtime.relocation import Relocation
from compilelint.runtime.trace_graphs import TracedCudaGraphs
from compilelint.runtime.trace_log import TraceLog, TraceRecord

_SINCE_2_6 = "structured_logging_overhead_s"
"""A field of the compilation metrics that came with torch 2.6. Only from 2.10 on do they name their torch."""

_GRAPH_LINE = re.compile(r"^\s*# File: (?P<path>.+?):(?P<line>\d+) in (?P<function>[^,]+), code: (?P<code>.*)$", re.M)
_STACK_LINE = re.compile(r'^ *File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in .*)?\n +(?P<code>\S.*)$', re.M)
_LIMIT = re.compile(r"(?:recompile|cache_size)_limit reached|recompile limit exceeded", re.I)
_ON_CUDA = re.compile(r"\]cuda:\d|device\(type='cuda'")

CompileId = tuple[object, object]
"""A frame and how often it was compiled before, as `0/1` has them."""


class TraceError(Exception):
    """There is no trace to read; the message is one line and says what to do."""


def read_trace(folder: Path, files: Sequence[Path]) -> TargetRun:
    """What the logs in `folder` (or the one log it is) show together, as one run that is called after it.

    `files` are the linted files (absolute), onto which the paths of another machine are mapped. The detail of the run
    tells what could not be read, placed or known. Raises TraceError if there are no logs.
    """
    logs = _logs(folder)
    processes: list[TraceProcess] = []
    damaged = records = 0
    for path in logs:
        log = TraceLog(path)
        by_process: dict[int, TraceProcess] = {}
        for record in log.records():
            try:
                by_process.setdefault(record.process, TraceProcess()).take(record)
            except (AttributeError, KeyError, TypeError, ValueError):  # not what torch puts under this name
                damaged += 1
            else:
                records += 1
        processes += by_process.values()
        damaged += log.damaged
    if not records:
        raise TraceError(f"{folder}: none of its log files was written by TORCH_TRACE (or all of it is damaged)")
    return _run(f"trace {folder}", processes, files, damaged)


def _logs(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise TraceError(f"{folder}: no such folder; name the one that TORCH_TRACE named")
    logs = sorted(path for path in folder.rglob("*") if path.name.endswith((".log", ".log.gz")) and path.is_file())
    if not logs:
        raise TraceError(f"{folder}: holds no logs; run the program with TORCH_TRACE={folder}")
    return logs


def _run(name: str, processes: Sequence[TraceProcess], files: Sequence[Path], damaged: int) -> TargetRun:
    runs = [ProcessRun(process.run(), process.rank) for process in processes]
    compiled = [process for process in runs if process.run.evidence or process.run.traced]
    quotes: dict[str, dict[int, str]] = {}
    for process in processes:
        for path, lines in process.quotes.items():
            quotes.setdefault(path, {}).update(lines)
    relocation = Relocation(files, quotes)
    whole = together(name, [replace(process, run=relocation.relocate(process.run)) for process in compiled])
    notes = [whole.detail] if compiled else ["nothing was compiled while this was written"]
    if relocation.changed:
        notes.append(f"{relocation.changed} observations are about lines that read differently now")
    if damaged:
        notes.append(f"{damaged} damaged records were passed over")
    return replace(whole, detail="; ".join(filter(None, notes)))


@dataclass
class _Compilation:
    """What is known of one compilation of a frame until its metrics tell how it ended."""

    breaks: list[BreakReport] = field(default_factory=list)
    lines: dict[str, set[int]] = field(default_factory=dict)
    recompiled: bool = False


class TraceProcess:
    """Reads the records of one process, one after the other."""

    def __init__(self) -> None:
        self.rank: int | None = None
        self.quotes: dict[str, dict[int, str]] = {}
        self._heard = Heard("")
        self._cuda_graphs = TracedCudaGraphs(self._heard)
        self._strings: dict[int, str] = {}
        self._beginnings: dict[object, Step] = {}
        self._resumed: set[object] = set()
        self._open: dict[CompileId, _Compilation] = {}
        self._last_recompile: dict[object, Evidence] = {}
        self._torch = ""
        self._tells_breaks = False
        self._tells_recompiles = False
        self._resumptions = 0
        self._cuda = False

    def take(self, record: TraceRecord) -> None:
        """Read one record. Kinds that say nothing about what this is after are passed over."""
        metadata = record.metadata
        self.rank = metadata.get("rank", self.rank)
        compile_id = (metadata.get("frame_id"), metadata.get("frame_compile_id"))
        if "str" in metadata:
            text, number = metadata["str"]
            self._strings[number] = text
        elif "dynamo_start" in metadata:
            self._start(compile_id, metadata["dynamo_start"].get("stack", []))
        elif "dynamo_output_graph" in metadata:
            self._add_graph(compile_id, record.payload)
        elif "compilation_metrics" in metadata:
            self._end(compile_id, metadata["compilation_metrics"])
        elif "compilation_metrics_runtime" in metadata:
            metrics = metadata["compilation_metrics_runtime"]
            self._cuda_graphs.add_metrics(compile_id, metrics, self._beginnings.get(compile_id[0]))
        elif "inductor_output_code" in metadata:
            self._cuda_graphs.add_code(compile_id, record.payload)
        elif "artifact" in metadata:
            self._artifact(compile_id, metadata["artifact"].get("name"), record.payload)

    def run(self) -> TargetRun:
        """What the process showed; compilations that the log does not see end count as they stand."""
        for compile_id in list(self._open):
            self._close(compile_id, gave_up=False)
        run = self._heard.run()
        watched: tuple[Channel, ...] = ("graph-break", "frame-skip") if self._tells_breaks else ()
        watched += ("recompile", "recompile-limit") if self._tells_recompiles else ()
        return replace(
            run,
            detail=self._missing(),
            device="cuda" if self._cuda else "cpu",
            torch=self._torch,
            watched=frozenset(watched),
        )

    def _missing(self) -> str:
        if self._tells_breaks:
            return ""
        return (
            "torch 2.5 or older wrote this, which does not tell where a graph breaks "
            f"({self._resumptions} compilations resumed after a break); torch 2.6 or later does"
        )

    # -- records ------------------------------------------------------------------------------------------------

    def _artifact(self, compile_id: CompileId, name: object, payload: str) -> None:
        if name == "dynamo_graph_break_reason":
            self._tells_breaks = True
            self._quote(payload)
            report = breaks.parse_report(payload)
            if report is not None:
                self._compilation(compile_id).breaks.append(report)
        elif name == "recompile_reasons":
            self._tells_recompiles = True
            self._add_recompile(compile_id, _reasons(payload))
        elif name == "inductor_post_grad_graph":
            self._quote_graph(payload)
            self._cuda_graphs.add_graph(compile_id, payload)
        elif name == "torch_version":
            self._torch = str(_object(payload).get("pytorch_version", self._torch))

    def _start(self, compile_id: CompileId, stack: Sequence[dict[str, Any]]) -> None:
        """Take note of where a frame begins, or, if it is one of torch's own, of who calls it."""
        steps = []
        for entry in stack:
            path, line, name = self._strings.get(entry["filename"], ""), int(entry["line"]), str(entry["name"])
            steps.append(Step(path, line, plain_name(name)))
            if entry.get("loc"):
                self.quotes.setdefault(path, {})[line] = str(entry["loc"]).strip()
        frame = compile_id[0]
        place = next((step for step in reversed(steps) if user_owned(step.path)), None)
        if place is not None:
            self._beginnings[frame] = place
            if place is not steps[-1] or place.function != stack[-1]["name"]:
                self._resumed.add(frame)

    def _from_beginning(self, frame: object) -> tuple[Step, ...]:
        """The stack for what is told at a frame's beginning: none at a definition, whose `def` may be further down."""
        return (self._beginnings[frame],) if frame in self._resumed else ()

    def _add_graph(self, compile_id: CompileId, text: str) -> None:
        self._cuda = self._cuda or _ON_CUDA.search(text) is not None
        lines = self._compilation(compile_id).lines
        for found in _GRAPH_LINE.finditer(text):
            if user_owned(found["path"]):
                lines.setdefault(found["path"], set()).add(int(found["line"]))
        self._quote_graph(text)

    def _quote_graph(self, text: str) -> None:
        for found in _GRAPH_LINE.finditer(text):
            if user_owned(found["path"]):
                self.quotes.setdefault(found["path"], {})[int(found["line"])] = found["code"].strip()

    def _quote(self, text: str) -> None:
        for found in _STACK_LINE.finditer(text):
            self.quotes.setdefault(found["path"], {})[int(found["line"])] = found["code"].strip()

    def _compilation(self, compile_id: CompileId) -> _Compilation:
        return self._open.setdefault(compile_id, _Compilation())

    # -- how a compilation ends ---------------------------------------------------------------------------------

    def _end(self, compile_id: CompileId, metrics: dict[str, Any]) -> None:
        if _SINCE_2_6 in metrics:
            self._tells_breaks = self._tells_recompiles = True
        self._torch = metrics.get("pytorch_version") or self._torch
        self._begin(compile_id[0], metrics)
        self._cuda_graphs.add_metrics(compile_id, metrics, self._beginnings.get(compile_id[0]))
        failure = str(metrics.get("fail_reason") or "")
        compilation = self._compilation(compile_id)
        if metrics.get("recompile_reason") and not compilation.recompiled:
            self._add_recompile(compile_id, [str(metrics["recompile_reason"])])
        elif compile_id[1] and metrics.get("co_name") and not self._tells_recompiles:
            self._add_unexplained_recompile(compile_id[0])
        if _LIMIT.search(failure):
            self._add_limit(compile_id, failure)
        elif metrics.get("fail_type") and not compilation.breaks:
            self._add_failure(compile_id, metrics, failure)
        gave_up = bool(metrics.get("fail_type")) or metrics.get("has_guarded_code") is False
        self._close(compile_id, gave_up=gave_up)

    def _begin(self, frame: object, metrics: dict[str, Any]) -> None:
        """Take note of where a frame begins: up to torch 2.5, its start does not tell."""
        path, line, name = (metrics.get(f"co_{part}") for part in ("filename", "firstlineno", "name"))
        if not (path and line and name):
            return
        resumed = plain_name(name) != name
        self._resumptions += resumed
        if user_owned(path):
            self._beginnings[frame] = Step(path, int(line), plain_name(name))
            (self._resumed.add if resumed else self._resumed.discard)(frame)

    def _close(self, compile_id: CompileId, *, gave_up: bool) -> None:
        compilation = self._open.pop(compile_id)
        reports = compilation.breaks
        if gave_up and reports and not any(report.skipped for report in reports):
            reports[-1] = replace(reports[-1], skipped=True)  # the text itself only says so in newer versions
        for report in reports:
            self._add_break(report)
        if not gave_up:
            self._heard.lines("traced", compilation.lines)

    def _add_break(self, report: BreakReport) -> None:
        stack = tuple(step for step in report.stack if user_owned(step.path)) or report.stack
        if stack:
            channel: Channel = "frame-skip" if report.skipped else "graph-break"
            text = report.text
            self._heard.observe(channel, stack[-1], report.reason, gb=text.gb, hint=text.hint, stack=stack)

    def _add_failure(self, compile_id: CompileId, metrics: dict[str, Any], failure: str) -> None:
        """A frame that was given up, and no artifact tells: with `fullgraph=True` that is an error."""
        kind = str(metrics["fail_type"]).removesuffix("'>").rpartition(".")[2]
        if kind.startswith("Skip") and "graph break" not in failure:
            return  # a frame without tensor operations, or one that Dynamo is told to leave alone
        path, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
        beginning = self._beginnings.get(compile_id[0])
        place = Step(str(path), int(line), _function(beginning, path)) if path and line else beginning
        if place is None or not user_owned(place.path):
            return
        text = breaks.parse_message(failure)
        told = text.type or kind.startswith(("Skip", "Unsupported"))
        reason = text.reason if told else f"{kind}: {text.reason}"
        reason = f"{reason} Nothing of this function is compiled; with fullgraph=True this is an error."
        stack = self._from_beginning(compile_id[0]) if place is beginning else (place,)
        self._heard.observe("frame-skip", place, reason, gb=text.gb, hint=text.hint, stack=stack)

    # -- recompiles ---------------------------------------------------------------------------------------------

    def _add_recompile(self, compile_id: CompileId, reasons: Sequence[str]) -> None:
        failure = guards.newest_failure(reasons)
        beginning = self._beginnings.get(compile_id[0])
        if failure is None or beginning is None:
            return
        self._compilation(compile_id).recompiled = True
        self._quote("\n".join(reasons))
        place = guards.place_of(failure, [beginning.path, *self.quotes])
        stack = tuple(step for step in failure.stack if user_owned(step.path)) or ((place,) if place else ())
        self._last_recompile[compile_id[0]] = self._heard.observe(
            "recompile",
            place or beginning,
            failure.reason,
            guard=failure.guard,
            hint=failure.hint,
            stack=stack if place else self._from_beginning(compile_id[0]),
        )

    def _add_unexplained_recompile(self, frame: object) -> None:
        beginning = self._beginnings.get(frame)
        if beginning is not None:
            reason = "Compiled again; this version of torch does not tell which guard failed."
            self._heard.observe("recompile", beginning, reason, stack=self._from_beginning(frame))

    def _add_limit(self, compile_id: CompileId, failure: str) -> None:
        beginning = self._beginnings.get(compile_id[0])
        if beginning is None:
            return
        text = breaks.parse_message(failure)
        last = self._last_recompile.get(compile_id[0])
        self._heard.observe(
            "recompile-limit",
            Step(last.path, last.line, last.function) if last else beginning,
            guards.limit_reached(beginning.function),
            gb=text.gb,
            guard=last.guard if last else None,
            hint=last.hint if last and last.hint else text.hint,
            stack=last.stack if last else self._from_beginning(compile_id[0]),
        )


def _function(beginning: Step | None, path: object) -> str:
    return beginning.function if beginning is not None and beginning.path == path else ""


def _reasons(payload: str) -> list[str]:
    """The reasons: a list in JSON, or, if there is one only, its text as it is (torch 2.13)."""
    try:
        found = json.loads(payload)
    except ValueError:
        return [payload]
    return [str(reason) for reason in found] if isinstance(found, list) else [str(found)]


def _object(payload: str) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
