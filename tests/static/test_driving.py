"""What code that calls compiled functions does between two calls, as the findings in compiled code show it."""

from __future__ import annotations

import pytest
from projects import check

MODEL = """
import contextlib
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = "plain"
        self.names = []
    def set(self, mode): self.mode = mode
    @contextlib.contextmanager
    def using(self, mode):
        self.mode = mode
        yield
        self.mode = "plain"
    def forward(self, x):
        y = x if self.mode == "plain" else x * 2
        return y + len(self.names)


def serve(model, fast, mode):
    model.mode = mode
    return fast(torch.ones(2))


model = Model()
fast = torch.compile(model)
x = torch.ones(2)
"""

CHANGED = {
    "an attribute set before each call": "for mode in names():\n    model.mode = mode\n    fast(x)",
    "two constants in turn": "model.mode = 'a'\nfast(x)\nmodel.mode = 'b'\nfast(x)",
    "through a method": "fast(x)\nmodel.set('a')\nfast(x)",
    "by setattr": "fast(x)\nsetattr(model, 'mode', 'a')\nfast(x)",
    "on entering a context": "fast(x)\nwith model.using('a'):\n    fast(x)",
    "in a function that is called with another each time": "run = lambda mode: serve(model, fast, mode)",
    "a list that gets longer": "for _ in range(4):\n    fast(x)\n    model.names.append('a')",
    "after model.compile()": "model.compile()\nmodel(x)\nmodel.set('a')\nmodel(x)",
}
KEPT = {
    "once, before all calls": "model.mode = 'a'\nfast(x)\nfast(x)",
    "the same constant": "for _ in range(4):\n    model.mode = 'plain'\n    fast(x)",
    "after all calls": "for _ in range(4):\n    fast(x)\nmodel.mode = 'a'",
    "once, to what a loop gave": "for mode in names():\n    model.mode = mode\nfast(x)\nfast(x)",
    "around a call of other code": "model.set('a')\nprint(x)\nmodel.set('b')",
    "from a few values that are written down": "for mode in ('a', 'b'):\n    model.mode = mode\n    fast(x)",
    "to what does not change": "for _ in range(4):\n    model.mode = CONFIG.mode\n    fast(x)",
}


@pytest.mark.parametrize("driver", CHANGED.values(), ids=CHANGED.keys())
def test_what_changes_between_calls_is_found(driver: str) -> None:
    assert "CL617" in {finding.rule for finding in check({"main.py": MODEL + driver})}


@pytest.mark.parametrize("driver", KEPT.values(), ids=KEPT.keys())
def test_what_stays_is_not(driver: str) -> None:
    assert "CL617" not in {finding.rule for finding in check({"main.py": MODEL + driver})}
