"""Every example of every rule is an experiment: compiled here, and held to what its rule says about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compilelint.rule import Example
from compilelint.rulebook import load_rules

measure_example = pytest.importorskip("tools.measure_example", reason="needs torch", exc_type=ImportError)

EXAMPLES = dict(item for rule in load_rules() for item in measure_example.examples_of(rule))
OBSERVED = measure_example.observed_file(measure_example.minor_version())
KEPT = json.loads(OBSERVED.read_text()) if OBSERVED.exists() else {}


@pytest.mark.parametrize("key", EXAMPLES)
def test_the_compiler_does_what_the_example_says(key: str, tmp_path: Path) -> None:
    example: Example = EXAMPLES[key]
    observed = measure_example.measure(example, tmp_path / f"{key.replace('/', '_')}.py")
    differing = KEPT.get(f"python {measure_example.running_python()}", {})
    if KEPT:
        expected = differing.get(key, KEPT["examples"].get(key))
        assert expected == observed.as_json(), f"run python -m tools.observe_examples {key[:5]}"
    if measure_example.minor_version() == measure_example.REFERENCE and key not in differing:
        assert (observed.default, observed.fullgraph) == (example.default, example.fullgraph), observed.gb


@pytest.mark.skipif(not KEPT, reason="nothing observed yet with this torch")
def test_nothing_is_kept_about_examples_that_are_gone() -> None:
    assert set(KEPT["examples"]) <= set(EXAMPLES), "run python -m tools.observe_examples"
