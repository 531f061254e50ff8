"""Logs of TORCH_TRACE: of several versions of torch, of other machines and days, damaged, mixed, or none at all."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path

import pytest

from compilelint.cli import main
from compilelint.model import TargetRun
from compilelint.runtime.program import run_program
from compilelint.runtime.relocation import Relocation
from compilelint.runtime.trace import TraceError, read_trace

TRACES = Path(__file__).parent / "traces"
MODEL = TRACES / "model.py"
NEWEST = TRACES / "torch-2.14.log"

Seen = set[tuple[str, str, str | None, int]]


def seen(run: TargetRun) -> Seen:
    """What was seen in the model: channel, the text of the line, graph-break id, hits."""
    lines = MODEL.read_text(encoding="utf-8").splitlines()
    return {
        (item.channel, lines[item.line - 1].strip(), item.gb, item.hits)
        for item in run.evidence
        if Path(item.path).name == MODEL.name
    }


def traced(run: TargetRun) -> set[str]:
    lines = MODEL.read_text(encoding="utf-8").splitlines()
    return {lines[line - 1].strip() for numbers in run.traced.values() for line in numbers}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "2.14",
            {
                ("graph-break", "if y.sum() > 0:", "GB0170", 2),
                ("recompile", "self.steps += 1", None, 2),
                ("recompile-limit", "self.steps += 1", "GB0039", 1),
                ("frame-skip", 'print("loop")', "GB0059", 1),
                ("recompile", "def clean(x):", None, 1),
                ("frame-skip", 'print("no")', "GB0059", 1),
            },
        ),
        (
            "2.6",
            {
                ("graph-break", "if y.sum() > 0:", None, 2),
                ("recompile", "def forward(self, x):", None, 1),
                ("frame-skip", 'print("loop")', None, 1),
                ("recompile", "def clean(x):", None, 1),
                ("frame-skip", 'print("no")', None, 1),
            },
        ),
    ],
)
def test_what_each_version_tells(version: str, expected: Seen) -> None:
    run = read_trace(TRACES / f"torch-{version}.log", [MODEL])
    assert (run.status, run.detail, run.device) == ("ok", "", "cpu")
    assert run.torch == ("2.14.1" if version == "2.14" else "")  # older ones do not name themselves
    assert seen(run) == expected
    assert {item.path for item in run.evidence} == set(run.traced) == {str(MODEL)}
    assert traced(run) >= {"y = self.linear(x)", "return y.relu()", "y = x.sin()", "return y.cos()"}
    assert not traced(run) & {'print("loop")', "x = x + 1", 'print("no")'}
    assert run.watched == {"graph-break", "frame-skip", "recompile", "recompile-limit"}


def test_a_version_that_tells_no_breaks_says_so() -> None:
    run = read_trace(TRACES / "torch-2.4.log", [MODEL])
    assert run.detail.startswith(
        "torch 2.5 or older wrote this, which does not tell where a graph breaks (1 compilations"
    )
    assert not run.watched
    assert seen(run) == {
        ("frame-skip", 'print("no")', None, 1),
        ("recompile", "def forward(self, x):", None, 1),
        ("recompile", "def clean(x):", None, 1),
    }
    assert {item.function for item in run.evidence} == {"refused", "forward", "clean"}
    assert "y = self.linear(x)" in traced(run)


def test_the_installed_torch_traces_what_is_observed_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCH_TRACE", str(tmp_path))
    observed = run_program([sys.executable, str(MODEL)], timeout=300)
    assert (observed.status, observed.detail) == ("ok", "")
    read = read_trace(tmp_path, [MODEL])
    as_read = {(item[0].replace("fullgraph", "frame-skip"), *item[1:]) for item in seen(observed)}
    assert seen(read) == as_read
    assert len(as_read) == 6
    assert traced(read) < traced(observed)
    assert (read.torch, read.device) == (observed.torch, observed.device)


def test_what_inductor_leaves_out_of_cuda_graphs_is_at_its_lines() -> None:
    program = TRACES / "gpu_program.py"
    run = read_trace(TRACES / "torch-2.11-cuda.log", [program])
    assert (run.status, run.detail, run.device, run.torch) == ("ok", "", "cuda", "2.11.0+cu130")
    lines = program.read_text(encoding="utf-8").splitlines()
    found = {(item.channel, lines[item.line - 1].rpartition("  # ")[2], item.reason) for item in run.evidence}
    assert {item[:2] for item in found if item[0] != "cudagraph"} == {("graph-break", "item")}
    assert {item[1:] for item in found if item[0] == "cudagraph"} == {
        ("left out", "CUDA graphs leave out aten.mul.Tensor: cpu ops."),
        ("left out", "CUDA graphs leave out aten.sin.default: cpu ops."),
        ("copied", "CUDA graphs leave out prims.device_put.default: DeviceCopy ops."),
        ("skipped", "No CUDA graph is recorded: cpu device (arg0_1)."),
        ("sizes", "Its CUDA graphs are recorded more than once, as they are for each size of an input."),
    }
    assert "cudagraph" not in run.watched  # that an input is written to is found out later, and not told


# -- files that are whole and files that are not -----------------------------------------------------------------------


def test_a_log_cut_short_or_damaged_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    text = NEWEST.read_text(encoding="utf-8")
    whole = seen(read_trace(NEWEST, [MODEL]))
    (tmp_path / "a.log").write_text(text[: text.index("User code traceback")])
    cut = read_trace(tmp_path, [MODEL])
    assert (seen(cut), cut.detail) == (
        set(),
        "nothing was compiled while this was written; 1 damaged records were passed over",
    )
    (tmp_path / "a.log").write_text(
        "Starting…\n" + text.replace("\n", "\r\n") + 'V1130 12:00:00.1 1 a.py:1] {"artifact": {"na'
    )
    assert seen(read_trace(tmp_path, [MODEL])) == whole
    (tmp_path / "a.log").write_text(text.replace("Data-dependent branching\n", "Data-dep\x00ndent branching\n", 1))
    damaged = read_trace(tmp_path, [MODEL])
    assert damaged.detail == "1 damaged records were passed over"
    assert {item[:3] for item in seen(damaged)} == {item[:3] for item in whole}


@pytest.mark.parametrize(
    "metadata",
    ['{"str": 5}', '{"dynamo_start": []}', '{"dynamo_start": {"stack": [{}]}}', '{"artifact": 1}', '{"rank"}'],
)
def test_a_record_that_torch_would_not_write_is_damage(tmp_path: Path, metadata: str) -> None:
    strange = f"V1130 12:00:00.000000 4242 torch/a.py:1] {metadata}\n"
    (tmp_path / "a.log").write_text(strange + NEWEST.read_text(encoding="utf-8"))
    run = read_trace(tmp_path, [MODEL])
    assert run.detail == "1 damaged records were passed over"
    assert seen(run) == seen(read_trace(NEWEST, [MODEL]))


def test_gzipped_logs_are_read_to_where_they_are_cut(tmp_path: Path) -> None:
    (tmp_path / "rank").mkdir()
    (tmp_path / "rank" / "dedicated_log_torch_trace_x.log.gz").write_bytes(gzip.compress(NEWEST.read_bytes()))
    assert seen(read_trace(tmp_path, [MODEL])) == seen(read_trace(NEWEST, [MODEL]))
    short = gzip.compress(NEWEST.read_bytes(), compresslevel=0)[:12_000]
    (tmp_path / "rank" / "dedicated_log_torch_trace_x.log.gz").write_bytes(short)
    cut = read_trace(tmp_path, [MODEL])
    assert ("graph-break", "if y.sum() > 0:") in {item[:2] for item in seen(cut)}
    assert len(cut.evidence) < 6
    assert "damaged records were passed over" in cut.detail


def test_ranks_in_files_of_their_own_or_mixed_in_one_are_told_apart(tmp_path: Path) -> None:
    head = "V1130 "
    records = [head + record.rstrip("\n") for record in NEWEST.read_text(encoding="utf-8").split(head)[1:]]
    first = [record.replace('"frame_id"', '"rank": 0, "frame_id"') for record in records]
    second = [record.replace(" 4242 ", " 4243 ").replace('"frame_id"', '"rank": 1, "frame_id"') for record in records]
    apart, mixed = tmp_path / "apart", tmp_path / "mixed"
    for folder in (apart, mixed):
        folder.mkdir()
    (apart / "0.log").write_text("\n".join(first))
    (apart / "1.log").write_text("\n".join(second))
    (mixed / "all.log").write_text("\n".join(record for pair in zip(first, second, strict=True) for record in pair))
    for folder in (apart, mixed):
        run = read_trace(folder, [MODEL])
        assert run.detail == "compiled on ranks 0 and 1"
        assert ("graph-break", "if y.sum() > 0:", "GB0170", 4) in seen(run)


# -- other machines and other days -------------------------------------------------------------------------------------


def relocated(tmp_path: Path, *files: str, change: str = "") -> TargetRun:
    """The trace, read where the model lies under these names, with `change` made to the first of them."""
    paths = [tmp_path / file for file in files]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(MODEL, path)
    if change:
        paths[0].write_text(MODEL.read_text(encoding="utf-8").replace(*change.split(" -> ")))
    return read_trace(NEWEST, paths)


def places(run: TargetRun) -> set[str]:
    return {item.path for item in run.evidence}


def test_a_path_of_another_machine_is_the_linted_file_with_its_ending(tmp_path: Path) -> None:
    assert places(relocated(tmp_path, "here/model.py", "here/other.py")) == {str(tmp_path / "here/model.py")}
    assert places(relocated(tmp_path, "work/project/model.py", "work/model.py")) == {
        str(tmp_path / "work/project/model.py")
    }


def test_a_path_that_may_be_several_files_stays_as_it_is(tmp_path: Path) -> None:
    assert places(relocated(tmp_path, "a/model.py", "b/model.py")) == {"/srv/project/model.py"}


def test_a_file_of_that_name_with_other_lines_is_another_file(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\n" * 60)
    assert places(read_trace(NEWEST, [tmp_path / "model.py"])) == {"/srv/project/model.py"}


def test_a_bare_name_is_not_enough_where_no_line_is_quoted(tmp_path: Path) -> None:
    file = tmp_path / "project" / "model.py"
    file.parent.mkdir()
    file.touch()
    unquoted = Relocation([file], {})
    assert unquoted.path("/srv/other/model.py") == "/srv/other/model.py"
    assert unquoted.path("/srv/project/model.py") == str(file)
    assert unquoted.path("C:\\code\\project\\model.py") == str(file)


def test_what_is_about_a_changed_line_is_left_out(tmp_path: Path) -> None:
    run = relocated(tmp_path, "model.py", change='print("loop") -> log("loop")')
    assert 'print("loop")' not in {line for _, line, _, _ in seen(run)}
    assert len(run.evidence) == len(relocated(tmp_path, "model.py").evidence) - 1
    assert run.detail == "1 observations are about lines that read differently now"


# -- the command line --------------------------------------------------------------------------------------------------


def test_verdicts_come_from_a_trace_as_from_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODEL, "model.py")
    assert main(["model.py", "--isolated", "--trace", str(NEWEST), "--output-format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    verdicts = {(item["line"], item["verdict"]) for item in report["findings"]}
    expected = {"if y.sum() > 0:": "confirmed", 'print("loop")': "confirmed", "self.steps += 1": "confirmed"}
    lines = [line.strip() for line in MODEL.read_text(encoding="utf-8").splitlines()]
    assert {(lines.index(text) + 1, verdict) for text, verdict in expected.items()} <= verdicts
    assert "not-reached" not in {verdict for _, verdict in verdicts}
    assert (report["torch"], report["targets"][0]["name"]) == ("2.14.1", f"trace {NEWEST}")


def test_what_a_trace_lacks_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(MODEL), "--isolated", "--trace", str(TRACES / "torch-2.4.log"), "--output-format", "concise"])
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "torch 2.6 or later does" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trace", "gone"], "--trace: gone: no such folder; name the one that TORCH_TRACE named"),
        (["--trace", "empty"], "--trace: empty: holds no logs; run the program with TORCH_TRACE=empty"),
        (["--trace", "other"], "--trace: other: none of its log files was written by TORCH_TRACE"),
        (["--trace", "model.py"], "--trace: model.py: none of its log files was written by TORCH_TRACE"),
        (["--trace", "other", "--fix"], "--fix would change the lines that the trace speaks of"),
    ],
)
def test_a_folder_without_a_trace_is_an_error_in_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").touch()
    Path("empty").mkdir()
    Path("other").mkdir()
    Path("other/server.log").write_bytes(b"started\n\xff\xfe\n")
    assert main(["model.py", *arguments]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert message in told.err


def test_a_damaged_log_alone_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(b"\x1f\x8b garbage")
    with pytest.raises(TraceError, match="or all of it is damaged"):
        read_trace(tmp_path, [])
