"""What `dynamic=True` and `mark_dynamic` do about sizes that made Dynamo compile again, as targets show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilelint.model import TargetRun
from compilelint.runtime.launch import TargetSpec, run_targets

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent


def tried(factory: str) -> tuple[TargetRun, tuple[str, ...]]:
    (outcome,) = run_targets([TargetSpec("t", f"programs:{factory}")], device="cpu", root=HERE)
    return outcome, next((item.tried for item in outcome.evidence if item.tried), ())


def test_size_one_has_a_graph_of_its_own_whatever_is_dynamic() -> None:
    outcome, (dynamic, marked) = tried("growing")
    assert (outcome.status, outcome.detail) == ("ok", "")
    (recompile,) = outcome.evidence
    assert (recompile.hits, recompile.channel) == (2, "recompile")
    assert recompile.reason.endswith("Sizes 0 and 1 are always compiled for on their own.")
    assert dynamic.startswith("with dynamic=True: still compiled 2 times instead of 3; the last time for ")
    assert marked.startswith("with mark_dynamic(x, 0), mark_dynamic(other, 0): ")


def test_a_size_that_the_code_makes_constant_cannot_be_marked() -> None:
    _, (dynamic, marked) = tried("constant")
    assert dynamic == "with dynamic=True: still compiled 2 times instead of 3; the last time for x.size()[0] != 4"
    assert marked.startswith("with mark_dynamic(x, 0): call 2 fails: ConstraintViolationError: You marked ")
    assert "specialized it to be a constant (4)" in marked
    assert marked.endswith(f"(programs.py:{line_of('constant')})")


def test_an_integer_argument_is_dynamic_too_but_takes_no_mark() -> None:
    outcome, texts = tried("numbered")
    assert len(texts) == 1, outcome.evidence
    assert texts[0].startswith("with dynamic=True: ")


def test_nothing_is_tried_where_no_size_varies() -> None:
    stages: list[str] = []
    targets = [TargetSpec("t", "programs:counting")]
    (outcome,) = run_targets(targets, device="cpu", root=HERE, on_progress=lambda _, stage: stages.append(stage))
    assert not any(item.tried for item in outcome.evidence)
    assert not any("trying" in stage for stage in stages)


def line_of(mark: str) -> int:
    lines = (HERE / "programs.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))
