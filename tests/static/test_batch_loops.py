"""Loops that call what their file compiles and feed nothing back: which are, and what in them runs each turn."""

from __future__ import annotations

import pytest
from projects import check, probe

FILE = """
import torch
class Engine:
    def __init__(self, net, other):
        self.net, self.other = net, other
        self.fast, self.pair = torch.compile(net), torch.compile(other)
    def one(self, x):
        return self.fast(x) + 1
    def whole(self, batches):
        return [self.one(x) for x in batches]
    def through(self, x):
        return self.one(x)
    def epoch(self, batches):
        for x in batches:
            self.fast(x)
    {name}(self, batches, x):
        {loop}
"""


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        ("for x in batches: y = self.fast(x); probe(y)", True),
        ("for x in batches: y = self.pair(x); probe(y)", True),
        ("for x in batches: y = self.through(x); probe(y)", True),
        ("for x in batches:\n            for part in self.one(x): probe(part)", True),
        ("while batches: y = self.fast(batches.pop()); probe(y)", True),
        ("for x in batches: y = self.fast(x)\n        probe(x)", False),
        ("for n in range(9):\n            for x in batches: y = self.fast(x)\n            probe(y)", False),
        ("for n in range(9): self.epoch(batches); probe(x)", False),
        ("for x in batches: y = self.other(x); probe(y)", False),
        ("for x in batches: later(lambda: self.fast(x)); probe(x)", False),
        ("for x in batches: y = x.one(x); probe(y)", False),
        ("for _ in batches: x = self.fast(x); probe(x)", False),  # it decodes
    ],
)
def test_a_loop_that_calls_what_the_file_compiles(loop: str, found: bool) -> None:
    seen = probe({"app.py": FILE.format(name="def run", loop=loop)})
    assert ("Engine.run" in seen.functions("batch-loop")) is found


@pytest.mark.parametrize(
    ("name", "found"),
    [("def fit", True), ("async def serve", True), ("def benchmark", False), ("def test_speed", False)],
)
def test_what_tries_a_model_out_reads_what_it_gives(name: str, found: bool) -> None:
    seen = probe({"app.py": FILE.format(name=name, loop="for x in batches: probe(self.fast(x))")})
    assert bool(seen.functions("batch-loop")) is found


def test_a_file_that_compiles_nothing_has_none() -> None:
    text = FILE.format(name="def run", loop="for x in batches: y = self.fast(x); probe(y)").replace(
        "torch.compile", "same"
    )
    assert not probe({"app.py": text}).functions("batch-loop")


def test_what_such_a_loop_calls_stands_around_the_model() -> None:
    text = """
        import torch
        net = torch.compile(torch.nn.Linear(4, 4))
        def measure_of(y: torch.Tensor): return probe(y.abs().sum())
        def rotate(x: torch.Tensor): return probe(x + 1)
        def fit(batches):
            for x in batches:
                measure_of(net(x))
        """
    seen = probe({"pkg/__init__.py": "", "pkg/parts.py": text})
    assert seen.functions("batch-loop") == {"measure_of"}
    assert seen.functions("compiled") == {"rotate"}


LOOP = """
import math
import torch
net = torch.compile(torch.nn.Linear(4, 4))
def fit(batches, optimizer, log, table: list, rank: int):
    for step, x in enumerate(batches):
        y = net(x)
        loss = y.square().mean()
        {line}
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("log(loss.item())", True),
        ("log(float(loss))", True),
        ("log(f'{loss:.3f}')", True),
        ("if not math.isfinite(loss): break", True),
        ("if loss > 9: optimizer.step()", True),
        ("loss.backward(); log(y.detach().cpu())", True),
        ("log(y.detach().cpu())", False),
        ("log(y.tolist())", False),
        ("if step % 10 == 0: log(loss.item())", False),
        ("assert loss < 9", False),
        ("log(table[loss.argmax()])", False),
        ("log(math.sqrt(rank))", False),
        ("if rank == 0: log(x.shape[0])", False),
    ],
)
def test_what_is_read_back_each_turn(line: str, found: bool) -> None:
    findings = [finding for finding in check(LOOP.format(line=line)) if finding.rule == "CL701"]
    assert bool(findings) is found
    assert all(finding.confidence == "likely" for finding in findings)
