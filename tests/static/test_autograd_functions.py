"""A `torch.autograd.Function` is traced another way where gradients are asked for: findings say how sure that is."""

from __future__ import annotations

import pytest
from projects import check

FUNCTIONS = """
import torch
from torch import nn


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * b

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, inplace):
        if inplace:
            ctx.mark_dirty(x)
            return x.clamp_(0, 1)
        return x.clamp(0, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad, None
"""
IN_MODULE = """
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    {decorator}
    def forward(self, x):
        h = self.proj(x)
        return {call}


compiled = torch.compile(Head())
"""
ALONE = """
@torch.compile
def head(x: torch.Tensor):
    h = x * 2
    return {call}
"""


@pytest.mark.parametrize(
    ("around", "decorator", "call", "expected"),
    [
        (IN_MODULE, "", "Square.apply(h, h)", ["likely"]),
        (ALONE, "", "Square.apply(h, h)", ["possible"]),
        (IN_MODULE, "@torch.no_grad()", "Square.apply(h, h)", []),
        (IN_MODULE, "@torch.set_grad_enabled(False)", "Square.apply(h, h)", []),
        (IN_MODULE, "@torch.set_grad_enabled(True)", "Square.apply(h, h)", ["likely"]),
        (IN_MODULE, "", "Clamp.apply(h, False)", ["possible"]),
    ],
)
def test_what_hangs_on_gradients(around: str, decorator: str, call: str, expected: list[str]) -> None:
    source = FUNCTIONS + around.replace("{decorator}", decorator).replace("{call}", call)
    findings = check({"m.py": source}, torch="2.13")  # torch 2.11 takes one tensor twice
    assert [f.confidence for f in findings if f.rule == "CL549"] == expected
