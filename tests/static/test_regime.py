"""Whether a region is compiled so that what changes becomes a symbol, and with which values, as findings in it show."""

from __future__ import annotations

import pytest
from projects import check

CODE = """
import torch
import torch._dynamo

{setting}


@torch.compile({options})
def scale(x, by):
    return x * by


def run(x):
    for i in range(9):
        x = scale(x, i)
    return x


@torch.compile({options})
def shift(x, by):
    return x + by


def move(x):
    for i in range(9):
        x = shift(x, i / 2)
    return x
"""
CONFIG = "torch._dynamo.config"
EACH = {"scale": "likely", "shift": "likely"}
ONCE = {"scale": "possible", "shift": "possible"}


@pytest.mark.parametrize(
    ("setting", "options", "expected"),
    [
        ("", "", ONCE),
        ("", "dynamic=False", EACH),
        ("", "dynamic=None", ONCE),
        ("", "dynamic=True", {}),
        (f"{CONFIG}.automatic_dynamic_shapes = False", "", EACH),
        (f"{CONFIG}.automatic_dynamic_shapes = True", "", ONCE),
        (f"{CONFIG}.automatic_dynamic_shapes = False", "dynamic=True", {}),
        (f"patched = {CONFIG}.patch(automatic_dynamic_shapes=False)", "", EACH),
        (f"{CONFIG}.specialize_int = True", "", {**ONCE, "scale": "likely"}),
        (f"{CONFIG}.specialize_float = True", "", {**ONCE, "shift": "likely"}),
    ],
)
def test_numbers_become_symbols_unless_they_are_kept(setting: str, options: str, expected: dict[str, str]) -> None:
    found = check({"model.py": CODE.format(setting=setting, options=options)})
    assert {finding.function: finding.confidence for finding in found} == expected


FLAGGED = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.collect = False

    def forward(self, x: torch.Tensor):
        return x * x.sum().item() if self.collect else x


net = Net()
compiled = torch.compile(net)


def epoch(x, collect):
    net.collect = {value}
    return compiled(x)


for flag in flags():
    epoch(torch.ones(2), flag)
"""


@pytest.mark.parametrize(("value", "found"), [("collect", ["CL201", "CL610"]), ("False", [])])
def test_a_flag_that_driving_code_sets_may_be_on(value: str, found: list[str]) -> None:
    assert (
        sorted({finding.rule for finding in check({"main.py": FLAGGED.replace("{value}", value)})} - {"CL617"}) == found
    )


GIVEN = """
import functools
import torch


def scale(kept, x, by):
    return x * by * kept


def shift(x, by):
    return x + by


def run(x, way):
    {made}
    for i in range(9):
        x = compiled(x, i)
    return x
"""


@pytest.mark.parametrize(
    "made",
    [
        "compiled = torch.compile(functools.partial(scale, x){options})",
        "compiled = torch.compile(shift if way else functools.partial(scale, x){options})",
    ],
)
def test_options_are_those_of_each_function_that_may_be_compiled(made: str) -> None:
    def functions(options: str) -> set[str]:
        return {f.function for f in check({"model.py": GIVEN.format(made=made.format(options=options))})}

    assert functions("") and not functions(", dynamic=True")
