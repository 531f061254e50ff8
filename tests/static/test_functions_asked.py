"""Functions that Python's own code calls: keys, tests, and the methods behind `int(x)`, `str(x)`, `sorted(xs)`."""

from __future__ import annotations

import pytest
from projects import check

KEYS = """
import functools
import heapq
import itertools

import torch


def norm(row):
    return row.sum().item()


class Size:
    def __init__(self, mask):
        self.mask = mask

    def __int__(self):
        return self.mask.sum().item()

    def __str__(self):
        return str(self.mask.shape) + "%d" % self.mask.sum().item()


@torch.compile
def run(x: torch.Tensor):
    return {expression}
"""


@pytest.mark.parametrize(
    "expression",
    [
        "sorted(x.unbind(0), key=norm)[0]",
        "sorted(range(4), key=lambda i: x[i].sum().item())[0] + x",
        "max(x.unbind(0), key=norm)",
        "list(filter(norm, x))[0]",
        "list(itertools.filterfalse(norm, [x, x]))[0]",
        "sum(itertools.takewhile(norm, x))",
        "[g for g, _ in itertools.groupby(x.unbind(0), norm)][0] + x",
        "sum(itertools.starmap(lambda a, b: a * b.sum().item(), [(x, x)]))",
        "list(itertools.accumulate(x, lambda a, b: a * norm(b)))[-1]",
        "heapq.nsmallest(1, range(4), key=lambda i: norm(x[i]))[0] + x",
        "x * int(Size(x > 0))",
        "x * len(str(Size(x > 0)))",
    ],
)
def test_what_python_calls_is_walked(expression: str) -> None:
    found = check({"m.py": KEYS.replace("{expression}", expression)})
    assert "CL201" in {finding.rule for finding in found}, found


WIDTH = """
class Width:
    def __init__(self, x):
        self.x = x

    def __int__(self):
        return self.x.tolist()[0]


@torch.compile"""


def test_each_class_that_an_object_may_be_of_says_how_it_is_converted() -> None:
    source = KEYS.replace("@torch.compile", WIDTH).replace("x: torch.Tensor", "x: torch.Tensor, wide: bool")
    found = check({"m.py": source.replace("{expression}", "x * int(Size(x > 0) if wide else Width(x))")})
    assert {"CL201", "CL203"} <= {finding.rule for finding in found}, found


@pytest.mark.parametrize(
    "expression",
    [
        "sorted([x, x[:2]], key=lambda t: t.dim())[0]",
        "sorted([(2, x), (1, x)], key=lambda pair: pair[0])[0][1]",
        "sorted({'b': x, 'a': x})[0] and x",
        "x * max([1, 2], key=lambda n: -n)",
        "x * len(max(['a', 'bb'], key=len))",
        "sum(filter(lambda t: t is not None, [x, None]))",
        "sum(itertools.filterfalse(lambda t: t.dim() == 1, [x, x[0]]))",
        "x * sum(map(float, x.shape))",
        "sum(map(abs, x))",
    ],
)
def test_keys_and_tests_that_are_known_while_tracing(expression: str) -> None:
    assert not check({"m.py": KEYS.replace("{expression}", expression)})


SORTED = """
import enum
import functools

import torch


class Beam:
    def __init__(self, score):
        self.score = score

    def __lt__(self, other):
        return self.score < other.score


class Level(enum.IntEnum):
    HIGH = 2
    LOW = 1


@torch.compile
def run(x: torch.Tensor):
    beams = [Beam(1), Beam(2)]
    return {expression}
"""


@pytest.mark.parametrize(
    ("expression", "flagged"),
    [
        ("sorted(beams)[0].score * x", True),
        ("sorted([(1, x[0]), (1, x[1])])[0][1]", True),
        ("sorted([x[0], x[1]], key=torch.sum)[0]", True),
        ("sorted([3, 1], key=lambda n: Beam(n))[0] * x", True),
        ("max(beams, key=lambda beam: beam.score).score * x", True),
        ("max(range(4), key=lambda i: x[i, 0]) * x", True),
        ("sorted(beams, key=lambda beam: beam.score)[0].score * x", False),
        ("sorted([Level.HIGH, Level.LOW])[0] * x", False),
        ("sorted([3, 1], key=lambda n: (n, 1))[0] * x", False),
    ],
)
def test_python_sorts_only_what_is_known_while_tracing(expression: str, flagged: bool) -> None:
    found = [finding.rule for finding in check({"m.py": SORTED.replace("{expression}", expression)})]
    assert ("CL108" in found) == flagged, found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x * count.tolist()", ["likely"]),  # a single int stays in the graph
        ("[x * part for part in count.tolist()]", ["certain"]),
        ("x * (count * 2).tolist()", ["certain"]),
    ],
)
def test_the_tolist_of_an_input_may_give_a_single_int(body: str, expected: list[str]) -> None:
    code = f"import torch\n\n\n@torch.compile\ndef run(x: torch.Tensor, count: torch.Tensor):\n    return {body}\n\n\n"
    found = check(code + "run(torch.ones(2), torch.tensor(3))\n")
    assert [finding.confidence for finding in found if finding.rule == "CL203"] == expected
