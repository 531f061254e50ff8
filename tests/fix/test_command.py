"""`--fix`, `--unsafe-fixes`, `--diff`: what is written, what is shown, and the exit code."""

from __future__ import annotations

import difflib
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import compilelint.command.fix
from compilelint.cli import main
from compilelint.command.codes import all_cards
from compilelint.command.fix import fix
from compilelint.config import Settings
from compilelint.fix import fixed
from compilelint.model import Report
from compilelint.source import Sources
from compilelint.static import lint

SOURCE = """\
import copy

import torch


@torch.compile
def f(x: torch.Tensor):
    print("x", x.shape)
    assert not torch.isnan(x).any(), "nan"
    return x * copy.copy([1, 2])[0]
"""
SAFE = SOURCE.replace("not torch.isnan(x).any()", "torch.logical_not(torch.isnan(x).any())").replace(
    "copy.copy([1, 2])", "[1, 2].copy()"
)
ALL = SAFE.replace('    print("x", x.shape)', '    if not torch.compiler.is_compiling():\n        print("x", x.shape)')


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "model.py"
    file.write_text(SOURCE)
    return file


Capture = pytest.CaptureFixture[str]


def test_fix_makes_the_safe_fixes_and_reports_what_remains(model: Path, capsys: Capture) -> None:
    assert main(["model.py", "--fix", "--output-format", "concise"]) == 1
    said = capsys.readouterr()
    assert model.read_text() == SAFE
    assert said.err == "compilelint: fixed 2 findings in 1 file\n"
    remaining, _, rest = said.out.splitlines()
    assert remaining.split()[1] == "CL401"
    assert rest == "1 can be fixed with --fix --unsafe-fixes."


def test_unsafe_fixes_are_made_when_named(model: Path, capsys: Capture) -> None:
    assert main(["model.py", "--fix", "--unsafe-fixes"]) == 0
    assert model.read_text() == ALL
    assert capsys.readouterr().out == "No findings in 1 file.\n"
    assert main(["model.py", "--fix", "--unsafe-fixes"]) == 0
    assert capsys.readouterr().err == "compilelint: fixed nothing\n"


def test_only_what_is_reported_is_fixed(model: Path) -> None:
    model.write_text(SOURCE.replace("[0]\n", "[0]  # compilelint: ignore[CL501] kept\n"))
    main(["model.py", "--fix", "--ignore", "CL104"])
    assert model.read_text() == SOURCE.replace("[0]\n", "[0]  # compilelint: ignore[CL501] kept\n")


@pytest.mark.parametrize(("options", "after"), [([], SAFE), (["--unsafe-fixes"], ALL), (["--fix"], SAFE)])
def test_diff_shows_and_writes_nothing(model: Path, capsys: Capture, options: list[str], after: str) -> None:
    assert main(["model.py", "--diff", *options]) == 1
    shown = difflib.unified_diff(SOURCE.splitlines(True), after.splitlines(True), "a/model.py", "b/model.py")
    assert capsys.readouterr().out == "".join(shown)
    assert model.read_text() == SOURCE


@pytest.mark.parametrize("end", ["\n", "\r\n", ""], ids=["LF", "CRLF", "none at the end"])
def test_the_diff_can_be_applied(model: Path, end: str) -> None:
    before, after = (text.replace("\n", end) if end else text.rstrip() for text in (SOURCE, SAFE))
    model.write_bytes(before.encode())
    command = [sys.executable, "-m", "compilelint", "model.py", "--diff"]
    diff = subprocess.run(command, capture_output=True, check=False).stdout
    subprocess.run(["git", "apply", "--unsafe-paths", "-"], input=diff, check=True)
    assert model.read_bytes() == after.encode()


def test_diff_without_a_fix_is_empty_and_clean(model: Path, capsys: Capture) -> None:
    model.write_text(ALL)
    assert main(["model.py", "--diff"]) == 0
    assert capsys.readouterr() == ("", "compilelint: would fix nothing\n")


def test_diff_tells_of_unsafe_fixes_that_it_leaves_out(model: Path, capsys: Capture) -> None:
    assert main(["model.py", "--diff"]) == 1
    assert capsys.readouterr().err == "compilelint: would fix 2 findings in 1 file; 1 more with --unsafe-fixes\n"


def test_diff_of_standard_input(model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(SOURCE.encode())))
    assert main(["-", "--stdin-filename", "other.py", "--diff"]) == 1
    assert "+++ b/other.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["model.py", "--unsafe-fixes"], "--unsafe-fixes goes with --fix or --diff"),
        (["-", "--fix"], "--fix has no file to write for standard input; --diff shows the fixes"),
    ],
)
def test_what_cannot_be_done_is_told(model: Path, capsys: Capture, arguments: list[str], reason: str) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"compilelint: {reason}\n"


def test_a_file_that_changes_while_it_is_checked_is_left_alone(model: Path, capsys: Capture) -> None:
    def check(sources: Sources) -> Report:
        findings = fixed(lint([model], Settings(root=model.parent)).findings, sources)
        model.write_text(f"{model.read_text()}# edited\n")
        return Report(findings, cards=all_cards())

    fix(check, [model], model.parent, unsafe=True)
    assert model.read_text() == f"{SOURCE}# edited\n"
    assert capsys.readouterr().err == (
        "compilelint: model.py: changed while it was being checked, left alone; run again\ncompilelint: fixed nothing\n"
    )


def test_passes_come_to_an_end(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(compilelint.command.fix, "MOST_PASSES", 1)
    assert main(["model.py", "--fix", "--unsafe-fixes", "--output-format", "concise"]) == 0
    assert capsys.readouterr().out == "No findings in 1 file.\n"


def test_what_the_compiler_handled_gets_no_fix(model: Path) -> None:
    findings = lint([model], Settings(root=model.parent)).findings
    sources = Sources(model.parent)
    assert all(finding.fixes for finding in fixed(findings, sources))
    handled = [replace(finding, verdict="handled") for finding in findings]
    assert not any(finding.fixes for finding in fixed(handled, sources))


@pytest.mark.parametrize(
    ("line", "safety"),
    [
        ("y = copy.copy([1])", "safe"),
        ("ys = [1]; y = copy.copy(ys)", "safe"),
        ("ys = [1] if len(x) else []; y = copy.copy(ys)", "unsafe"),
        ("global ys; ys = [1]; y = copy.copy(ys)", "unsafe"),
        ("assert not torch.isnan(x).any()", "safe"),
        ("assert not x.isnan().any()", "unsafe"),  # an array has these methods as well
        ("y = copy.deepcopy(x)", "unsafe"),
        ("print(x.shape, str(len(x)))", "unsafe"),
        ("print(x.add_(1))", None),
        ("print(torch.rand(2))", None),
        ("print(y := x + 1)", None),
        ("y = print(x)", None),
        ("input()", None),
        ("y = copy.copy(x)", None),
        ("y = copy.deepcopy(x, {})", None),
    ],
)
def test_how_safe_a_fix_is(model: Path, line: str, safety: str | None) -> None:
    head = "import copy\nimport torch\n\n@torch.compile\ndef f(x: torch.Tensor):\n"
    model.write_text(f"{head}    {line}\n    return x + 1\n")
    [finding] = fixed(lint([model], Settings(root=model.parent)).findings, Sources(model.parent))
    assert [fix.safety for fix in finding.fixes] == ([] if safety is None else [safety])


@pytest.mark.parametrize(
    "imports",
    [
        "import torch as th",
        "from torch import nn",
        "import torch\nimport fake as torch",
        "if False:\n    import torch",
        "import torch\ndef g(torch): pass",
    ],
)
def test_a_guard_needs_torch_under_its_name(model: Path, imports: str) -> None:
    model.write_text(f"{imports}\n\ndef f(x):\n    print(x)\n    return x + 1\n")
    settings = Settings(root=model.parent, entry_points=("model:f",))
    findings = fixed(lint([model], settings).findings, Sources(model.parent))
    assert [(finding.rule, finding.fixes) for finding in findings] == [("CL401", ())]


def test_formats_carry_the_fixes(model: Path, capsys: Capture) -> None:
    main(["model.py", "--output-format", "json"])
    first, second, _ = json.loads(capsys.readouterr().out)["findings"]
    assert first["fixes"] == [
        {
            "title": "guard it with `if not torch.compiler.is_compiling():`; compiled code prints nothing",
            "safety": "unsafe",
            "verified": None,
            "edits": [
                {
                    **{"line": 8, "column": 5, "end_line": 8, "end_column": 5},
                    "replacement": "if not torch.compiler.is_compiling():\n        ",
                }
            ],
        }
    ]
    assert [fix["safety"] for fix in second["fixes"]] == ["safe"]
    main(["model.py", "--output-format", "sarif"])
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    change = results[1]["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert change["insertedContent"]["text"] == "torch.logical_not(torch.isnan(x).any())"
    assert "fixes" not in results[0]  # a viewer offers no choice between safe and unsafe
    main(["model.py"])
    text = " ".join(capsys.readouterr().out.split())
    assert "= fix: negate with `torch.logical_not`, which stays in the graph [safe]" in text
    assert "compiled code prints nothing [unsafe]" in text
