"""What runs on the first call alone: under a test of what lasts, which is turned round then."""

from __future__ import annotations

import pytest
from projects import check

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.new, self.size = [], True, None

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None):
        {body}
        return x * len(self.rows)
"""


@pytest.mark.parametrize(
    ("body", "grows"),
    [
        ("if self.new:\n            self.rows.append(1)\n            self.new = False", False),
        ("if self.size is None:\n            self.rows.append(1)\n            self.size = (1, 2)", False),
        ("if self.new:\n            self.new = False\n        else:\n            self.rows.append(1)", True),
        ("if mask is None:\n            mask = torch.ones(3)\n            self.rows.append(1)", True),
        (
            "first = True\n        for i in range(2):\n            if first:\n                self.rows.append(1)"
            "\n                first = False",
            True,
        ),
        (
            "if self.new:\n            self.rows.append(1)\n            self.new = False\n        if self.training:"
            "\n            self.new = True",
            True,
        ),
    ],
)
def test_a_list_that_is_filled_on_the_first_call_alone_does_not_grow(body: str, grows: bool) -> None:
    assert ("CL602" in {finding.rule for finding in check(MODEL.format(body=body))}) is grows


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        ("self.size = int(x.max())\n        x = x * self.size", True),
        ("self.size = int(x.max())\n        x = torch.zeros(self.size)", False),  # CL609 tells of sizes
        ("self.size = int(x.max())\n        if self.size < 3: return x * 3", True),
        ("if self.size is None:\n            self.size = int(x.max())\n        x = x * self.size", False),
    ],
)
def test_a_number_that_is_read_back_on_the_first_call_alone_stays(body: str, changes: bool) -> None:
    assert ("CL610" in {finding.rule for finding in check(MODEL.format(body=body))}) is changes
