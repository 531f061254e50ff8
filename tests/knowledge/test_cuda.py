"""What the table made on a GPU says of calls whose behaviour is known, and how it is written."""

from __future__ import annotations

import json

import pytest

from compilelint.knowledge.arguments import SHAPES
from compilelint.knowledge.cuda import HERE, MEASURED, on_cuda


@pytest.mark.parametrize(
    ("name", "seen", "shape"),
    [
        ("torch.Tensor.item", "waits", "tensor0d"),
        ("torch.nonzero", "waits", "tensor:bool"),
        ("torch.Tensor.nonzero", "waits", "tensor"),
        ("torch.linalg.inv", "waits", "tensor"),
        ("torch.linalg.svd", "error", "tensor"),
        ("torch.Tensor.svd", "error", "tensor"),
        ("torch.histc", "error", "tensor,int"),
        ("torch.cond", "skip", "tensor0d:bool,callable,callable,list[tensor]"),
        ("torch.Tensor.cpu", "split", "tensor"),
    ],
)
def test_what_was_seen(name: str, seen: str, shape: str) -> None:
    assert shape in on_cuda(name)[seen]


@pytest.mark.parametrize("name", ["torch.add", "torch.linalg.inv_ex", "torch.Tensor.add_", "numpy.nonzero", "?"])
def test_nothing_was_seen(name: str) -> None:
    assert on_cuda(name) == {}


def test_an_operator_that_waits_need_not_fail_in_a_cuda_graph() -> None:
    assert "error" not in on_cuda("torch.linalg.inv")


def test_every_shape_is_one_that_was_tried() -> None:
    tried = {shape for family in SHAPES.values() for shape in family.split()}
    facts = json.loads((HERE / MEASURED).read_text(encoding="utf-8"))["facts"]
    for name, entry in facts.items():
        for shapes in entry.values():
            assert set(shapes.split()) <= tried, name
