"""Which lists that driving code passes are longer or shorter each time, by how they are put together."""

from __future__ import annotations

import textwrap

import pytest
from projects import check

MODEL = """
import torch
from torch import nn

NAMES = ["left", "right", "top"]

class Net(nn.Module):
    def forward(self, x, images):
        for image in images:
            x = x + image
        return x

net = torch.compile(Net())

def serve(x, batch, rows, others):
"""
BODIES = {
    "what is there": ("images = [batch[name] for name in NAMES if name in batch]\n", False),
    "the first few": (
        "several = [x, x + 1, x + 2]\nfor n in range(1, 4):\n    net(x, several[:n])\nimages = [x]\n",
        True,
    ),
    "what is there, and zeros for the rest": (
        "images = []\n"
        "there = [name for name in NAMES if name in batch]\n"
        "missing = [name for name in NAMES if name not in batch]\n"
        "for name in there:\n    images.append(batch[name])\n"
        "for _ in range(len(missing)):\n    images.append(torch.zeros(3))\n",
        False,
    ),
    "filtered in place": ("rows = [row for row in rows if row is not None]\nimages = rows\n", False),
    "filtered in turns": (
        "rows = [row for row in others]\nothers = [row for row in rows]\nimages = [row for row in rows]\n",
        False,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_lengths_that_differ(name: str) -> None:
    body, differs = BODIES[name]
    found = check({"serve.py": MODEL + textwrap.indent(body + "return net(x, images)\n", "    ")})
    assert ("CL634" in {finding.rule for finding in found}) is differs


def test_a_list_that_a_function_puts_together_is_as_long_as_its_tests_say() -> None:
    gather = "def gather(batch):\n    images = []\n{rest}    return images\n"
    present = "    for name in NAMES:\n        if name in batch:\n            images.append(batch[name])\n"
    rest = "    for name in NAMES:\n        if name not in batch:\n            images.append(torch.zeros(3))\n"
    serve = "    for request in rows:\n        net(x, gather(request))\n"
    for body, differs in ((present, True), (present + rest, False)):
        text = MODEL.replace("def serve", gather.format(rest=body) + "\ndef serve") + serve
        assert ("CL634" in {finding.rule for finding in check({"serve.py": text})}) is differs
