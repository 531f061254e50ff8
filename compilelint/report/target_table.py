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
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("target", overflow="fold")
    for heading in ("status", "device", "torch"):
        table.add_column(heading, no_wrap=True)
    for heading in ("seconds", "breaks", "recompiles", "syncs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("fullgraph", no_wrap=True)
    for run in runs:
        hazards = [evidence.hazard for evidence in run.evidence]
        table.add_row(
            one_line(run.name),
            Text(run.status, "green" if run.status == "ok" else "bold red"),
            run.device,
            run.torch,
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
