"""What several processes of one program showed, as one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compilelint.model import Evidence, TargetRun
from compilelint.runtime.wire import EvidenceKey, counted, evidence_key


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """One process: what it showed, and its rank if the program is distributed."""

    run: TargetRun
    rank: int | None = None


def together(name: str, processes: Sequence[ProcessRun]) -> TargetRun:
    """One run called `name`: hits are added up, and what only some of several ranks showed says which these are.

    Only a channel that all processes watched counts as watched.
    """
    ranks = sorted({process.rank for process in processes if process.rank is not None})
    evidence: dict[EvidenceKey, Evidence] = {}
    seen_on: dict[EvidenceKey, set[int]] = {}
    executed: dict[str, frozenset[int]] = {}
    traced: dict[str, frozenset[int]] = {}
    for process in processes:
        for item in process.run.evidence:
            key = evidence_key(item)
            evidence[key] = counted(evidence.get(key), replace(item, target=name))
            if process.rank is not None:
                seen_on.setdefault(key, set()).add(process.rank)
        for path, lines in process.run.executed.items():
            executed[path] = executed.get(path, frozenset()) | lines
        for path, lines in process.run.traced.items():
            traced[path] = traced.get(path, frozenset()) | lines
    runs = [process.run for process in processes]
    devices = {run.device for run in runs}
    return TargetRun(
        name,
        "ok",
        detail="; ".join(dict.fromkeys(filter(None, [_where(len(processes), ranks), *(run.detail for run in runs)]))),
        device="cuda" if "cuda" in devices else "cpu",
        torch=next((run.torch for run in runs if run.torch), ""),
        watched=frozenset.intersection(*(run.watched for run in runs)) if runs else frozenset(),
        evidence=tuple(_on_ranks(item, seen_on.get(key, set()), ranks) for key, item in evidence.items()),
        executed=executed,
        traced=traced,
    )


def _where(count: int, ranks: Sequence[int]) -> str:
    if len(ranks) > 1:
        return f"compiled on {_listed(ranks)}"
    return f"compiled in {count} processes" if count > 1 else ""


def _on_ranks(item: Evidence, seen: set[int], ranks: Sequence[int]) -> Evidence:
    if len(ranks) < 2 or not seen or len(seen) == len(ranks):
        return item
    return replace(item, reason=f"{item.reason} Seen on {_listed(sorted(seen))} only.")


def _listed(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
