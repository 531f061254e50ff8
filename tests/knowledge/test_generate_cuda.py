"""The parts of the generator that need no GPU: what it asks about, and the file it writes."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
from compilelint.knowledge import generate_cuda


@pytest.mark.filterwarnings("ignore")
def test_each_operator_is_asked_about_once() -> None:
    names = {candidate.name for candidate in generate_cuda._computing()}
    assert {"torch.add", "torch.linalg.svd", "torch.Tensor.item", "torch.nn.functional.normalize"} <= names
    assert (
        not {"torch.Tensor.add", "torch.Tensor.add_", "torch.relu_", "torch.Generator", "torch.set_num_threads"} & names
    )


def test_a_name_without_anything_to_say_has_no_line() -> None:
    text = generate_cuda.render({"torch.b": {"waits": ["tensor", "tensor,int"], "error": []}, "torch.a": {"waits": []}})
    assert json.loads(text)["facts"] == {"torch.b": {"waits": "tensor tensor,int"}}
