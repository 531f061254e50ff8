"""Programs run and observed from outside: their processes, what they get to see of it, and what one that dies costs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import assert_gone, until

import compilelint.runtime.program
from compilelint.cli import main
from compilelint.model import Evidence, TargetRun
from compilelint.runtime.program import NOTHING_COMPILED, run_program

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
OBSERVED = Path(__file__).parent / "observed.py"


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilelint.runtime.program, "_GRACE_SECONDS", 1.0)


def observe(how: str, timeout: float | None = 120) -> TargetRun:
    return run_program([sys.executable, str(OBSERVED), how], timeout=timeout)


def at(run: TargetRun, mark: str) -> list[Evidence]:
    lines = OBSERVED.read_text(encoding="utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))
    return [item for item in run.evidence if item.path == str(OBSERVED) and item.line == number]


def test_ranks_are_one_run_that_says_what_only_some_of_them_did() -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = run_program([*torchrun, str(OBSERVED), "distributed"], timeout=180)
    assert (run.status, run.detail, run.device) == ("ok", "compiled on ranks 0 and 1", "cpu")
    (everywhere,) = at(run, "all ranks")
    assert (everywhere.channel, everywhere.gb, everywhere.hits) == ("graph-break", "GB0059", 2)
    assert everywhere.stack[-1].function == "forward"
    assert "Seen on" not in everywhere.reason
    (single,) = at(run, "rank 1")
    assert (single.hits, single.reason.endswith("Seen on rank 1 only.")) == (1, True)
    assert everywhere.line - 1 in run.traced[str(OBSERVED)]
    assert {"graph-break", "recompile"} <= run.watched


def test_child_processes_are_observed_however_they_start() -> None:
    run = observe("in_children")
    (found,) = at(run, "everywhere")
    assert (run.status, run.detail, found.hits) == ("ok", "compiled in 3 processes", 3)


def test_a_program_sees_and_prints_what_it_would_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "graph_breaks")
    command = [sys.executable, str(OBSERVED), "own_logging"]
    alone = subprocess.run(command, capture_output=True, text=True, check=True)
    report = tmp_path / "report.json"
    cli = [sys.executable, "-m", "compilelint", "run", str(OBSERVED), "--output-format", f"json:{report}", "--"]
    observed = subprocess.run([*cli, *command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert observed.returncode == 1
    assert observed.stdout == alone.stdout
    assert "Graph break in user code" in alone.stderr
    assert _without_times(observed.stderr) == _without_times(alone.stderr)
    assert [(item["verdict"], item["evidence"][0]["hits"]) for item in _findings(report)] == [("confirmed", 2)]


def _findings(report: Path) -> list[dict[str, Any]]:
    return [item for item in json.loads(report.read_text())["findings"] if item["evidence"]]


def _without_times(log: str) -> list[str]:
    """The lines of torch's log without the time and process that each begins with."""
    return [line.partition("] ")[2] or line for line in log.splitlines()]


def test_a_program_keeps_its_own_start_up_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os, sys\nos.environ['CUSTOMIZED'] = __name__\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    seen = tmp_path / "seen"
    script = (
        "import os, sys, sitecustomize;"
        f"open({str(seen)!r}, 'w').write(' '.join([os.environ.get('CUSTOMIZED', ''), sitecustomize.__file__,"
        "*sys.path, *(sys.modules.keys() & {'torch', 'compilelint', 'json'})]))"
    )
    command = [sys.executable, "-c", script]
    subprocess.run(command, check=True)
    alone = seen.read_text()
    run = run_program(command)
    assert seen.read_text() == alone
    assert alone.startswith("sitecustomize ")
    assert (run.status, run.detail, run.torch) == ("ok", NOTHING_COMPILED, "")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_an_interrupt_from_the_keyboard_reaches_the_program_once(tmp_path: Path) -> None:
    import pty

    program = tmp_path / "waiting.py"
    program.write_text(
        "import time\n"
        "for seconds in (60, 1):\n"
        "    try:\n"
        "        print('waiting', seconds, flush=True)\n"
        "        time.sleep(seconds)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', flush=True)\n"
    )
    command = [sys.executable, "-m", "compilelint", "run", str(program), "--", sys.executable, str(program)]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, command)
    told, pressed = b"", False
    with contextlib.suppress(OSError):  # what reading a terminal that nobody has open any more raises
        while data := os.read(terminal, 1000):
            told += data
            if not pressed and b"waiting 60" in told:
                pressed = True
                os.write(terminal, b"\x03")
    assert told.count(b"interrupted\r") == 1
    assert b"waiting 1" in told
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_what_fullgraph_refuses_is_seen_and_the_failure_told() -> None:
    run = observe("refused")
    assert (run.status, run.detail) == ("failed", "the program ended with exit code 1")
    (found,) = at(run, "everywhere")
    assert (found.channel, found.hazard, found.gb) == ("fullgraph", "graph-break", "GB0059")


def test_what_a_crash_had_shown_is_kept() -> None:
    run = observe("crashing")
    assert (run.status, run.detail) == ("crashed", "killed by SIGSEGV")
    assert [item.gb for item in at(run, "everywhere")] == ["GB0059"]


def test_a_hang_ends_at_the_timeout_with_all_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANGING_PIDS", str(tmp_path / "pids"))
    run = observe("hanging", timeout=12)
    assert (run.status, run.detail.startswith("no end after 12 s")) == ("timeout", True)
    assert_gone(tmp_path / "pids")


def test_an_interrupt_leaves_a_partial_report_and_no_orphan(tmp_path: Path) -> None:
    pids, report = tmp_path / "pids", tmp_path / "report.json"
    script = (
        "import sys, compilelint.runtime.program as program; program._GRACE_SECONDS = 1;"
        "from compilelint.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "run", str(OBSERVED), "--output-format", f"json:{report}"]
    command += ["--", sys.executable, str(OBSERVED), "hanging"]
    environment = {**os.environ, "HANGING_PIDS": str(pids)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in until(60):
        if pids.exists() and pids.read_text():
            break
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 2
    assert_gone(pids)
    (target,) = json.loads(report.read_text())["targets"]
    assert (target["status"], target["detail"].startswith("interrupted")) == ("interrupted", True)
    assert [item["evidence"][0]["gb"] for item in _findings(report)] == ["GB0059"]


def test_a_failing_program_gives_two_after_its_report(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text("import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n    return x + 1\n")
    command = ["run", str(tmp_path), "--output-format", "concise", "--", sys.executable, "-c"]
    assert main([*command, "print('said')"]) == 0
    told = capfd.readouterr()
    assert told.out == "said\nNo findings in 1 file.\n"
    assert told.err.endswith(f": {NOTHING_COMPILED}\n")
    assert main([*command, "raise SystemExit(3)"]) == 2
    told = capfd.readouterr()
    assert told.out.endswith("No findings in 1 file; 1 target did not finish.\n")
    assert "the program ended with exit code 3" in told.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["python", "train.py"], "name the program after '--', as in: compilelint run -- python train.py"),
        (["--"], "name the program after '--'"),
        (["--", "no-such-program"], "there is no program 'no-such-program' to run"),
        (["--", "script.py"], "did you mean 'python script.py'?"),
        (["gone.py", "--", sys.executable, "-c", "raise SystemExit(9)"], "gone.py: no such file or folder"),
        (["--fix", "--", "true"], "unknown option --fix"),
        (["--select", "CL2O1", "--", "true"], "no rule has the code 'CL2O1'"),
        (["-o", "no/where.txt", "--", "true"], "there is no folder no to write it to"),
        (["--baseline", "gone.json", "--", "true"], "no such baseline"),
        (["--diff-base", "no-such-revision", "--", "true"], "--diff-base: "),
    ],
)
def test_wrong_arguments_are_told_in_one_line_before_anything_runs(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").touch()
    try:
        code = main(["run", *arguments])
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    told = capfd.readouterr()
    assert (code, told.out, told.err.count("\n")) == (2, "", 1)
    assert message in told.err
