"""The table of targets at the end of a report for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from compilelint.model import TargetRun
from compilelint.report.tally import one_line

BREAKS = frozenset({"graph-break", "frame-skip"})


def target_table(runs: Sequence[TargetRun]) -> Table:
    """One row per target: how it ended and what the compiler did. Counts are of places, not of hits."""
    places = {f"torch {run.torch} on {run.device}" for run in runs if run.torch}
    title = ", ".join(sorted(places)) or None
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", title=title, title_justify="left")
    table.add_column("target", overflow="fold")
    table.add_column("status", no_wrap=True)
    if len(places) > 1:
        table.add_column("where", no_wrap=True)
    for heading in ("seconds", "breaks", "recompiles", "syncs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("fullgraph", no_wrap=True)
    for run in runs:
        hazards = [evidence.hazard for evidence in run.evidence]
        table.add_row(
            one_line(run.name),
            Text(run.status, "green" if run.status == "ok" else "bold red"),
            *([f"{run.device}, {run.torch}"] if len(places) > 1 else []),
            f"{run.seconds:.1f}",
            str(sum(hazard in BREAKS for hazard in hazards)),
            str(hazards.count("recompile")),
            str(hazards.count("host-sync")),
            _fullgraph(run),
        )
    return table


def _fullgraph(run: TargetRun) -> Text:
    if run.fullgraph is None:
        return Text("-", "dim")
    return Text("passes", "green") if run.fullgraph.passes else Text("raises", "red")
