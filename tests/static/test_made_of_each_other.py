"""Variables that a loop makes of each other, each assigned once: questions about where they come from have an end."""

from __future__ import annotations

import pytest
from projects import check

# What the loop does, what was there before, what is asked, and the rule that speaks there.
ASKED = {
    "numbers": ("a = b + 1\n            b = a * 2", "x.sum(), x.sum()", "x = x * x[a]", {"CL207"}),
    "numbers of numpy": ("a = b\n            b = a", "np.sum(table), np.sum(table)", "torch.zeros(a, b)", {"CL208"}),
    "views": ("a = b\n            b = a", "x, x", "a[0] = 1", set()),
    "tensors": ("a = self.norm(b)\n            b = self.norm(a)", "x, x", "x = x + sum(x.chunk(a.shape[0]))", set()),
}
TEXT = """\
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor, table: np.ndarray):
        a, b = {first}
        for _ in range(3):
            {turn}
        {asked}
        return x

net = torch.compile(Net().requires_grad_(False), mode="reduce-overhead")

def drive():
    for n in range(2, 9):
        net(torch.zeros(n, 4), np.zeros(n))
"""


@pytest.mark.parametrize("name", ASKED)
def test_it_ends(name: str) -> None:
    turn, first, asked, rules = ASKED[name]
    found = {finding.rule for finding in check({"step.py": TEXT.format(turn=turn, first=first, asked=asked)})}
    assert found == rules
