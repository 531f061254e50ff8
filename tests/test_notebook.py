"""Notebooks: read as one module, reported by cell, fixed in their JSON text."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from notebooks import cell, notebook_text

from compilelint.cli import main
from compilelint.model import Span
from compilelint.notebook import Notebook, NotebookError

Capture = pytest.CaptureFixture[str]


MODEL = """\
%%time
@torch.compile
def f(x: torch.Tensor):
    é = "😀"; y = copy.copy([1, 2])
    print("x")
    return x * y[0]
"""
NET = (
    cell("# A model", "markdown"),
    cell(["%matplotlib inline\n", "import copy\n", "import torch"]),
    cell(MODEL.splitlines(keepends=True)),
)
FOUND = ["net.ipynb:cell 3:4:18: CL501", "net.ipynb:cell 3:5:5: CL401"]


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "net.ipynb"
    file.write_text(notebook_text(*NET), encoding="utf-8")
    return file


def concise(capsys: Capture, *arguments: str) -> list[str]:
    """The place and the code of each finding."""
    main([*arguments, "--output-format", "concise"])
    return [" ".join(line.split(" ")[:3]) for line in capsys.readouterr().out.splitlines()[:-1]]


# -- cells to a module ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("x = 1\ny = x % 2", "x = 1\ny = x % 2"),
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("if x:\n    !ls {x}\n", "if x:\n    pass\n"),
        ("files = !ls *.py", "files = get_ipython()"),
        ("a, b[0] = %timeit -o f()", "a, b[0] = get_ipython()"),
        ("torch.compile?\n?torch\nf??", "pass\npass\npass"),
        ("!pip install \\\n  torch\nx = 1", "pass\n\nx = 1"),
        ("\n%%time\nx = 1", "\npass\nx = 1"),
        ("%%bash\nif [ -f x ]; then", "\n"),
        ("%%writefile model.py\nimport x", "\n"),
        ("x = (a\n% b)", "x = (a\n% b)"),
        ("x = a \\\n% b", "x = a \\\n% b"),
        ('x = """\n!not a command\n%nor this\n"""\n!ls', 'x = """\n!not a command\n%nor this\n"""\npass'),
        ("# why?\nx = f()  # really?", "# why?\nx = f()  # really?"),
        ("if x != 1: pass", "if x != 1: pass"),
        ("", ""),
    ],
)
def test_what_only_ipython_understands_is_replaced_on_its_line(source: str, code: str) -> None:
    assert Notebook(notebook_text(cell(source))).code == code
    ast.parse(code)


def test_cells_are_joined_and_lines_lead_back_to_them() -> None:
    notebook = Notebook(notebook_text(cell("a\nb"), cell("t", "markdown"), cell(["c\n", "d\n"]), cell("e")))
    assert notebook.code == "a\nb\nc\nd\n\ne"
    found = [notebook.cell_at(line) for line in range(1, 7)]
    assert [cell.number for cell in found if cell] == [1, 1, 3, 3, 3, 4]


@pytest.mark.parametrize(
    "raw",
    [
        notebook_text(cell("x = 1"), language="julia"),
        notebook_text(cell("x = 1", vscode={"languageId": "javascript"})),
        notebook_text(cell("x", "raw")),
        notebook_text(),
    ],
)
def test_what_is_not_python_has_no_lines(raw: str) -> None:
    notebook = Notebook(raw)
    assert (notebook.code, notebook.cell_at(1), notebook.in_file(Span(1, 1, 1, 2))) == ("", None, Span(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("raw", "message", "line"),
    [
        ('{"cells": [\n', "not a notebook, as it is not valid JSON: ", 2),
        ("import torch\n", "not a notebook, as it is not valid JSON: ", 1),
        ("[]", "not a notebook: it has no list of cells", None),
        ('{"worksheets": []}', "a notebook of format 3; save it in format 4", None),
        (notebook_text({"cell_type": "code"}), "not a notebook: cell 1 has no source", None),
        (notebook_text(cell(["a", 1])), "not a notebook: cell 1 has no source", None),  # type: ignore[list-item]
        ("[" * 200_000, "not a notebook", None),
    ],
)
def test_what_is_no_notebook_is_told_in_one_line(raw: str, message: str, line: int | None) -> None:
    with pytest.raises(NotebookError) as caught:
        Notebook(raw)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert caught.value.line == line


# -- and back to the file -------------------------------------------------------------------------------------------

SOURCE = 'a = "\\t\\"é😀"\nbb = a\n'


@pytest.mark.parametrize("source", [SOURCE, SOURCE.splitlines(keepends=True)])
@pytest.mark.parametrize("indent", [None, 1, 2])
@pytest.mark.parametrize("ascii", [False, True])
def test_every_character_is_found_in_the_file(source: str | list[str], indent: int | None, ascii: bool) -> None:
    outputs = {"cells": [{"source": ["not \\", "this"]}], "text": '"source": ["nor this"]'}
    raw = notebook_text({"outputs": outputs, **cell("z")}, cell(source), indent=indent, ascii=ascii)
    notebook, lines = Notebook(raw), raw.split("\n")
    for line, written in enumerate(SOURCE.split("\n")[:-1], 2):
        for column, character in enumerate(written, 1):
            span = notebook.in_file(Span(line, column, line, column + 1))
            assert span.line == span.end_line
            quoted = lines[span.line - 1][span.column - 1 : span.end_column - 1]
            assert json.loads(f'"{quoted}"') == character
    whole = notebook.in_file(Span(2, 1, 3, 7))
    assert lines[whole.line - 1][whole.column - 1 :].startswith("a = ")
    assert lines[whole.end_line - 1][: whole.end_column - 1].endswith("bb = a")


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("ascii", [False, True])
def test_a_changed_cell_is_laid_out_as_before(indent: int | None, ascii: bool) -> None:
    before = notebook_text(cell("é"), cell(["x\n", "y"]), cell("z"), indent=indent, ascii=ascii)
    after = notebook_text(cell("é"), cell(["x\n", '"é"\n', "y"]), cell("z\n"), indent=indent, ascii=ascii)
    if ascii:  # nothing in the second cell told whether its file is kept in ASCII
        after = after.replace('["x', '["x').replace('\\"\\u00e9\\"', '\\"é\\"')
    assert Notebook(before).with_sources({2: 'x\n"é"\ny', 3: "z\n"}) == after


# -- the command line -----------------------------------------------------------------------------------------------


def test_findings_are_placed_by_cell(net: Path, capsys: Capture) -> None:
    assert concise(capsys, "net.ipynb") == FOUND
    assert concise(capsys) == FOUND  # a folder's notebooks are read as well
    (net.parent / ".ipynb_checkpoints").mkdir()
    net.rename(net.parent / ".ipynb_checkpoints/net.ipynb")
    (net.parent / "other.py").touch()
    assert concise(capsys) == []


def test_full_shows_the_cell_as_it_is_written(net: Path, capsys: Capture) -> None:
    net.write_text(notebook_text(*NET[:2], cell("@torch.compile\ndef f(x: torch.Tensor):\n    !ls\n    print(x)")))
    main(["net.ipynb"])
    shown = capsys.readouterr().out
    assert "net.ipynb:cell 3:4:5 CL401" in shown
    assert "   3 │     !ls\n   4 │     print(x)\n" in shown
    assert "f  net.ipynb:cell 3:" in shown


def test_json_names_the_cell(net: Path, capsys: Capture) -> None:
    main(["net.ipynb", "--output-format", "json"])
    first = json.loads(capsys.readouterr().out)["findings"][0]
    assert [first[key] for key in ("cell", "line", "column", "end_line", "end_column")] == [3, 4, 18, 4, 35]
    assert {step["cell"] for step in first["region"]} == {3}
    assert first["fixes"][0]["edits"][0]["cell"] == 3


@pytest.mark.parametrize("format", ["sarif", "gitlab", "github"])
def test_machines_get_the_place_in_the_file(net: Path, capsys: Capture, format: str) -> None:
    main(["net.ipynb", "--output-format", format])
    said = capsys.readouterr().out
    line, start = next(
        (number, written.index("copy.copy") + 1)
        for number, written in enumerate(net.read_text(encoding="utf-8").split("\n"), 1)
        if "copy.copy" in written
    )
    if format == "github":
        assert f"file=net.ipynb,line={line},endLine={line},col={start},endColumn={start + 17}," in said
    elif format == "gitlab":
        positions = json.loads(said)[0]["location"]["positions"]
        assert positions["begin"] == {"line": line, "column": start}
    else:
        results = {result["ruleId"]: result for result in json.loads(said)["runs"][0]["results"]}
        result = results["CL501"]
        # the emoji before it counts twice in UTF-16
        assert result["locations"][0]["physicalLocation"]["region"] == {
            "startLine": line,
            "startColumn": start + 1,
            "endLine": line,
            "endColumn": start + 18,
        }
        assert "fixes" not in result


def test_suppressions_and_lines_in_messages(net: Path, capsys: Capture) -> None:
    quiet = MODEL.replace('    print("x")', '    print("x")  # compilelint: ignore[CL401] once')
    net.write_text(notebook_text(NET[1], cell(quiet), cell("# compilelint: ignore[CL2]\nx = 1")))
    assert concise(capsys, ".") == ["net.ipynb:cell 2:4:18: CL501", "net.ipynb:cell 3:1:1: CL001"]
    settings = (
        "SETTINGS = {'n': 1}\n",
        "\nclass Net(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n        return x * SETTINGS['n']\n",
        "net = torch.compile(Net())\n\ndef run(x: torch.Tensor, n):\n    SETTINGS['n'] = n\n    return net(x)\n",
    )
    net.write_text(notebook_text(NET[1], *map(cell, settings)))
    for command in (["check"], ["explain", "net.ipynb:cell 3:4"]):
        main(command)
        assert "is a global that cell 4, line 4 sets between calls" in capsys.readouterr().out


def test_no_module_is_mistaken_for_a_notebook(net: Path, capsys: Capture) -> None:
    (net.parent / "main.py").write_text(
        "import torch\nfrom net import g\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n    return g(x)\n"
    )
    net.write_text(notebook_text(NET[1], cell("def g(x):\n    return x.item()")))
    assert concise(capsys, ".") == []


def test_broken_ones_are_told_in_one_line(net: Path, capsys: Capture) -> None:
    (net.parent / "a.ipynb").write_text('{"cells": [\n')
    (net.parent / "b.ipynb").write_text(notebook_text(cell("x = 1"), cell("y = 1\nz = = 2")))
    assert main([".", "--output-format", "concise"]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "compilelint: a.ipynb:2: not a notebook, as it is not valid JSON: Expecting value",
        f"compilelint: b.ipynb:cell 2:2: not valid Python {sys.version_info[0]}.{sys.version_info[1]}: invalid syntax",
    ]
    assert main(["a.ipynb"]) == 2


def test_stdin(net: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(net.read_bytes())))
    assert concise(capsys, "-", "--stdin-filename", "net.ipynb") == FOUND


def test_explain(net: Path, capsys: Capture) -> None:
    assert main(["explain", "net.ipynb:cell 3:5:5"]) == 0
    said = capsys.readouterr().out
    assert "  net.ipynb:cell 3:" in said
    assert "values on line 5:\n" in said
    for place, message in [
        ("net.ipynb:5", "needs its cell: 'net.ipynb:cell 1:5'"),
        ("net.ipynb:cell 1:1", "has no line 1 of Python in cell 1"),
        ("net.ipynb:cell 3:50", "has no line 50 of Python in cell 3"),
    ]:
        assert main(["explain", place]) == 2
        assert message in capsys.readouterr().err


def test_changed_lines_are_those_of_the_file(net: Path, capsys: Capture) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], check=True)

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    assert concise(capsys, ".", "--diff-base", "main") == []
    net.write_text(net.read_text(encoding="utf-8").replace('print(\\"x', 'print(\\"y'), encoding="utf-8")
    assert concise(capsys, ".", "--diff-base", "main") == FOUND[1:]


def test_fixes_change_the_cell_and_nothing_else(net: Path, capsys: Capture) -> None:
    before = net.read_text(encoding="utf-8")
    assert main(["net.ipynb", "--diff", "--unsafe-fixes"]) == 1
    shown = capsys.readouterr().out
    assert net.read_text(encoding="utf-8") == before
    subprocess.run(["git", "apply", "-"], input=shown.encode(), cwd=net.parent, check=True)
    applied = net.read_text(encoding="utf-8")
    net.write_text(before, encoding="utf-8")
    assert main(["net.ipynb", "--fix", "--unsafe-fixes"]) == 0
    after = net.read_text(encoding="utf-8")
    mended = MODEL.replace("copy.copy([1, 2])", "[1, 2].copy()").replace(
        '    print("x")', '    if not torch.compiler.is_compiling():\n        print("x")'
    )
    assert after == applied == notebook_text(*NET[:2], cell(mended.splitlines(keepends=True)))
