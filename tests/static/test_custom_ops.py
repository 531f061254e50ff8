"""Custom operators whose fake implementation is missing: a call of one can't be compiled at all."""

from __future__ import annotations

import pytest
from projects import check

OPERATORS = """
import torch


@torch.library.custom_op("lab::first", mutates_args=())
def first(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("lab::second", mutates_args=())
def second(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@first.register_fake
def _(x):
    return torch.empty_like(x)

{more}

@torch.compile
def run(x: torch.Tensor):
    return first(x) + second(x)
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", ["second(x)"]),
        ("@torch.library.register_fake('lab::second')\ndef _(x):\n    return torch.empty_like(x)", []),
        ("second.register_fake(torch.empty_like)", []),
        ("for op in (second,):\n    op.register_fake(torch.empty_like)", []),
    ],
)
def test_the_operator_without_a_fake_is_named(more: str, expected: list[str]) -> None:
    source = OPERATORS.replace("{more}", more)
    found = [f for f in check({"m.py": source}) if f.rule == "CL514"]
    assert [source.splitlines()[f.span.line - 1][f.span.column - 1 : f.span.end_column - 1] for f in found] == expected
