"""A value that is called, or asked whether it can be, is told from a tensor."""

from __future__ import annotations

import pytest
from projects import check

HEAD = """\
import inspect

import torch
import torch.nn.functional as F
from torch import nn


def shifted(x):
    return F.softplus(x) - 0.5


class Layer(nn.Module):
    def __init__(self, act=None):
        super().__init__()
        self.lin = nn.Linear(4, 4)
"""
TAIL = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(shifted), Layer(F.silu)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
MADE_IF_CLASS = """\
        if inspect.isclass(act):
            self.act = act()
        else:
            self.act = act
"""
KEPT_IF_CALLABLE = """\
        if callable(act):
            self.act = act
        else:
            self.act = torch.tensor(act)
"""


@pytest.mark.parametrize(
    ("made", "forward", "branches"),
    [
        (MADE_IF_CLASS, "flag = 2 if self.act else 1\nreturn self.lin(x) * flag", 0),
        ("self.act = act() if inspect.isclass(act) else act", "return x if not self.act else self.lin(x)", 0),
        (KEPT_IF_CALLABLE, "h = self.lin(x)\nif self.act:\n    h = self.act(h)\nreturn h", 0),
        (KEPT_IF_CALLABLE, "h = self.lin(x)\nreturn self.act(h) if self.act else h", 0),
        (KEPT_IF_CALLABLE, "h = self.lin(x)\nif not self.act:\n    return h\nreturn self.act(h)", 0),
        (KEPT_IF_CALLABLE, "h = self.lin(x)\nif not callable(self.act) and self.act > 1:\n    h = h * 2\nreturn h", 1),
        ("self.act = torch.ones(())", "h = self.lin(x)\nif self.act:\n    h = h * self.act\nreturn h", 1),
        ("self.act = shifted(torch.ones(()))", "if self.act:\n    x = shifted(x)\nreturn self.lin(x)", 1),
    ],
)
def test_called_and_tested(made: str, forward: str, branches: int) -> None:
    made = made if made.startswith("    ") else f"        {made}\n"
    body = "".join(f"        {line}\n" for line in forward.splitlines())
    found = check(f"{HEAD}{made}\n    def forward(self, x):\n{body}{TAIL}")
    assert [finding.rule for finding in found].count("CL101") == branches


MAKER = """
import inspect
from torch import nn

def layer(act):
    if inspect.isfunction(act):
        return act()
    return nn.ReLU() if act == "relu" else act

class Block(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = layer(act)

    def forward(self, x):
        return self.act(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(lambda: nn.PReLU(4)), Block("relu"), Block(nn.Tanh())])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""


def test_a_function_that_makes_a_layer_is_called_where_it_is_asked_for() -> None:
    assert not check(MAKER)
    assert [finding.rule for finding in check(MAKER.replace("return act()", "return act"))] == ["CL503"]
