"""What a base class outside the unit leaves to its methods: known as in the unit, and walked only when asked for."""

from __future__ import annotations

from unittest import mock

import pytest
from projects import Probed, probe

from compilelint.static.tracer.frame import Frame
from compilelint.static.tracer.tracer import Tracer
from compilelint.static.values import Value

MODEL = """
from base import probe, Base

class Model(Base):
    def forward(self, x):
        probe({asked})
        return x
"""
BASE = """
import torch
from torch import nn

class Maker:
    @classmethod
    def made(cls, width): return torch.ones(width)

class Base(nn.Module):
    maker_class = Maker

    def __init__(self):
        super().__init__()
{constructor}
"""
ASKED = {
    "what a method gives": (
        "self.mask = self.make()\n---\ndef make(self): return torch.ones(3) > 0",
        "self.mask",
    ),
    "what a method sets, through others and above": (
        "self.prepare()\n"
        "---\n"
        "def prepare(self): self._prepare(), self.register_buffer('other', torch.ones(3))\n"
        "def _prepare(self): self.mask = torch.ones(3) > 0",
        "(self.mask, self.other)",
    ),
    "what a class that the object knows makes": ("self.made = self.maker_class.made(3)", "self.made"),
    "what is set again later": (
        "self.mask = self.make()\n"
        "if self.mask is None: self.mask = 3\n"
        "self.mask = [self.mask]\n"
        "---\n"
        "def make(self): return torch.ones(3) > 0",
        "self.mask",
    ),
    "what a function is given": (
        "self.prepare()\n---\ndef prepare(self): fill(self)\n---\ndef fill(model): model.mask = torch.ones(3) > 0",
        "self.mask",
    ),
    "what a function is given by name": (
        "self.prepare()\n"
        "---\n"
        "def prepare(self): fill(model=self)\n"
        "---\n"
        "def fill(model): model.mask = torch.ones(3) > 0",
        "self.mask",
    ),
    "what a method with a positional receiver sets": (
        "self.prepare()\n---\ndef prepare(self, /, width=3): self.register_buffer('mask', torch.ones(width))",
        "self.mask",
    ),
    "a module that a method registers": (
        "self.prepare()\n---\ndef prepare(self): self.add_module('gate', nn.Sigmoid())",
        "[part for part in self.children()]",
    ),
    "what a loop fills": (
        "self.masks = []\n"
        "for mask in self.make(): self.masks.append(mask)\n"
        "---\n"
        "def make(self): return [torch.ones(3) > 0]",
        "self.masks",
    ),
    "a variable of the loop that is read below": (
        "last = None\n"
        "for mask in self.make(): last = mask\n"
        "self.last = last\n"
        "---\n"
        "def make(self): return [torch.ones(3) > 0]",
        "self.last",
    ),
    "one of what is unpacked, and a name made up": (
        "self.prepare('mask')\n"
        "---\n"
        "def prepare(self, name):\n"
        "    self.a, self.b = torch.ones(3), 2\n"
        "    setattr(self, name + '_new', torch.ones(3) > 0)",
        "(self.a, self.b, self.mask_new)",
    ),
    "a module among the children": (
        "self.number = self.count()\n"
        "self.gate = self.make()\n"
        "---\n"
        "def count(self) -> int: return 2\n"
        "def make(self): return nn.Sigmoid()",
        "[part for part in self.children()]",
    ),
    "a module that one of several methods sets": (
        "self.prepare()\n---\ndef prepare(self): self.gate = nn.Sigmoid() if self.training else None",
        "[part for _, part in self.named_children()]",
    ),
    "what was read back from a tensor": (
        "self.width = self.measure()\n---\ndef measure(self): return torch.ones(3).max().item()",
        "self.width",
    ),
    "by a name that is put together": (
        "self.left_mask = self.make()\n---\ndef make(self): return torch.ones(3) > 0",
        "getattr(self, f'{x}_mask')",
    ),
    "what another object is told, and the rest of the method reads": (
        "self.part = nn.Linear(3, 3)\n"
        "self.part.mask = self.make()\n"
        "self.mask = self.part.mask\n"
        "---\n"
        "def make(self): return torch.ones(3) > 0",
        "self.mask",
    ),
}


def _seen(base: str, asked: str, linted: int) -> Probed:
    constructor, *others = base.split("---\n")
    methods = "".join(f"    {line}\n" for line in (others[0] if others else "").splitlines())
    body = "".join(f"        {line}\n" for line in constructor.splitlines())
    functions = "def probe(value): ...\n" + (others[1] if len(others) > 1 else "")
    text = BASE.format(constructor=body + "\n" + methods) + "\n" + functions
    return probe({"model.py": MODEL.format(asked=asked), "base.py": text}, linted=linted)


@pytest.mark.parametrize(("base", "asked"), ASKED.values(), ids=ASKED.keys())
def test_what_is_put_off_is_known_when_it_is_asked_for(base: str, asked: str) -> None:
    inside = _seen(base, asked, 2).kinds()
    assert inside and "unknown" not in inside
    assert _seen(base, asked, 1).kinds() == inside


def test_what_nobody_asks_for_is_not_walked() -> None:
    base = ASKED["what a method sets, through others and above"][0]
    walked: list[str] = []
    walk = Tracer._walk

    def noted(tracer: Tracer, frame: Frame) -> Value:
        walked.append(frame.ref.qualname)
        return walk(tracer, frame)

    with mock.patch.object(Tracer, "_walk", noted):
        _seen(base, "self.training", 1)
    assert "Base.__init__" in walked
    assert "Base.prepare" not in walked


def test_a_hook_is_seen_though_nobody_asks_for_it() -> None:
    model = MODEL.format(asked="x") + "\n    def hook(self, model, args, output):\n        probe(output)\n"
    constructor = "        self.prepare()\n\n    def prepare(self): self.register_forward_hook(self.hook)\n"
    base = BASE.format(constructor=constructor) + "\ndef probe(value): ...\n"
    assert "Model.hook" in probe({"model.py": model, "base.py": base}, linted=1).functions()
