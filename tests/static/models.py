"""Rows of the tables of kinds as whole programs: linted with a probe, and run to see what Python finds there."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from textwrap import indent
from types import ModuleType

import pytest
import torch
from _pytest.mark import ParameterSet
from projects import Probed, probe
from reality import fits

from compilelint.static.describe import describe

MODEL = """\
import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
import random
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Any, List, NamedTuple, Optional, Union

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Config:
    width = 4

    def __init__(self):
        self.gate = True


{definitions}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.scale = 2
        self.linear = nn.Linear(3, 3)
        self.lstm = nn.LSTM(3, 3)
        self.drop = nn.Dropout(0.0)
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.heads = nn.ModuleDict({{"a": nn.Linear(3, 3)}})
        self.register_buffer("steps", torch.zeros(3, dtype=torch.long))
        self.table = nn.Parameter(torch.zeros(2, 3))

    def forward(self, given: Tensor, count: int = 3, name: str = "sum", flag: bool = False,
                maybe: Optional[Tensor] = None):
        x = torch.randn(2, 3)
        mask = x > 0
        index = torch.randint(0, 2, (2,))
{body}
        return x
"""
"""What every row stands in: `x` holds floats, `mask` flags and `index` integers; `given` and `maybe` are annotated."""

CLAIM = re.compile(r"  # (.*)")
NOT_REACHED = "not reached"


def rows_of(table: str, separator: str = "\n\n") -> list[ParameterSet]:
    """The rows of a table as test parameters, each with the kind that a comment in it claims."""
    rows = [row.strip("\n") for row in table.split(separator) if row.strip()]
    return [
        pytest.param(row, _claimed(row), id=f"{CLAIM.sub('', row.splitlines()[0])}-{n}") for n, row in enumerate(rows)
    ]


def _claimed(row: str) -> str:
    claim = CLAIM.search(row)
    assert claim is not None, row
    return claim[1]


def kinds_of(row: str) -> str:
    """What the tracer takes the argument of `probe` in a row for, in words; fails where a run finds something else.

    A row is an expression, or statements that call `probe`, after definitions and a line `---` where it needs any.
    Several ways of reaching the probe are sorted and separated by `||`.
    """
    row = CLAIM.sub("", row)
    definitions, _, body = row.rpartition("---\n")
    if "probe(" not in row:
        body = f"probe({body})"
    source = MODEL.format(definitions=definitions, body=indent(body.strip("\n"), " " * 8))
    seen = probe(source)
    assert not seen.failures
    for real in _found(source):
        assert any(fits(sighting.value, real) for sighting in seen.sightings), f"a run finds {type(real)}: {real}"
    return _words(seen)


def _words(seen: Probed) -> str:
    ways = {describe(sighting.value) for sighting in seen.sightings if sighting.region == "compiled"}
    return " || ".join(sorted(ways)) or NOT_REACHED


def _found(source: str) -> Iterator[object]:
    """What `probe` is called with when the model runs: as it is, with the optional tensor, and with the flag set."""
    found: list[object] = []
    module = ModuleType("model")
    module.__dict__["probe"] = found.append
    sys.modules["model"] = module  # where dataclasses look their annotations up
    try:
        exec(source, module.__dict__)
        model = module.__dict__["Model"]()
        given = torch.randn(2, 3)
        for optional in ({}, {"maybe": torch.randn(2, 3)}, {"flag": True}):
            with contextlib.suppress(AssertionError):
                model(given, **optional)
            yield from found
            found.clear()
    finally:
        del sys.modules["model"]
