"""What is said to keep a float does: torch compiles anew for each value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from compilelint.static.facts.kept_numbers import KEPT, SINCE

torch = pytest.importorskip("torch")

TAKES: dict[str, Callable[[Any, float], Any]] = {
    "torch.nn.functional.batch_norm": lambda x, v: torch.nn.functional.batch_norm(
        x, torch.zeros(4), torch.ones(4), None, None, True, v
    ),
    "torch.nn.functional.layer_norm": lambda x, v: torch.nn.functional.layer_norm(x, (4,), eps=v),
    "torch.nn.functional.group_norm": lambda x, v: torch.nn.functional.group_norm(x, 2, eps=v),
    "torch.nn.functional.rms_norm": lambda x, v: torch.nn.functional.rms_norm(x, (4,), eps=v),
    "torch.nn.functional.smooth_l1_loss": lambda x, v: torch.nn.functional.smooth_l1_loss(x, x, beta=v),
    "torch.nn.functional.huber_loss": lambda x, v: torch.nn.functional.huber_loss(x, x, delta=v),
    "torch.nn.functional.cross_entropy": lambda x, v: torch.nn.functional.cross_entropy(x, x, label_smoothing=v),
    "torch.nn.functional.cosine_similarity": lambda x, v: torch.nn.functional.cosine_similarity(x, x, eps=v),
    "torch.nn.functional.triplet_margin_loss": lambda x, v: torch.nn.functional.triplet_margin_loss(x, x, x, v),
    "torch.nn.functional.margin_ranking_loss": lambda x, v: torch.nn.functional.margin_ranking_loss(x, x, x, v),
    "torch.nn.functional.hinge_embedding_loss": lambda x, v: torch.nn.functional.hinge_embedding_loss(x, x, v),
    "torch.nn.functional.cosine_embedding_loss": lambda x, v: torch.nn.functional.cosine_embedding_loss(
        x, x, x[:, 0], v
    ),
    "torch.nn.functional.interpolate": lambda x, v: torch.nn.functional.interpolate(x[None], scale_factor=1 + v),
    "torch.nn.functional.pad": lambda x, v: torch.nn.functional.pad(x, (1, 1), value=v),
    "torch.nn.functional.scaled_dot_product_attention": lambda x, v: torch.nn.functional.scaled_dot_product_attention(
        x, x, x, scale=v
    ),
    "torch.nn.functional.dropout2d": lambda x, v: torch.nn.functional.dropout2d(x[None, None], v),
    "torch.nn.functional.dropout3d": lambda x, v: torch.nn.functional.dropout3d(x[None, None, None], v),
    "torch.nn.functional.feature_alpha_dropout": lambda x, v: torch.nn.functional.feature_alpha_dropout(
        x[None, None], v
    ),
    "torch.dropout": lambda x, v: torch.dropout(x, v, True),
    "torch.normal": lambda x, v: torch.normal(0.0, v, (3,)),
    "torch.cdist": lambda x, v: torch.cdist(x, x, p=1 + v),
    "torch.as_tensor": lambda x, v: x + torch.as_tensor(v),
    "torch.Tensor.uniform_": lambda x, v: x.clone().uniform_(0, v),
    "torch.Tensor.normal_": lambda x, v: x.clone().normal_(0, v),
    "torch.Tensor.bernoulli_": lambda x, v: x.clone().bernoulli_(v),
    "torch.Tensor.exponential_": lambda x, v: x.clone().exponential_(v),
}
"""How each is called, where it is not with a tensor and the number."""
OF_TWO = {"pow", "fmod", "atan2", "hypot", "copysign"}


def _call(name: str) -> Callable[[Any, float], Any]:
    if name in TAKES:
        return TAKES[name]
    home, _, last = name.rpartition(".")
    if home != "math":
        return getattr(torch.nn.functional if home.endswith("functional") else torch, last)  # type: ignore[no-any-return]
    function = getattr(math, last)
    return lambda x, v: x * (function(v, 2.0) if last in OF_TWO else function(v))


@pytest.mark.parametrize("name", [name for name in KEPT if not name.startswith("math.") or hasattr(math, name[5:])])
def test_each_value_compiles_again(name: str) -> None:
    called, graphs = _call(name), 0

    def backend(graph: Any, inputs: object) -> object:
        nonlocal graphs
        graphs += 1
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(lambda x, v: called(x, v), backend=backend)
    for value in (0.15, 0.25, 0.35, 0.45):
        compiled(torch.rand(4, 4) + 0.1, value)
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    assert (graphs == 4) == (version >= SINCE.get(name, (0, 0)))
