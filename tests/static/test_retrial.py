"""A function that many use is edited: what was found elsewhere stands while it gives the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compilelint.config import Settings
from compilelint.static import StaticResult, lint
from compilelint.static.tracer.plain import NotSimpleError, is_simple, read_back, written
from compilelint.static.units.cache import Cache
from compilelint.static.units.retrial import Read
from compilelint.static.units.work import Outcome, Reading, Task
from compilelint.static.values import (
    UNKNOWN,
    Class,
    Const,
    External,
    ExternalInstance,
    Mapping,
    Method,
    Scalar,
    Sequence,
    Tensor,
    Union,
    Value,
)

MODEL = """import torch
from lib.ops import halves, scaled

class Model(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.half, self.rest = halves(width)
        self.lin = torch.nn.Linear(width, self.half)

    def forward(self, x: torch.Tensor):
        y = scaled(self.lin(x), 2)
        return y if y.shape[0] > 3 else scaled(y, factor=0.5)
"""
OPS = """import torch

LEVELS = [1, 2]

def other(x):
    return x

def halves(n):
    half = n // 2
    return half, n - half

def scaled(x, factor=1.0):
    out = x * factor
    # twice
    out = out + 1
    out = out - 1
    return out
"""


class Project:
    """A model in one package that uses functions of another one."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(root)
        self.cache = root / "cache"
        self.settings = Settings(root=root)
        self.model, self.ops = root / "pkg" / "model.py", root / "lib" / "ops.py"
        for file, text in ((self.model, MODEL), (self.ops, OPS)):
            file.parent.mkdir()
            file.with_name("__init__.py").write_text("")
            file.write_text(text)
        self.walked: list[tuple[str, ...]] = []
        put = Cache.put

        def noting(cache: Cache, task: Task, outcome: Outcome) -> None:
            self.walked.append(task.modules)
            put(cache, task, outcome)

        monkeypatch.setattr(Cache, "put", noting)

    def lint(self, cache: Path | None) -> StaticResult:
        return lint([self.model, self.ops], self.settings, cache=cache)

    def edited(self, old: str, new: str) -> bool:
        """Whether the model is walked again after an edit of what it uses. The result is that of a fresh run."""
        self.lint(self.cache)
        assert self.ops.read_text().count(old) == 1
        self.ops.write_text(self.ops.read_text().replace(old, new))
        self.walked.clear()
        kept = self.lint(self.cache)
        again = ("pkg.model",) in self.walked
        self.walked.clear()
        assert kept == self.lint(None) == self.lint(self.cache)
        assert self.walked == []
        return again


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, monkeypatch)


SAME = [
    ("out = x * factor", "out = factor * x"),
    ("out = x * factor", "shape = x.shape\n    out = x * factor"),
    ("    # twice\n", "    # thrice\n\n    steps = [1, factor]\n"),
    ("    out = out - 1\n", ""),
    ("half = n // 2", "half = n - n // 2"),
    ("return half, n - half", "rest = n - half\n    return half, rest"),
]
OTHERS = [
    ("    # twice\n", "    # twice\n\n    if factor is None:\n        return x\n"),  # it hangs on who passes that
    ("return out", "return [out]"),
    ("return out", "return out.sum().item()"),
    ("return out", "print(out)\n    return out"),
    ("return out", "return out if out.sum() > 0 else x"),
    ("return out", "return other(out)"),
    ("return out", "return out * len(LEVELS)"),
    ("return out", "return (lambda: out)()"),
    ("return out", "torch._dynamo.graph_break()\n    return out"),
    ("return out", "import math\n    return out"),
    ("return half, n - half", "return half"),
    ("return half, n - half", "return half, 'rest'"),
    ("def scaled(x, factor=1.0)", "@torch.no_grad()\ndef scaled(x, factor=1.0)"),
    ("def scaled(x, factor=1.0)", "def scaled(x, factor=1.0, *more)"),
    ("    # twice\n", "    # twice\n\n\n\n\n\n\n\n\n"),  # no small function now, which counts in other ways
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_a_function_that_gives_the_same_costs_its_own_file_only(project: Project, old: str, new: str) -> None:
    assert not project.edited(old, new)


@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_a_function_that_does_something_else_is_walked_where_it_is_used(project: Project, old: str, new: str) -> None:
    assert project.edited(old, new)


def test_one_edit_after_another_is_told_from_what_was_kept_first(project: Project) -> None:
    assert not project.edited("out = x * factor", "out = factor * x")
    assert not project.edited("out = factor * x", "out = x.mul(factor)")
    assert project.edited("return out", "return out.sum().item()")
    assert project.edited("return out.sum().item()", "return out")
    assert not project.edited("out = x.mul(factor)", "out = x * factor")


def test_a_function_that_rules_ask_about_now_is_walked_where_it_is_used(project: Project) -> None:
    text = "\ndef fast(model, really=False):\n    known = torch.is_tensor(model)\n"
    project.ops.write_text(f"{OPS}{text}    if really:\n        return model\n    return model\n")
    project.model.write_text(
        "import torch\nfrom lib.ops import fast\n\ndef train(net, x: torch.Tensor):\n"
        '    """Without torch.compile."""\n    for _ in range(3):\n        x = fast(net)(x)\n    return x\n'
    )
    assert project.edited("        return model\n", "        return torch.compile(model)\n")
    assert [finding.rule for finding in project.lint(project.cache).findings] == ["CL902"]


def test_of_a_method_nothing_is_told(project: Project) -> None:
    project.ops.write_text(OPS.replace("def scaled(x", "class Ops:\n  @staticmethod\n  def scaled(x"))
    project.model.write_text(MODEL.replace("halves, scaled", "Ops, halves").replace("scaled(", "Ops.scaled("))
    assert project.edited("out = x * factor", "out = factor * x")


@pytest.mark.parametrize(
    ("kept", "now", "expected"),
    [
        ({"code": "1"}, {"code": "2"}, True),
        ({"code": "1"}, {"code": "1", "body f": "1"}, True),
        ({"code": "1"}, {"code": "1", "body g": "1"}, False),
        ({"code": "1"}, {}, False),  # no parts stand for all of the file
        ({}, {"code": "1"}, True),
        ({}, {}, True),
    ],
)
def test_what_a_function_reads_now_has_been_read_before(
    kept: dict[str, str], now: dict[str, str], expected: bool
) -> None:
    read = Read({"a.py": Reading("new", now)}, frozenset())
    assert read.is_part_of({"a.py": Reading("old", kept)}, (), "f") == expected
    assert not read.is_part_of({"b.py": Reading("old", kept)}, (), "f")


VALUES: list[Value] = [
    UNKNOWN,
    Tensor("int", 2, False, True),
    Const(True),
    Const(1),
    Const(None),
    Scalar("int", "shape"),
    Sequence("tuple", None, Tensor(), (Const("a"), Scalar())),
    Mapping((("key", Const(1.5)), (3, UNKNOWN)), Tensor()),
    Union((Const("b"), External("torch.add"))),
    ExternalInstance("torch.nn.ModuleList", (ExternalInstance("torch.nn.Linear"),)),
    Method(Tensor(), "sum"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_the_same_when_it_is_read_back(value: Value) -> None:
    assert is_simple(value)
    assert read_back(json.loads(json.dumps(written(value)))) == value


@pytest.mark.parametrize("value", [Class(None), Union((Tensor(), Class(None))), Const(b"raw")])  # type: ignore[arg-type]
def test_what_is_not_simple_is_not_written(value: Value) -> None:
    with pytest.raises(NotSimpleError):
        written(value)


def test_what_no_value_was_written_as_is_refused() -> None:
    with pytest.raises(NotSimpleError):
        read_back(["Instance", "x"])
