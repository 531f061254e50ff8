"""Where the value that a finding is about was set: what a reader follows back from the hazard."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilelint.config import Settings
from compilelint.static import lint

SOURCE = """\
import torch


class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(3)


class Net(Base):
    def forward(self, x: torch.Tensor):
        total = x.sum()
        total = total + 1
        if total > 1:
            x = x + 1
        n = 0 + {expression}
        return x * n
"""


@pytest.mark.parametrize(
    ("expression", "line", "place"),
    [
        ("1", 14, (13, "total")),
        ("self.scale.item()", 16, (7, "self.scale")),
        ("x.sum().item()", 16, (15, "x")),
        ("torch.ones(3).sum().item()", 16, None),
    ],
)
def test_the_last_place_before_the_hazard(
    tmp_path: Path, expression: str, line: int, place: tuple[int, str] | None
) -> None:
    file = tmp_path / "net.py"
    file.write_text(SOURCE.format(expression=expression))
    found = {finding.span.line: finding for finding in lint([file], Settings(root=tmp_path)).findings}
    made = found[line].definition
    assert (made and (made.line, made.note)) == place
