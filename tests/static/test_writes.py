"""What a statement writes in place, by its syntax."""

from __future__ import annotations

import ast

import pytest

from compilelint.static.facts.writes import written_in_place

MADE = "class M:\n    def __init__(self):\n        self.act = nn.ReLU(inplace=True)\n        self.norm = nn.ReLU()\n"


@pytest.mark.parametrize(
    ("code", "written"),
    [
        ("x.add_(1)", "x"),
        ("x[:, 0].copy_(y)", "x[:, 0]"),
        ("x[0] = y", "x"),
        ("x += y", "x"),
        ("x[0] += y", "x"),
        ("torch.relu_(x)", "x"),
        ("torch.add(x, y, out=z)", "z"),
        ("F.relu(x, inplace=True)", "x"),
        ("self.act(x)", "x"),
        ("self.norm(x)", None),
        ("F.relu(x, inplace=False)", None),
        ("torch.add(x, y, out=None)", None),
        ("x.requires_grad_()", None),
        ("x['k'] = y", None),
        ("x.add(1)", None),
        ("x = y", None),
        ("x.__init__()", None),
    ],
)
def test_written_in_place(code: str, written: str | None) -> None:
    module = ast.parse(MADE + code)
    node: ast.AST = module.body[-1]
    place = written_in_place(node.value if isinstance(node, ast.Expr) else node, module)
    assert (ast.unparse(place) if place is not None else None) == written
