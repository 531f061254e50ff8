"""What counts only where a call begins anew with an object, or where what it calls always breaks."""

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


@pytest.mark.parametrize(
    ("body", "counts"),
    [
        ("print(self.values)", True),
        ("if given is None:\n    return self.values\nprint(self.values)", False),
        ("if True:\n    print(self.values)\n    return self.values", True),
        ("if False:\n    return self.values\nprint(self.values)", True),
        ("if given is None:\n    raise ValueError(given)\nprint(self.values)", True),
        ("for value in (1, 2):\n    if given:\n        break\n    print(value)", False),
        ("for value in (1, 2):\n    if given:\n        break\nprint(self.values)", True),
        ("found = [print(value) for value in (1, 2) if given]", False),
        ("found = [print(value) for value in (1, 2)]", True),
    ],
)
def test_a_method_that_may_return_before_it_breaks_does_not_always_break(body: str, counts: bool) -> None:
    method = textwrap.indent(f"{body}\nreturn self.values\n", "        ")
    found = check({"model.py": SOLVER + method})
    assert ("CL538" in {finding.rule for finding in found}) is counts


SOLVER = """\
import torch
from torch import nn


class Solver(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.given = given

    def forward(self, x):
        state = State(x.sin())
        return state.settled(self.given) + 1


class State:
    def __init__(self, values):
        self.values = values

    def settled(self, given):
"""


@pytest.mark.parametrize("passed", ["torch.relu(rows)", "torch.relu(rows), torch.relu(rows).max()"])
def test_a_size_that_a_caller_may_hand_over_is_likely_read_back(passed: str) -> None:
    """Another caller may pass a number; a break on its way makes an input of it, of which Dynamo makes a constant."""
    text = f"""
        import torch
        def mask(lengths, most=None):
            if most is None:
                most = lengths.max()
            return torch.arange(most)[None] < lengths[:, None]
        @torch.compile
        def masked(x, rows):
            return x * mask({passed})
        """
    assert [(finding.rule, finding.confidence) for finding in check(text)] == [("CL208", "likely")]
