"""When a target's module is imported once for all passes, and what happens where that would not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilelint.model import TargetRun
from compilelint.runtime.launch import TargetSpec, run_targets
from compilelint.runtime.preload import may_preload

pytest.importorskip("torch")

HEAD = """\
import os
import random
import threading
import torch
import compilelint

with open(os.path.join(os.path.dirname(__file__), "imports.txt"), "a") as stream:
    stream.write("imported\\n")


def step(x):
    print("step")
    return x + 1


def target():
    return compilelint.Target(step, calls=[(torch.ones(2),)])


"""


def outcome(folder: Path, tail: str, timeout: float = 120) -> tuple[TargetRun, int]:
    """What the target showed, and how often its module was imported."""
    (folder / "made.py").write_text(HEAD + tail)
    (run,) = run_targets([TargetSpec("t", "made:target")], device="cpu", root=folder, timeout=timeout)
    return run, (folder / "imports.txt").read_text().count("imported")


@pytest.mark.skipif(not may_preload(), reason="passes are not forked from the user's imports on this machine")
def test_a_module_is_imported_once_for_all_passes(tmp_path: Path) -> None:
    run, imports = outcome(tmp_path, "")
    assert (run.status, run.detail, imports) == ("ok", "", 1)
    assert [item.gb for item in run.evidence] == ["GB0059"]
    lines = (tmp_path / "made.py").read_text().splitlines()
    assert {lines.index("import compilelint") + 1, lines.index("    return x + 1") + 1} <= run.executed[
        str(tmp_path / "made.py")
    ]


@pytest.mark.parametrize(
    "tail",
    [
        "compiled = torch.compile(step)",
        "weights = torch.randn(3)",
        "order = random.random()",
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    ],
    ids=["compiles", "draws from torch", "draws from Python", "starts a thread"],
)
def test_each_pass_imports_what_a_fork_would_change(tmp_path: Path, tail: str) -> None:
    run, imports = outcome(tmp_path, tail)
    assert (run.status, run.detail) == ("ok", "")
    assert imports >= 3
    assert [item.gb for item in run.evidence] == ["GB0059"]


@pytest.mark.parametrize(
    ("tail", "status", "detail"),
    [
        ("raise OSError('no data here')", "failed", "eager pass: OSError: no data here"),
        ("os._exit(0)", "crashed", "eager pass: the program ended its own process with exit code 0"),
        ("os.kill(os.getpid(), 11)", "crashed", "eager pass: killed by SIGSEGV"),
    ],
    ids=["raises", "leaves", "crashes"],
)
def test_an_import_that_dies_is_told_as_before(tmp_path: Path, tail: str, status: str, detail: str) -> None:
    run, _ = outcome(tmp_path, tail)
    assert run.status == status
    assert run.detail.startswith(detail)


def test_an_import_that_hangs_ends_at_the_timeout(tmp_path: Path) -> None:
    run, imports = outcome(tmp_path, "threading.Event().wait()", timeout=15)
    assert (run.status, imports) == ("timeout", 1)
