"""Microsoft's SARIF validator has nothing to say about what is written, its rules for GitHub included.

`make sarif` fetches the validator with npm and runs this; elsewhere it is skipped. The validator's exit code is 0
whatever it finds, so what counts is its report. Notes are left aside: they ask for what a linter of one's own checkout
has no use for (embedded files, messages by number) or what GitHub refuses (SARIF2002 against GH1007).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from notebooks import cell, notebook_text
from samples import BREAK, ITEM, PRINT, SOURCE, confirmed, report

from compilelint.command.codes import all_cards
from compilelint.model import Edit, Fix, Span
from compilelint.report import Look, render
from compilelint.source import Sources

VALIDATOR = os.environ.get("SARIF_VALIDATOR", "")
GITHUB_RULES = Path(__file__).parent / "data/github-rules.xml"

pytestmark = pytest.mark.skipif(not VALIDATOR, reason="needs Microsoft's SARIF validator: make sarif")


def complaints(log: str, folder: Path) -> list[tuple[str, str]]:
    """(rule, where) of each error and warning that the validator gives."""
    (folder / "in.sarif").write_text(log, encoding="utf-8")
    options = ["--rule-kind", "Sarif;Ghas", "--level", "Error;Warning", "--log", "ForceOverwrite"]
    command = [VALIDATOR, "validate", "in.sarif", *options, "--config", str(GITHUB_RULES), "-o", "out.sarif"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    assert "1 files scanned" in done.stdout
    run = json.loads((folder / "out.sarif").read_text(encoding="utf-8-sig"))["runs"][0]
    return [(found["ruleId"], str(found["message"].get("arguments"))) for found in run.get("results", ())]


def everything(folder: Path) -> str:
    """A log with all that can be in one: evidence, fixes, hostile text, code of others, a notebook, a category."""
    (folder / "net.ipynb").write_text(notebook_text(cell("import torch"), cell(SOURCE)), encoding="utf-8")
    evil = "a[b](1) {0} <x> & \"q\" 'z' % \x07 | é😀\nsecond line\r\n"
    step = replace(ITEM.region[0], note=evil, function=evil)
    seen = replace(BREAK, reason=evil, guard=evil, hint=evil, function=evil)
    installed = "/opt/venv/lib/python3.12/site-packages/my lib/ü.py"
    safe = Fix("drop it", "safe", (Edit(Span(6, 17, 6, 31), "x.sum()"),), verified=True)
    findings = (
        PRINT,
        confirmed(replace(ITEM, fixes=(safe, *ITEM.fixes))),
        confirmed(replace(PRINT, message=evil, instead=evil, function=evil, region=(step,)), seen),
        confirmed(replace(ITEM, path=installed), replace(BREAK, path=installed)),
        replace(PRINT, path="net.ipynb", span=Span(9, 13, 9, 21), fixes=(safe,)),
        replace(PRINT, verdict="handled", span=Span(8, 13, 8, 13)),
    )
    sources = Sources(folder, {"model.py": SOURCE})
    return render(report(*findings, cards=all_cards()), "sarif", Look(sources, category="nightly"))


def test_everything_at_once(tmp_path: Path) -> None:
    assert complaints(everything(tmp_path), tmp_path) == []


def test_nothing_to_report(tmp_path: Path) -> None:
    empty = replace(report(cards=all_cards()), findings=())
    assert complaints(render(empty, "sarif", Look(Sources(tmp_path))), tmp_path) == []


Result = dict[str, Any]


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("GH1003", lambda result: result["locations"][0]["physicalLocation"]["region"].pop("startLine")),
        (
            "GH1005",
            lambda result: result["locations"][0]["physicalLocation"]["artifactLocation"].update(uri="http://a"),
        ),
        ("SARIF1002", lambda result: result["locations"][0]["physicalLocation"]["artifactLocation"].update(uri="a b")),
    ],
)
def test_the_validator_is_awake(tmp_path: Path, rule: str, spoil: Callable[[Result], object]) -> None:
    log = json.loads(everything(tmp_path))
    spoil(log["runs"][0]["results"][0])
    assert rule in {found for found, _ in complaints(json.dumps(log), tmp_path)}
