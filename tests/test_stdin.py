"""Text on standard input is linted as the file that it is said to be."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from notebooks import cell, notebook_text

from compilelint.cli import main

NET = """import torch

@torch.compile
def step(x: torch.Tensor):
    print(x)
    print(x)
    return x
"""


@pytest.mark.parametrize(("name", "text"), [("net.py", NET), ("net.ipynb", notebook_text(cell(NET)))])
def test_findings_are_recognised_by_what_those_of_the_file_are(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    assert main([name, "--output-format", "json"]) == 1
    of_file = json.loads(capsys.readouterr().out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["-", "--stdin-filename", name, "--output-format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == of_file
    assert len({finding["fingerprint"] for finding in of_file["findings"]}) == 2
