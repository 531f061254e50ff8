"""What CL536 says of an input that changes in place: what happens to it, and an advice that exists."""

from __future__ import annotations

import pytest
from projects import check

TEXT = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(4, 2))

    def forward(self, x):
        self.table.{call}
        return x * self.table.sum()
"""


@pytest.mark.parametrize(
    ("call", "does", "advice"),
    [
        ("t_()", "changes the shape of", "`self.table = self.table.t(…)`"),
        ("detach_()", "detaches", "`self.table = self.table.detach(…)`"),
        ("resize_(x.shape)", "changes the shape of", "before the compiled code runs"),
        ("set_(x.data)", "changes the shape of", "before the compiled code runs"),
    ],
)
def test_what_is_said_fits_the_method(call: str, does: str, advice: str) -> None:
    finding = next(found for found in check(TEXT.format(call=call)) if found.rule == "CL536")
    assert does in finding.message
    assert advice in finding.instead
