"""Where Dynamo is set to capture numbers and sizes that depend on data: what is no break then, and what remains."""

from __future__ import annotations

import pytest
from projects import check

CODE = """
import torch
import torch._dynamo

{setting}


@torch.compile({options})
def scale(x: torch.Tensor):
    return x * x.sum().item()


@torch.compile({options})
def rows(x: torch.Tensor):
    return x.nonzero()


@torch.compile({options})
def choose(x: torch.Tensor):
    return x if x.sum() > 0 else -x
"""
BREAKS = {"scale": "graph-break", "rows": "graph-break", "choose": "graph-break"}


def hazards(setting: str = "", options: str = "") -> dict[str, str]:
    found = check({"model.py": CODE.format(setting=setting, options=options)})
    return {finding.function: finding.hazard for finding in found}


def test_by_default_both_break() -> None:
    assert hazards() == BREAKS


def test_fullgraph_captures_both() -> None:
    assert hazards(options="fullgraph=True") == {"rows": "host-sync", "choose": "graph-break"}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("torch._dynamo.config.capture_scalar_outputs = True", {"rows": "graph-break", "choose": "graph-break"}),
        ("torch._dynamo.config.capture_dynamic_output_shape_ops = True", {**BREAKS, "rows": "host-sync"}),
        ("torch._dynamo.config.capture_scalar_outputs = False", BREAKS),
        (
            "patched = torch._dynamo.config.patch(capture_scalar_outputs=True)",
            {"rows": "graph-break", "choose": "graph-break"},
        ),
        (
            'patched = torch._dynamo.config.patch({"capture_scalar_outputs": True})',
            {"rows": "graph-break", "choose": "graph-break"},
        ),
        ('found = getattr(torch._dynamo.config, "capture_scalar_outputs", True)', BREAKS),
        (
            'setattr(torch._dynamo.config, "capture_scalar_outputs", True)',
            {"rows": "graph-break", "choose": "graph-break"},
        ),
    ],
)
def test_settings_of_the_file(setting: str, expected: dict[str, str]) -> None:
    assert hazards(setting) == expected
