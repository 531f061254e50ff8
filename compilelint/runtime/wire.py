"""What a worker tells the process that started it: JSON records, one a line, appended to a file of their own.

Standard output is no channel, since the watched program prints what it likes. Each record is written out at once, so
what was seen before a crash is kept. Reading folds the records into one `TargetRun`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from compilelint.model import Channel, Evidence, Fullgraph, Hazard, Leaf, Step, TargetRun, TargetStatus

PASSES = ("eager", "default", "fullgraph")
GPU_PASSES = ("sync", "cudagraph")
TRIALS = ("dynamic", "mark_dynamic")
SIDE_PASSES = (*GPU_PASSES, *TRIALS)
"""The passes over a target; if one of these last fails, what it would have shown alone is lost."""

MARK = "COMPILELINT_TARGET"
"""The environment variable that marks a worker and whatever its target starts: the file of its records."""

Record = dict[str, Any]
EvidenceKey = tuple[object, ...]

_HAZARD: dict[Channel, Hazard] = {
    "graph-break": "graph-break",
    "frame-skip": "frame-skip",
    "fullgraph": "graph-break",
    "recompile": "recompile",
    "recompile-limit": "recompile",
    "sync": "host-sync",
    "cudagraph": "cudagraph-skip",
}


class Recorder:
    """Appends records to a file. A process that the watched program forked off has no voice in it."""

    def __init__(self, path: str, target: str) -> None:
        self.path = path
        self.target = target
        self._owner = os.getpid()

    def send(self, kind: str, **fields: Any) -> None:
        """Write one record. The file is opened anew each time: watched programs close descriptors they don't own."""
        if os.getpid() != self._owner:
            return
        with Path(self.path).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"kind": kind, **fields}, default=str) + "\n")

    def observe(
        self,
        channel: Channel,
        place: Step,
        reason: str,
        *,
        gb: str | None = None,
        hits: int = 1,
        guard: str | None = None,
        hint: str | None = None,
        stack: tuple[Step, ...] = (),
    ) -> Evidence:
        """Record one observation, and return it. See `Evidence` for the fields; the channel decides the hazard."""
        item = Evidence(
            target=self.target,
            channel=channel,
            hazard=_HAZARD[channel],
            path=place.path,
            line=place.line,
            function=place.function,
            reason=reason,
            gb=gb,
            hits=hits,
            guard=guard,
            hint=hint,
            stack=stack,
        )
        self.send("evidence", evidence=asdict(item))
        return item

    def lines(self, what: str, lines: Mapping[str, Iterable[int]]) -> None:
        """`what` is `executed` or `traced`; lines are 1-based, by absolute path."""
        self.send(what, lines={path: sorted(numbers) for path, numbers in lines.items()})


def read_records(path: Path, start: int = 0) -> tuple[list[Record], int]:
    """The complete records from byte `start` on, and where to go on reading; a line cut short by a crash is left."""
    with path.open("rb") as stream:
        stream.seek(start)
        data = stream.read()
    whole = data.rfind(b"\n") + 1
    records = []
    for line in data[:whole].splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records, start + whole


def fold(name: str, records: Iterable[Record], seconds: float = 0.0) -> TargetRun:
    """One target's run out of its records. Its status is `ok` unless a record says otherwise."""
    run = TargetRun(name, "ok", seconds=seconds)
    evidence: dict[EvidenceKey, Evidence] = {}
    executed: dict[str, set[int]] = {}
    traced: dict[str, set[int]] = {}
    notes: list[str] = []
    results: dict[str, list[tuple[Leaf, ...]]] = {}
    for record in records:
        match record["kind"]:
            case "begin":
                results.pop(record["name"], None)  # begun again, it starts anew
            case "hello":
                run = replace(run, torch=record["torch"], device=record["device"])
            case "evidence":
                item = evidence_of(record["evidence"])
                key = evidence_key(item)
                evidence[key] = counted(evidence.get(key), item)
            case "executed":
                _extend(executed, record["lines"])
            case "traced":
                _extend(traced, record["lines"])
            case "tried":
                _add_trial(evidence, evidence_of(record["evidence"]), record["text"])
            case "calls":
                run = replace(run, calls=record["count"])
            case "watched":
                run = replace(run, watched=run.watched | frozenset(record["channels"]))
            case "fullgraph":
                run = replace(run, fullgraph=Fullgraph(**record["fullgraph"]))
            case "result":
                results.setdefault(record["name"], []).append(tuple(map(_leaf, record["leaves"])))
            case "raised":
                results.setdefault(record["name"], []).append(((f"raised: {record['detail']}", ()),))
            case "note":
                notes.append(record["text"])
            case "failed" if run.status == "ok":
                status: TargetStatus = record["status"]
                run = replace(run, status=status, detail=record["detail"])
    if run.status == "ok":
        run = replace(run, detail="; ".join(dict.fromkeys(notes)))
    return replace(
        run,
        evidence=tuple(evidence.values()),
        executed={path: frozenset(lines) for path, lines in executed.items()},
        traced={path: frozenset(lines) for path, lines in traced.items()},
        results={name: tuple(calls) for name, calls in results.items()},
    )


def _add_trial(known: dict[EvidenceKey, Evidence], tried: Evidence, text: str) -> None:
    """Add what was tried to the recompile it is about, and to the limit that these recompiles reached."""
    channels: tuple[Channel, ...] = ("recompile", "recompile-limit")
    for key, item in known.items():
        same = [evidence_key(replace(tried, channel=channel, gb=item.gb)) for channel in channels]
        if key in same and text not in item.tried:
            known[key] = replace(item, tried=(*item.tried, text))


def _leaf(fields: list[Any]) -> Leaf:
    kind, numbers = fields
    return kind, tuple(numbers)


def evidence_of(fields: Record) -> Evidence:
    """The observation that was written down as `fields`."""
    stack = tuple(Step(**step) for step in fields["stack"])
    return Evidence(**{**fields, "stack": stack, "tried": tuple(fields.get("tried", ()))})


def evidence_key(item: Evidence) -> EvidenceKey:
    """What two observations of the same thing have in common."""
    return (item.channel, item.path, item.line, item.function, item.gb, _shape(item.guard or item.reason))


def counted(first: Evidence | None, item: Evidence) -> Evidence:
    """`item` as a further hit of `first`, if that was seen before; the guard shown is the last one seen."""
    return item if first is None else replace(first, hits=first.hits + item.hits, guard=item.guard or first.guard)


def _shape(text: str) -> str:
    """A guard or reason without the values in it: `self.step == 3` and `self.step == 4` are the same guard."""
    return re.sub(r"'[^']*'$|\d+(?:\.\d+)?(?:e[-+]?\d+)?", "…", text)


def _extend(known: dict[str, set[int]], lines: Mapping[str, list[int]]) -> None:
    for path, numbers in lines.items():
        known.setdefault(path, set()).update(numbers)
