"""What findings say: what happens on the line, by the user's names, and what would work there instead."""

from __future__ import annotations

import pytest
from projects import check

NET = """
import contextvars, math, hashlib
import cv2
import numpy as np
import torch
from torch import nn

depth = contextvars.ContextVar("depth", default=0)


class Net(nn.Module):
    def __init__(self, strides: list[int]):
        super().__init__()
        self.hop = np.prod(strides)

    def forward(self, x: torch.Tensor):
        {body}
        return x
"""
OF_NUMPY = "a NumPy number that Dynamo holds as a tensor"


@pytest.mark.parametrize(
    ("rule", "body", "says", "advises"),
    [
        ("CL208", "x = x.reshape(x.shape[0], np.prod(x.shape[1:]))", OF_NUMPY, "use `math.prod`"),
        ("CL208", "x = x.reshape(x.sum(), 2)", "the tensor `x.sum()`", "pass the number into the region"),
        ("CL204", "x = x + math.ceil(x.shape[0] / self.hop)", OF_NUMPY, "make it a Python number where it is made"),
        ("CL204", "x = x + math.ceil(x.sum())", "so `x.sum()` is read back", "use `torch.ceil`"),
        ("CL202", "x = x + int(np.prod(x.shape))", "a NumPy value", "use `math.prod`"),
        ("CL101", "if np.prod(x.shape) > 9: x = x + 1", "is a NumPy value", "with Python's numbers"),
        ("CL101", "if x.sum() > 1: x = x + 1", "is a tensor's value", "`torch.where(condition, a, b)`"),
        ("CL102", "while np.prod(x.shape) > 9: x = x[1:]", "is a NumPy value", "compile the body alone"),
        ("CL409", "depth.set(1)", "works on a context variable", "hand the value on as an argument"),
        ("CL518", "x = x + cv2.norm(x.numpy())", "calls cv2, which Dynamo can't trace", "outside the compiled code"),
        ("CL518", "hashlib.sha256(b'x')", "runs C code", "outside the compiled code"),
    ],
)
def test_texts(rule: str, body: str, says: str, advises: str) -> None:
    found = [finding for finding in check(NET.format(body=body)) if finding.rule == rule]
    assert [(says in finding.message, advises in finding.instead) for finding in found] == [(True, True)]


@pytest.mark.parametrize(
    ("start", "use", "copied"),
    [
        ("token", "token = step(token.view(1, -1))", "token = token.clone()"),
        ("self.token", "self.token = step(self.token)", "self.token = self.token.clone()"),
        ("token", "token = step(step(xs))", "step(xs).clone()"),
    ],
)
def test_what_a_replay_overwrites_is_copied_by_its_own_name(start: str, use: str, copied: str) -> None:
    text = f"""
        import torch
        def f(x): return x + 1
        step = torch.compile(f, mode="reduce-overhead")
        @torch.no_grad()
        def run(self, xs, token):
            for _ in xs:
                {use}
            return {start}
        """
    found = [finding.instead for finding in check(text) if finding.rule == "CL805"]
    assert found == [f"copy it before `step` is called again: `{copied}`"]
