"""What an object counts that a module keeps, where each call starts the object anew, or moves back what it moved on."""

from __future__ import annotations

import textwrap

import pytest
from projects import check

TEXT = """\
import torch
from torch import nn


class Budget:
    def __init__(self, total=3):
        self.total = total
        self.left = total
        self.depth = 0

    def renew(self):
        self.left = self.total

    def take(self):
        self.left -= 1
        return self.left > 0

    def enter(self):
        self.depth += 1

    def leave(self):
        self.depth -= 1

    def __enter__(self):
        self.left = 3

    def __exit__(self, *error):
        pass


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.budget = Budget()

    def prepare(self):
        self.budget.left = 3

    def look(self):
        return self.budget.total

    def forward(self, x):
"""


@pytest.mark.parametrize(
    ("body", "counts"),
    [
        ("while self.budget.take():\n    x = self.proj(x)", True),
        ("self.look()\nwhile self.budget.take():\n    x = self.proj(x)", True),
        ("self.budget.renew()\nwhile self.budget.take():\n    x = self.proj(x)", False),
        ("self.prepare()\nwhile self.budget.take():\n    x = self.proj(x)", False),
        ("self.budget.enter()\nx = self.proj(x)", True),
        ("self.budget.enter()\nx = self.proj(x)\nself.budget.leave()", False),
        ("self.budget.renew()\nself.budget.enter()\nx = self.proj(x)", True),
        ("with self.budget:\n    while self.budget.take():\n        x = self.proj(x)", False),
    ],
)
def test_what_counts_on_from_call_to_call(body: str, counts: bool) -> None:
    found = check({"model.py": TEXT + textwrap.indent(body + "\nreturn x\n", "        ")})
    assert ("CL601" in {finding.rule for finding in found}) is counts
