"""What code that activation checkpointing runs changes outside of itself, and how sure it is that it runs there."""

from __future__ import annotations

import pytest
from projects import check

MODEL = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Inner(nn.Module):
    def forward(self, x, kept, own):
        {inner}
        return x

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.seen, self.state = Inner(), [], torch.zeros(4)

    def forward(self, x, kept):
        own = []
        {block}
        return self.inner(x, kept, own)

class Net(nn.Module):
    def __init__(self, remat=False):
        super().__init__()
        self.block, self.remat = Block(), remat

    def forward(self, x: torch.Tensor):
        kept = []
        {net}
"""
ALWAYS = "return checkpoint(self.block, x, kept)"


def sure(net: str = ALWAYS, block: str = "pass", inner: str = "pass") -> list[str]:
    found = check(MODEL.format(net=net, block=block, inner=inner))
    return [finding.confidence for finding in found if finding.rule == "CL541"]


@pytest.mark.parametrize(
    "block",
    [
        "self.state = x * 2",
        "self.state += 1",
        "self.seen.append(x)",
        "rows = self.seen; rows.append(x)",
        "kept.append(x)",
        "self.state, y = x * 2, x",
    ],
)
def test_the_checkpointed_function_changes_what_was_there_before(block: str) -> None:
    assert sure(block=block) == ["certain"]


@pytest.mark.parametrize(
    "block", ["own.append(x)", "self.state.add_(1)", "self.state[0] = 1", "self.flag = True", "y = x", "x += 1"]
)
def test_it_may_change_what_is_its_own_and_write_to_tensors(block: str) -> None:
    assert sure(block=block) == []


def test_only_the_first_change_splits_the_graph() -> None:
    assert sure(block="self.state = x * 2; kept.append(x)") == ["certain"]


def test_below_it_modules_are_what_was_there_before() -> None:
    assert sure(inner="self.last = x") == ["certain"]
    assert sure(inner="own.append(x)") == []


def test_what_is_not_checkpointed_may_change_anything() -> None:
    assert sure("return self.block(x, kept)", "self.state = x * 2") == []


@pytest.mark.parametrize(
    ("test", "expected"), [("self.remat and self.training", "possible"), ("x.requires_grad", "certain")]
)
def test_where_a_flag_asks_for_it_it_is_possible_only(test: str, expected: str) -> None:
    net = f"if {test}:\n            return checkpoint(self.block, x, kept)\n        return self.block(x, kept)"
    assert sure(net, "self.state = x * 2") == [expected]


def test_the_flag_may_stand_around_a_function_that_checkpoints() -> None:
    helper = "def saved(block, *args): return checkpoint(block, *args)\n        "
    net = "if self.remat: return saved(self.block, x, kept)\n        return x"
    assert sure(helper + net, "self.state = x * 2") == ["possible"]
