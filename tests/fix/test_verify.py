"""`--fix --verify`: what holds is kept, what does not is undone and told. One run is real; the others are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from samples import BREAK

from compilelint.cli import main
from compilelint.command.verify import fix_verified
from compilelint.fix.apply import Change
from compilelint.fix.verify import fault
from compilelint.model import Edit, Finding, Fix, Leaf, Report, Span, TargetRun
from compilelint.source import Sources

Capture = pytest.CaptureFixture[str]

BEFORE = "import torch\n\n\ndef f(x):\n    print(x)\n    return x + 1\n"
GUARDED = BEFORE.replace("    print(x)", "    if not torch.compiler.is_compiling():\n        print(x)")
CHANGE = Change("model.py", BEFORE, GUARDED, 1)

SEEN = replace(BREAK, line=5, gb="GB0059", stack=())
PRINT = Finding(
    rule="CL401",
    name="print",
    hazard="graph-break",
    path="model.py",
    span=Span(5, 5, 5, 13),
    function="f",
    message="`print(x)` breaks",
    instead="",
    confidence="certain",
    statement=(5, 5),
    verdict="confirmed",
    evidence=(SEEN,),
    fixes=(Fix("guard it", "unsafe", (Edit(Span(5, 5, 5, 13), "pass"),)),),
    fingerprint="print",
)
RUN = TargetRun("gate", "ok", evidence=(SEEN,))
CLEAN = replace(RUN, evidence=())
RECOMPILE = replace(SEEN, channel="recompile", hazard="recompile", gb=None, guard="self.n == 3", line=1)


def at(line: int, **changes: object) -> TargetRun:
    return replace(CLEAN, evidence=(replace(SEEN, line=line, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (CLEAN, ""),
        (at(5), "target gate still shows GB0059 there"),
        (at(6), "target gate still shows GB0059 there"),
        (at(6, channel="frame-skip", hazard="frame-skip", gb=None), "target gate still shows frame-skip there"),
        (at(7), ""),  # what stood behind the break comes to light
        (at(6, path="other.py"), ""),
        (replace(CLEAN, evidence=(RECOMPILE,)), "target gate now shows a recompile in model.py"),
        (replace(CLEAN, status="failed", detail="boom"), "target gate does not run any more (failed: boom)"),
    ],
)
def test_what_the_compiler_must_no_longer_do(after: TargetRun, reason: str) -> None:
    assert fault([PRINT], [CHANGE], [RUN], [after]) == reason


def test_what_was_there_before_is_no_new_cost() -> None:
    moved = replace(RECOMPILE, line=9, guard="self.n == 4")
    before = replace(RUN, evidence=(SEEN, RECOMPILE))
    assert fault([PRINT], [CHANGE], [before], [replace(CLEAN, evidence=(moved,))]) == ""
    assert "recompile" in fault([PRINT], [CHANGE], [before], [replace(CLEAN, evidence=(moved, moved))])


def tensor(total: float, kind: str = "float32[2]", size: float = 10.0) -> tuple[Leaf, ...]:
    return ((kind, (total, total, size)),)


NAN = float("nan")


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (tensor(1.0), tensor(1.0 + 5e-5), True),
        (tensor(1.0), tensor(1.001), False),
        (tensor(1.0, "bfloat16[2]"), tensor(1.1, "bfloat16[2]"), True),
        (tensor(1.0, "float64[2]"), tensor(1.0 + 5e-5, "float64[2]"), False),
        (tensor(1.0), tensor(1.0, "float32[1, 2]"), False),
        (tensor(1.0), (), False),
        (tensor(NAN, size=NAN), tensor(NAN, size=NAN), True),
        (tensor(NAN, size=NAN), tensor(1.0), False),
        ((("3", ()),), (("4", ()),), False),
    ],
)
def test_what_calls_return_stays(before: tuple[Leaf, ...], after: tuple[Leaf, ...], same: bool) -> None:
    was = replace(RUN, results={"eager": (tensor(7.0), before)})
    now = replace(CLEAN, results={"eager": (tensor(7.0), after)})
    reason = "" if same else "target gate returns something else in call 2 (eager pass)"
    assert fault([PRINT], [CHANGE], [was], [now]) == reason


def test_a_compiled_result_may_become_what_it_was_without_the_compiler() -> None:
    was = replace(RUN, results={"eager": (tensor(1.0),), "default": (tensor(2.0),)})
    for total, reason in [(1.0, ""), (2.0, ""), (3.0, "target gate returns something else in call 1 (default pass)")]:
        now = replace(CLEAN, results={"eager": (tensor(1.0),), "default": (tensor(total),)})
        assert fault([PRINT], [CHANGE], [was], [now]) == reason


# -- making and undoing ---------------------------------------------------------------------------------------------

LINES = "a = 1\nb = 2\nc = 3\n"


def finding(line: int, **changes: object) -> Finding:
    """A confirmed finding on a line, whose fix puts `pass` there."""
    name = "abc"[line - 1]
    fix = Fix("pass", "safe", (Edit(Span(line, 1, line, 6), f"{name} = 0"),))
    found = replace(
        PRINT,
        span=Span(line, 1, line, 6),
        statement=(line, line),
        fixes=(fix,),
        fingerprint=name,
        evidence=(replace(SEEN, line=line),),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(LINES)
    return path


def checking(file: Path, stubborn: str = "", **changes: object) -> Callable[[Sources], Report]:
    """A check that finds what is unfixed in the file, and whose target shows it; fixes of `stubborn` change nothing."""

    def check(sources: Sources) -> Report:
        lines = sources.lines("model.py")[:3]
        found = tuple(finding(n, **changes) for n, line in enumerate(lines, 1) if not line.endswith("= 0"))
        evidence = [
            replace(SEEN, line=n) for n, line in enumerate(lines, 1) if not line.endswith("= 0") or line[0] in stubborn
        ]
        return Report(findings=found, targets=(replace(RUN, evidence=tuple(evidence)),))

    return check


def test_all_are_tried_together(file: Path, capsys: Capture) -> None:
    report, _ = fix_verified(checking(file), [file], file.parent, unsafe=False)
    assert (file.read_text(), report.findings) == ("a = 0\nb = 0\nc = 0\n", ())
    assert capsys.readouterr().err == "compilelint: fixed 3 findings, seen to be gone\n"


def test_what_does_not_help_is_undone_and_the_rest_is_kept(file: Path, capsys: Capture) -> None:
    report, sources = fix_verified(checking(file, stubborn="b"), [file], file.parent, unsafe=False)
    assert file.read_text() == sources.text("model.py") == "a = 0\nb = 2\nc = 0\n"
    (left,) = report.findings
    assert (left.fingerprint, [fix.verified for fix in left.fixes]) == ("b", [False])
    assert capsys.readouterr().err.splitlines() == [
        "compilelint: model.py:2:1: CL401: fix undone: target gate still shows GB0059 there",
        "compilelint: fixed 2 findings, seen to be gone",
    ]


@pytest.mark.parametrize(
    ("changes", "unsafe"),
    [
        ({"verdict": "static", "evidence": ()}, True),
        ({"evidence": (replace(SEEN, target="another"),)}, True),
        ({"fixes": PRINT.fixes}, False),
        ({"path": "elsewhere.py"}, True),
    ],
)
def test_only_what_can_be_judged_is_tried(
    file: Path, capsys: Capture, changes: dict[str, object], unsafe: bool
) -> None:
    fix_verified(checking(file, **changes), [file], file.parent, unsafe=unsafe)
    assert file.read_text() == LINES
    assert capsys.readouterr().err.startswith("compilelint: fixed nothing")


def test_an_interrupt_leaves_nothing_behind(file: Path) -> None:
    calls: Iterator[Callable[[Sources], Report]] = iter([checking(file)])

    def check(sources: Sources) -> Report:
        for first in calls:
            return first(sources)
        assert file.read_text() != LINES
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fix_verified(check, [file], file.parent, unsafe=False)
    assert file.read_text() == LINES


def test_a_file_that_cannot_be_written_is_told(file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compilelint.fix.apply.os.access", lambda *_: False)
    fix_verified(checking(file), [file], file.parent, unsafe=False)
    assert file.read_text() == LINES
    assert "model.py:1:1: CL401: fix undone: is read-only, left alone" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--verify"], ["--fix", "--verify"], ["--diff", "--verify", "--runtime"]])
def test_verify_needs_a_fix_and_a_target(
    capsys: Capture, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert "--verify goes with --fix and with --runtime or --target" in capsys.readouterr().err


REAL = """\
import torch
from compilelint import Target


@torch.compile
def f(x: torch.Tensor):
    print("x", x.shape)
    return x * 2, 3


@torch.compile
def unused(x: torch.Tensor):
    print("never")
    return x


def target():
    return Target(f, calls=[(torch.ones(3),), (torch.ones(3),)])
"""


def test_with_the_compiler(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "model.py"
    file.write_text(REAL)
    arguments = ["model.py", "--target", "model:target", "--device", "cpu", "--fix", "--unsafe-fixes", "--verify"]
    assert main([*arguments, "--output-format", "concise"]) == 1
    said = capsys.readouterr()
    assert file.read_text() == REAL.replace(
        '    print("x", x.shape)\n', '    if not torch.compiler.is_compiling():\n        print("x", x.shape)\n'
    )
    assert said.err == (
        "compilelint: fixed 1 finding, seen to be gone; 1 change not tried, as no target shows the hazard\n"
    )
    remaining, *_ = said.out.splitlines()
    assert remaining.split(" ")[:2] == ["model.py:14:5:", "CL401"]
