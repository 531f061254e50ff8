"""Findings, evidence and reports that the tests of the outer shell share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compilelint.model import (
    Edit,
    Evidence,
    Failure,
    Finding,
    Fix,
    Fullgraph,
    Report,
    RuleCard,
    Span,
    Step,
    TargetRun,
)

SOURCE = """\
import torch


class Gate(torch.nn.Module):
    def forward(self, x):
        größe = x.sum().item()  # 😀
        if größe > 0:
            print(x)
        return x * größe
"""

ITEM = Finding(
    rule="CL201",
    name="item-call",
    hazard="graph-break",
    path="model.py",
    span=Span(6, 17, 6, 31),
    function="Gate.forward",
    message="`x.sum().item()` reads a tensor back. In default mode the graph ends here.",
    instead="keep the value a tensor and use `torch.where`",
    confidence="certain",
    statement=(6, 6),
    region=(Step("main.py", 3, "<module>", "torch.compile(Gate())"), Step("model.py", 5, "Gate.forward")),
    fixes=(Fix("keep it a tensor", "unsafe", (Edit(Span(6, 24, 6, 31), ""),)),),
    fingerprint="f-item",
)

BREAK = Evidence(
    target="gate",
    channel="graph-break",
    hazard="graph-break",
    path="model.py",
    line=6,
    function="forward",
    reason="Unsupported Tensor.item() call with capture_scalar_outputs=False",
    gb="GB0124",
    hits=2,
    hint="set capture_scalar_outputs",
    stack=(Step("main.py", 9, "run"), Step("model.py", 6, "forward")),
    cost="1.9 ms per call",
)

PRINT = Finding(
    rule="CL401",
    name="print-call",
    hazard="graph-break",
    path="model.py",
    span=Span(8, 13, 8, 21),
    function="Gate.forward",
    message="`print` ends the graph",
    instead="print outside the compiled region",
    confidence="likely",
    statement=(8, 8),
    fingerprint="f-print",
)

CARDS = (
    RuleCard("CL201", "item-call", "graph-break", "Reads a tensor back into Python.", "## What it does\n\nSyncs."),
    RuleCard("CL401", "print-call", "graph-break", "Prints inside a compiled region.", "## What it does\n\nPrints."),
)

RUN = TargetRun(
    name="gate",
    status="ok",
    torch="2.13.0",
    seconds=1.23456,
    fullgraph=Fullgraph(False, "call to print", "GB0059", "model.py", 8),
    evidence=(BREAK,),
    executed={"model.py": frozenset({6, 7, 8})},
)


def confirmed(finding: Finding = ITEM, *evidence: Evidence) -> Finding:
    """`finding` as the merge returns it once the compiler was seen to break there."""
    return replace(finding, verdict="confirmed", evidence=evidence or (BREAK,))


def report(*findings: Finding, **changes: Any) -> Report:
    """A report with two findings, a target and a failure, or with the given parts."""
    base = Report(
        findings=findings or (PRINT, confirmed()),
        failures=(Failure("bad.py", "invalid syntax", 3),),
        targets=(RUN, TargetRun("dead", "crashed", "signal 11")),
        cards=CARDS,
        torch="2.13.0",
        files=3,
    )
    return replace(base, **changes)
