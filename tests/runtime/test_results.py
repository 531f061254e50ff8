"""What is kept of the results of calls, so that two runs can be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilelint.runtime.launch import TargetSpec, run_targets

torch = pytest.importorskip("torch")

from compilelint.runtime.results import leaves  # noqa: E402  imports torch


def test_what_a_call_returned_in_a_few_numbers() -> None:
    value = {"x": torch.tensor([1.0, -2.0]), "n": (3, "s", None, True), "f": 0.5, "o": object()}
    found = dict(leaves(value))
    assert found.keys() == {"float32[2]", "3", "'s'", "None", "True", "float"}
    total, weighted, size = found["float32[2]"]
    assert (total, size) == (-1.0, 3.0)
    swapped = dict(leaves(torch.tensor([-2.0, 1.0])))["float32[2]"]
    assert swapped[0] == total
    assert abs(swapped[1] - weighted) > 0.1


@pytest.mark.parametrize("value", [torch.ones(2, device="meta"), torch.ones(2).to_sparse(), torch.ones(2) * 1j])
def test_of_unusual_tensors_only_what_they_are_is_kept(value: torch.Tensor) -> None:
    [(kind, numbers)] = leaves(value)
    assert kind.endswith("[2]")
    assert numbers == ()


def test_results_come_only_when_asked_for() -> None:
    spec = [TargetSpec("t", "programs:retyped")]
    with_results, without = (
        run_targets(spec, device="cpu", root=Path(__file__).parent, results=asked)[0] for asked in (True, False)
    )
    assert without.results == {}
    assert with_results.results.keys() == {"eager", "default"}
    assert with_results.results["eager"] == with_results.results["default"]
    assert len(with_results.results["eager"]) == with_results.calls
