"""What every reporter makes of one report."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import run
from xml.etree.ElementTree import fromstring

import pytest
from samples import BREAK, ITEM, PRINT, SOURCE, confirmed, report

from compilelint.model import Failure, Fix, Span, TargetRun
from compilelint.report import FORMATS, Format, Look, render
from compilelint.source import Sources

HERE = Path(__file__).parent


def look(source: str = SOURCE, **options: object) -> Look:
    return Look(Sources(HERE, {"model.py": source}), width=100, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", FORMATS)
def test_same_report_same_text_and_one_newline_at_the_end(format: Format) -> None:
    text = render(report(), format, look())
    assert text == render(report(), format, look())
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\x1b" not in text


@pytest.mark.parametrize("format", FORMATS)
def test_order_of_findings_does_not_matter(format: Format) -> None:
    assert render(report(PRINT, confirmed()), format, look()) == render(report(confirmed(), PRINT), format, look())


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_to_report(format: Format) -> None:
    empty = replace(report(), findings=(), failures=(), targets=(), cards=())
    text = render(empty, format, look())
    assert "Traceback" not in text


@pytest.mark.parametrize("format", FORMATS)
def test_text_that_would_break_the_format(format: Format) -> None:
    """Every format's markup, control characters and a lone surrogate in all that a user or torch can have written."""
    evil = 'a[b](1) <x> & "q" ::error:: , % \x07 \x1b[31m | [/red] :smile: \udc80 é😀\nsecond line\r\n'
    step = replace(ITEM.region[0], note=evil, function=evil)
    finding = confirmed(
        replace(ITEM, message=evil, instead=evil, function=evil, region=(step,)),
        replace(BREAK, reason=evil, guard=evil, hint=evil, function=evil),
    )
    dead = TargetRun(evil.split("\n")[0], "failed", evil)
    text = render(report(finding, failures=(Failure("x.py", evil),), targets=(dead,)), format, look())
    written = text.encode("utf-8", errors="replace").decode()
    if format in ("json", "gitlab", "sarif"):
        json.loads(written)
    elif format == "jsonl":
        assert len([json.loads(line) for line in written.splitlines() if line]) >= 4
    elif format == "junit":
        fromstring(text)
    elif format == "github":
        assert all(line.startswith("::") for line in text.splitlines())
        assert "::error:: " not in text.replace("::error file", "").split("title=", 1)[1].split("::", 1)[0]
    else:
        assert "\x1b" not in text
        assert "\x07" not in text


def test_json_is_the_documented_shape() -> None:
    document = json.loads(render(report(), "json", look()))
    assert list(document) == ["schema", "torch", "findings", "targets", "failures"]
    assert (document["schema"], document["torch"]) == ("compilelint/1", "2.13.0")
    first = document["findings"][0]
    assert {key: first[key] for key in ("rule", "line", "column", "end_line", "end_column", "verdict")} == {
        "rule": "CL201",
        "line": 6,
        "column": 17,
        "end_line": 6,
        "end_column": 31,
        "verdict": "confirmed",
    }
    assert set(first) == {
        *("rule", "name", "hazard", "path", "line", "column", "end_line", "end_column", "function", "region"),
        *("definition", "confidence", "verdict", "evidence", "fixes", "fingerprint", "message", "instead"),
    }
    assert first["region"][0] == {
        "path": "main.py",
        "line": 3,
        "function": "<module>",
        "note": "torch.compile(Gate())",
    }
    evidence = first["evidence"][0]
    assert (evidence["gb"], evidence["hits"], evidence["stack"][1]["line"]) == ("GB0124", 2, 6)
    assert document["targets"][0]["fullgraph"]["gb"] == "GB0059"
    assert "executed" not in document["targets"][0]
    assert document["failures"] == [{"path": "bad.py", "line": 3, "message": "invalid syntax"}]


def test_jsonl_tags_each_line() -> None:
    kinds = [json.loads(line)["kind"] for line in render(report(), "jsonl", look()).splitlines()]
    assert kinds == ["run", "finding", "finding", "target", "target", "failure"]


def test_concise_keeps_one_line_per_finding() -> None:
    lines = render(report(replace(ITEM, message="a\nb")), "concise", look()).splitlines()
    assert lines[0] == "model.py:6:17: CL201 a b"
    assert lines[1] == "target dead: crashed: signal 11"
    assert lines[2].startswith("Found 1 finding in 3 files; 1 input could not be checked; ")
    assert lines[3:] == ["1 can be fixed with --fix --unsafe-fixes."]


def test_what_can_be_fixed_is_counted_by_what_makes_it() -> None:
    def said(*fixes: Fix) -> list[str]:
        findings = [replace(ITEM, fixes=(fix,)) for fix in fixes]
        return render(report(*findings), "concise", look()).splitlines()[len(fixes) + 2 :]

    unsafe = ITEM.fixes[0]
    safe, failed = replace(unsafe, safety="safe"), replace(unsafe, verified=False)
    assert said(safe, safe, failed) == ["2 can be fixed with --fix."]
    assert said(safe, unsafe, unsafe) == ["1 can be fixed with --fix, 2 more with --unsafe-fixes."]
    assert said(failed) == []


def test_github_worst_first_and_counts_what_is_hidden() -> None:
    notes = [replace(PRINT, fingerprint=str(n), span=Span(n, 1, n + 1, 3)) for n in range(1, 15)]
    lines = render(report(*notes, confirmed(), failures=(), targets=()), "github", look()).splitlines()
    assert lines[0].startswith("::error file=model.py,line=6,endLine=6,col=17,endColumn=31,title=CL201 item-call (conf")
    assert "col=" not in lines[1]
    assert lines[-1].startswith("4 more; ")


def test_gitlab_fingerprints_are_unique() -> None:
    items = json.loads(render(report(ITEM, replace(ITEM, span=Span(9, 1, 9, 2))), "gitlab", look()))
    assert len({item["fingerprint"] for item in items}) == len(items) == 3
    assert items[0]["location"]["positions"]["begin"] == {"line": 6, "column": 17}


def test_junit_counts() -> None:
    root = fromstring(render(report(), "junit", look()))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "2", "2")


def test_markdown_escapes_cells() -> None:
    text = render(report(replace(ITEM, message="a | b")), "markdown", look())
    assert "a \\| b" in text


def test_full_marks_the_span() -> None:
    lines = render(report(confirmed()), "full", look()).splitlines()
    code = next(line for line in lines if "größe = " in line)
    marks = lines[lines.index(code) + 1]
    assert code[marks.index("^") : marks.rindex("^") + 1] == "x.sum().item()"
    assert lines[0].startswith("model.py:6:17 CL201 `x.sum().item()` reads")
    assert any("[confirmed]" in line for line in lines)
    assert any("GB0124 · 2 times · 1.9 ms per call" in line for line in lines)
    assert all(len(line) <= 100 for line in lines[1:])


@pytest.mark.parametrize(
    ("source", "span", "marked"),
    [
        ("\tx.item()", Span(1, 2, 1, 10), "x.item()"),
        ("名前 = x.item()", Span(1, 6, 1, 14), "x.item()"),
        ("y = " + "a + " * 60 + "x.item()", Span(1, 245, 1, 253), "x.item()"),
        ("f(\n    x.item(),\n)", Span(1, 1, 3, 2), ")"),
        ("x.item()" + " + y" * 60, Span(1, 1, 1, 9), "x.item()"),
        ("x = 1", Span(1, 6, 1, 6), ""),
    ],
)
def test_marks_lie_under_the_code(source: str, span: Span, marked: str) -> None:
    from rich.cells import cell_len

    text = render(report(replace(ITEM, span=span), failures=(), targets=()), "full", look(source))
    lines = text.splitlines()
    at = max(number for number, line in enumerate(lines) if line.strip(" │").startswith("^"))
    before = cell_len(lines[at][: lines[at].index("^")])
    shown, width = "", 0
    for char in lines[at - 1]:
        if before <= width < before + lines[at].count("^"):
            shown += char
        width += cell_len(char)
    assert shown == marked


def test_full_shows_a_long_span_in_part() -> None:
    source = "f(\n" + "    x,\n" * 30 + ")\n"
    text = render(report(replace(ITEM, span=Span(1, 1, 32, 2)), failures=(), targets=()), "full", look(source))
    assert "  32 │ )" in text
    assert "…" in text
    assert len(text.splitlines()) < 25


def test_full_tells_a_trial_and_a_guard_once() -> None:
    first = replace(BREAK, reason="A guard failed: n == 1", guard="n == 2", tried=("dynamic=True: compiled once",))
    again = replace(first, guard="n == 1")
    lines = render(report(replace(ITEM, evidence=(first, again))), "full", look()).splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines if line.split()[:1] == ["guard"]] == ["n == 2"]
    assert sum("dynamic=True" in line for line in lines) == 1


def test_full_sets_other_code_apart() -> None:
    foreign = replace(ITEM, path="/site-packages/lib/a.py")
    assert "in code outside this folder" in render(report(ITEM, foreign), "full", look())
    assert "in code outside this folder" not in render(report(foreign), "full", look())


def test_full_without_the_file() -> None:
    text = render(report(replace(ITEM, path="gone.py")), "full", look())
    assert "gone.py:6:17 CL201" in text
    assert "│" not in text


def test_colour_only_when_asked() -> None:
    assert "\x1b[" in render(report(), "full", look(colour=True))


@pytest.mark.parametrize(
    ("format", "absent"),
    [
        ("concise", {"rich", "sarif_om", "libcst", "torch"}),
        ("json", {"rich", "sarif_om", "libcst", "torch"}),
        ("github", {"rich", "sarif_om", "libcst", "torch"}),
        ("gitlab", {"rich", "sarif_om", "libcst", "torch"}),
        ("junit", {"rich", "sarif_om", "libcst", "torch"}),
        ("markdown", {"rich", "sarif_om", "libcst", "torch"}),
        ("full", {"sarif_om", "libcst", "torch"}),
        ("sarif", {"rich", "libcst", "torch"}),
    ],
)
def test_a_format_loads_only_its_own_library(format: Format, absent: set[str]) -> None:
    program = (
        "import sys; from pathlib import Path; from samples import report; from compilelint.source import Sources;"
        "from compilelint.report import Look, render;"
        f"render(report(), {format!r}, Look(Sources(Path('.'))));"
        f"print(*sorted(sys.modules.keys() & {absent!r}))"
    )
    done = run([sys.executable, "-c", program], cwd=HERE.parent, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")
