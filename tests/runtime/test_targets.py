"""Targets run for real, in worker processes: what they show, and what one that dies costs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import assert_gone, until

from compilelint.model import Evidence, TargetRun
from compilelint.runtime.launch import TargetSpec, run_targets
from compilelint.runtime.wire import fold, read_records

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs.py"


def line_of(mark: str) -> int:
    """The 1-based line of `programs.py` that ends in `# mark`."""
    lines = PROGRAMS.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


def run(factory: str, timeout: float = 120) -> TargetRun:
    (outcome,) = run_targets([TargetSpec("t", factory)], device="cpu", timeout=timeout, root=HERE)
    return outcome


def at(outcome: TargetRun, mark: str) -> list[Evidence]:
    return [item for item in outcome.evidence if item.path == str(PROGRAMS) and item.line == line_of(mark)]


def test_breaks_and_skips_at_their_lines_with_ids() -> None:
    stages: list[tuple[str, str]] = []
    (outcome,) = run_targets(
        [TargetSpec("steps", "programs:breaking")],
        device="cpu" if torch.cuda.is_available() else "auto",
        root=HERE,
        on_progress=lambda name, stage: stages.append((name, stage)),
    )
    assert (outcome.status, outcome.detail, outcome.device, outcome.calls) == ("ok", "", "cpu", 3)
    (branch,) = at(outcome, "break")
    assert (branch.channel, branch.hazard, branch.gb) == ("graph-break", "graph-break", "GB0170")
    assert branch.reason.startswith("Detected data-dependent branching")
    assert branch.stack[-1].function == "step"
    (skip,) = at(outcome, "skip")
    assert (skip.channel, skip.hazard, skip.gb) == ("frame-skip", "frame-skip", "GB0059")
    assert "graph break in loop" in skip.reason
    assert len(outcome.evidence) == 2
    assert outcome.fullgraph is not None
    assert (outcome.fullgraph.passes, outcome.fullgraph.gb, outcome.fullgraph.line) == (
        False,
        "GB0170",
        line_of("break"),
    )
    executed, traced = outcome.executed[str(PROGRAMS)], outcome.traced[str(PROGRAMS)]
    assert line_of("break") in traced
    assert line_of("skip") in executed - traced
    assert [stage for _, stage in stages] == ["running eagerly", "compiling", "compiling with fullgraph=True"]


def test_recompiles_name_the_guard_and_its_line_until_the_limit() -> None:
    outcome = run("programs:counting")
    found = {item.channel: item for item in at(outcome, "recompile")}
    assert set(found) == {"recompile", "recompile-limit"}
    assert "calls" in (found["recompile"].guard or "")
    assert found["recompile"].hits > 1
    assert found["recompile-limit"].gb == "GB0039"
    assert line_of("never reached") not in outcome.executed[str(PROGRAMS)]
    assert outcome.fullgraph is not None and outcome.fullgraph.gb == "GB0039"


def test_a_guard_on_an_input_is_at_the_definition_or_where_the_frame_resumes() -> None:
    outcome = run("programs:retyped")
    mine = [item for item in outcome.evidence if item.path == str(PROGRAMS)]
    recompiles = {item.line: item.guard or "" for item in mine if item.channel == "recompile"}
    assert set(recompiles) == {line_of("retyped"), line_of("resumed")}
    assert all("dtype mismatch" in guard for guard in recompiles.values())


def test_a_break_behind_another_is_on_the_line_it_is_on() -> None:
    assert [item.gb for item in at(run("programs:chained"), "chained")] == ["GB0124"]


def test_a_program_that_compiles_itself_is_observed_in_default_mode() -> None:
    outcome = run("programs:engine")
    (found,) = at(outcome, "inside")
    assert found.gb == "GB0059"
    assert outcome.fullgraph is not None and not outcome.fullgraph.passes


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 starts a generator where Dynamo does not see it")
def test_a_compiled_generator_is_a_frame_that_is_skipped() -> None:
    (found,) = at(run("programs:generator"), "generator")
    assert (found.channel, found.gb) == ("frame-skip", "GB0003")


def test_clean_targets_have_no_evidence() -> None:
    linear, decoding = run_targets(
        [TargetSpec("linear", "programs:clean"), TargetSpec("decoding", "programs:decoding")], device="cpu", root=HERE
    )
    for outcome in (linear, decoding):
        assert (outcome.status, outcome.evidence) == ("ok", ())
        assert outcome.fullgraph is not None and outcome.fullgraph.passes
        assert "graph-break" in outcome.watched
    assert (linear.calls, decoding.calls) == (2, 1)


@pytest.mark.parametrize(
    ("factory", "status", "detail"),
    [
        ("programs:raising", "failed", "no_such_method"),
        ("programs:leaving", "failed", "SystemExit: 3"),
        ("programs:segfault", "crashed", "SIGSEGV"),
        ("programs:not_a_target", "failed", "returned something of type Linear"),
        ("programs:nowhere", "missing", "no function nowhere"),
        ("no_such_module:target", "missing", "no module no_such_module"),
    ],
)
def test_a_target_that_dies_says_so_in_one_line(factory: str, status: str, detail: str) -> None:
    outcome = run(factory)
    assert outcome.status == status
    assert detail in outcome.detail
    assert "\n" not in outcome.detail


def test_what_was_shown_before_the_end_is_kept() -> None:
    outcome = run("programs:quitting")
    assert outcome.status == "crashed"
    assert outcome.detail == "default pass: the program ended its own process with exit code 0"
    assert [item.gb for item in at(outcome, "seen before the end")] == ["GB0059"]
    assert outcome.executed


def test_output_forks_and_logging_of_the_program_disturb_nothing() -> None:
    outcome = run("programs:disturbing")
    assert (outcome.status, outcome.detail) == ("ok", "")
    assert [(item.gb, item.hits) for item in at(outcome, "disturbed")] == [("GB0124", 1)]


def test_cuda_where_there_is_none_is_an_error_in_one_line() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    (outcome,) = run_targets([TargetSpec("t", "programs:clean")], device="cuda", root=HERE)
    assert (outcome.status, outcome.detail) == ("failed", "no CUDA device here: use --device cpu or auto")


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "pids"
    monkeypatch.setenv("HANGING_PIDS", str(path))
    return path


def test_threads_and_processes_that_a_target_leaves_are_not_waited_for_and_ended(pids: Path) -> None:
    outcome = run("programs:lingering")
    assert (outcome.status, outcome.detail) == ("ok", "")
    assert len(pids.read_text().split()) == 2  # of the passes that run it; fullgraph=True refuses to
    assert_gone(pids)


def test_a_target_that_leaves_no_file_to_record_in_says_so() -> None:
    outcome = run("programs:exhausting")
    reason = "no more could be recorded: the program has used up the files it may open, or their size"
    assert (outcome.status, outcome.detail) == ("crashed", f"default pass: {reason}")
    assert at(outcome, "before the files are gone")


def test_a_hang_ends_at_the_timeout_with_all_its_processes(pids: Path) -> None:
    process = launcher_of_a_hang(pids, timeout=6)
    assert process.wait(60) == 0
    assert "timeout" in (process.stdout.read().decode() if process.stdout else "")
    assert_gone(pids)


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL], ids=lambda blow: blow.name)
def test_an_interrupted_or_killed_launcher_leaves_no_orphan(pids: Path, blow: signal.Signals) -> None:
    process = launcher_of_a_hang(pids, timeout=300)
    process.send_signal(blow)
    process.wait(30)
    assert_gone(pids)


def test_an_interrupt_ends_with_a_report_of_what_was_seen(pids: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "compilelint", "check", str(PROGRAMS), "--no-cache", "--device", "cpu"]
    command += ["--output-format", f"json:{report}", "--target", "programs:clean", "--target", "programs:hanging"]
    command += ["--target", "programs:decoding"]
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in until(90):
        if (pids.exists() and pids.read_text()) or process.poll() is not None:
            break
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 2
    assert_gone(pids)
    targets = json.loads(report.read_text())["targets"]
    assert [(target["status"], target["detail"]) for target in targets] == [
        ("ok", ""),
        ("interrupted", "interrupted; this is what it had shown until then"),
        ("interrupted", "interrupted before it ran"),
    ]


def launcher_of_a_hang(pids: Path, timeout: float) -> subprocess.Popen[bytes]:
    """A process that runs the hanging target, once that hangs."""
    script = (
        "from pathlib import Path; from compilelint.runtime.launch import *; "
        "run = run_targets([TargetSpec('t', 'programs:hanging')], device='cpu', "
        f"timeout={timeout}, root=Path({str(HERE)!r})); print(run[0].status, run[0].detail)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for _ in until(60):
        if (pids.exists() and pids.read_text()) or process.poll() is not None:
            break
    return process


def test_where_no_call_works_on_a_device_all_tensors_are_made_there(tmp_path: Path) -> None:
    """The device is `meta`, which is on every machine and takes no tensors of others either."""
    records = tmp_path / "records"
    records.touch()
    script = "from compilelint.runtime import device, worker\ndevice.choose = lambda wanted: 'meta'\nworker.main()"
    options = ["--name", "t", "--factory", "programs:scattered", "--device", "cuda", "--records", str(records)]
    with subprocess.Popen(
        [sys.executable, "-c", script, *options], cwd=HERE, stdin=subprocess.PIPE, start_new_session=True
    ) as worker:
        worker.wait(120)
    outcome = fold("t", read_records(records)[0])
    assert (outcome.status, outcome.device, outcome.calls) == ("ok", "meta", 1)
    assert outcome.detail.startswith("run with the GPU as torch's default device, without which every call fails: ")
    assert [item.line for item in outcome.evidence] == [line_of("skip where the tensors are")]
    assert "eager" not in outcome.results
