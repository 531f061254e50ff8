"""A function that many use is edited: what was found elsewhere stands while it gives the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilelint.config import Settings
from compilelint.static import StaticResult, lint
from compilelint.static.tracer import transcripts
from compilelint.static.units.cache import Cache
from compilelint.static.units.retrial import Read
from compilelint.static.units.work import Outcome, Reading, Task

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
    ("    # twice\n", "    # twice\n\n    if factor is None:\n        return x\n"),
    ("    out = out - 1\n", ""),
    ("half = n // 2", "half = n - n // 2"),
    ("return half, n - half", "rest = n - half\n    return half, rest"),
    ("return half, n - half", "import math\n    return half, n - half"),
]
OTHERS = [
    (
        "    # twice\n",
        "    # twice\n    if x.shape[0] == 1:\n        out = x\n",
    ),  # what is said of that hangs on the caller
    ("return out", "return [out]"),
    ("return out", "return out.sum().item()"),
    ("return out", "print(out)\n    return out"),
    ("return out", "return out if out.sum() > 0 else x"),
    ("return out", "return other(out)"),
    ("return out", "return out * len(LEVELS)"),
    ("return out", "return (lambda: out)()"),
    ("return out", "torch._dynamo.graph_break()\n    return out"),
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


def leading(project: Project, body: str) -> list[tuple[str, int]]:
    """Have the model lead through `through`, of this body, to a finding; text and line of each place on the way."""
    if body:
        project.ops.write_text(
            "import torch\n\ndef either(x):\n    y = x + 1\n    return y if y.sum() > 0 else -y\n\n"
            f"def through(x):\n{body}"
        )
        project.model.write_text(
            "import torch\nfrom lib.ops import through\n\n@torch.compile\n"
            "def step(x: torch.Tensor):\n    return through(x)\n"
        )
    lines = project.ops.read_text().splitlines()
    (found,) = (finding for finding in project.lint(project.cache).findings if finding.region[0].function == "step")
    return [(lines[step.line - 1].strip(), step.line) for step in found.region[1:]]


def test_lines_of_calls_in_an_edited_function_are_where_they_are_now(project: Project) -> None:
    body = "    before = x.shape\n    # then\n    y = either(x + 1)\n    return y\n"
    expected = leading(project, body)
    assert [text for text, _ in expected] == ["y = either(x + 1)", "def either(x):"]
    call, called = expected
    for number, (old, new) in enumerate(
        [
            ("    before = x.shape\n", "    before = x.shape\n    after = before\n"),
            ("    # then\n", "    # a comment\n    more = 1\n"),
            ("import torch\n", "import torch\n# a comment\n"),
            ("y = either(x + 1)", "z = 2\n    y = either(1 + x)"),
        ],
        start=1,
    ):
        assert not project.edited(old, new)
        shift = int(number > 2)
        assert leading(project, "") == [
            (call[0].replace("x + 1", "1 + x") if number == 4 else call[0], call[1] + number),
            (called[0], called[1] + shift),
        ]
    assert project.edited("y = either(1 + x)", "y = either(1 - x) + either(x)")


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        ("    return either(x) + either(x)\n", "+ either", "+ \\\n        either"),  # which of the two was it?
        ("    f = lambda y: y\n    return f(either(x))\n", "    f =", "    n = 1\n    f ="),
    ],
)
def test_calls_whose_lines_cannot_be_told_are_walked_again(project: Project, body: str, old: str, new: str) -> None:
    leading(project, body)
    assert project.edited(old, new)


def test_of_hooks_only_the_function_that_registers_one_counts(project: Project) -> None:
    project.ops.write_text(
        "import torch\n\ndef show(module, args, out):\n    print(out.sum())\n\n"
        "def watch(module):\n    module.register_forward_hook(show)\n    return module\n\n"
        "def half(n):\n    m = n // 2\n    return m\n"
    )
    project.model.write_text(
        "import torch\nfrom lib.ops import half, watch\n\nclass Model(torch.nn.Module):\n"
        "    def __init__(self, width):\n        super().__init__()\n"
        "        self.lin = watch(torch.nn.Linear(width, half(width)))\n\n"
        "    def forward(self, x):\n        return self.lin(x)\n"
    )
    assert [finding.rule for finding in project.lint(None).findings] == ["CL401"]
    assert not project.edited("m = n // 2", "m = n - n // 2")
    assert project.edited("    module.register_forward_hook(show)\n", "    # not now\n")


OBJECTS = """import torch

def halves(n):
    return n // 2

def pair(n):
    def twice(x):
        return x, x
    return twice

double = pair(2)

class Norm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight

class Block(torch.nn.Module):
    def __init__(self, width, rest=0):
        super().__init__()
        self.half = halves(width)
        self.sides = double(width)
        self.norm = Norm(width)
        self.register_buffer("scale", torch.ones(1))
        self.lin = torch.nn.Linear(width, width)
        # all is set

    def extra_repr(self):
        return "block"

    @property
    def size(self):
        return self.half * 2

    @staticmethod
    def shifted(x, by):
        return x + by

    def forward(self, x, times=1):
        out = self.lin(x) * self.scale
        out = self.shifted(out, self.size)
        return self.norm(out)
"""
USER = """import torch
from lib.ops import Block

class Model(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.block = Block(width)
        self.head = torch.nn.Linear(width, self.block.half)

    def forward(self, x: torch.Tensor):
        y = self.block(x, times=2)
        return y if y.shape[0] > 3 else self.head(y)
"""
SAME_OF_OBJECTS = [
    ("return n // 2", "return n - n // 2"),
    ("return x * self.weight", "return self.weight * x + 1"),
    ("        # all is set\n", "        done = True\n"),
    ("return self.half * 2", "return 2 * self.half"),
    ("return x + by", "shape = x.shape\n        return x - by"),
    ("out = self.lin(x) * self.scale", "out = torch.relu(self.lin(x)) + self.scale"),
]
OTHERS_OF_OBJECTS = [
    ("return n // 2", "return str(n)"),
    ("return x * self.weight", "return (x * self.weight).sum().item()"),
    ("return x * self.weight", "print(x)\n        return x * self.weight"),
    ("self.weight = torch.nn.Parameter(torch.ones(width))", "self.weight = None"),
    ("        # all is set\n", "        self.more = True\n"),
    ("        # all is set\n", "        self.half = self.norm\n"),
    ("        # all is set\n", "        setattr(self, 'half', self.norm)\n"),
    ("        # all is set\n", "        self.__setattr__('half', self.norm)\n"),
    ("        # all is set\n", "        self.register_forward_hook(halves)\n"),
    ("        # all is set\n", "        self.compile()\n"),
    ('"scale", torch.ones(1)', '"rest", torch.ones(1)'),
    ("self.half = halves(width)", "self.half = halves(rest)"),
    ("self.half = halves(width)", "self.half = width"),
    ("self.sides = double(width)", "self.sides = pair(width)"),
    ("self.norm = Norm(width)", "self.norm = Norm(rest)"),
    ("return self.half * 2", "return self.half if self.training else self.sides"),
    ("out = self.shifted(out, self.size)", "out = self.shifted(out, 1)"),
    ("out = self.shifted(out, self.size)", "self.half = 1\n        out = self.shifted(out, self.size)"),
    ("out = self.shifted(out, self.size)", "out = Block.shifted(out, self.size)"),
    ("return self.norm(out)", "return out"),
    ("return self.norm(out)", "return [self.norm(part) for part in self.children()][0]"),
    ("return self.norm(out)", "return torch.compile(self.norm)(out)"),
]


@pytest.fixture
def objects(project: Project) -> Project:
    project.ops.write_text(OBJECTS)
    project.model.write_text(USER)
    return project


@pytest.mark.parametrize(("old", "new"), SAME_OF_OBJECTS)
def test_a_method_that_asks_and_gives_the_same_costs_its_own_file_only(objects: Project, old: str, new: str) -> None:
    assert not objects.edited(old, new)


@pytest.mark.parametrize(("old", "new"), OTHERS_OF_OBJECTS)
def test_a_method_that_asks_or_gives_something_else_is_walked_where_it_is_used(
    objects: Project, old: str, new: str
) -> None:
    assert objects.edited(old, new)


def test_how_a_function_uses_what_nothing_else_tells_of_counts(project: Project) -> None:
    project.ops.write_text("import torch\n\ndef scaled(x, factor):\n    y = factor.view(-1)\n    return x * 2\n")
    project.model.write_text(
        "import torch\nfrom lib.ops import scaled\nimport settings\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor):\n        return scaled(x, settings.factor())\n"
    )
    assert not project.edited("return x * 2", "return x * 3")
    assert project.edited("    y = factor.view(-1)\n", "")


def test_of_a_unit_that_asks_too_much_the_rest_is_not_kept(objects: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "MOST_QUESTIONS", 1)
    assert objects.edited("return x * self.weight", "return self.weight * x")


BASE = """import torch

class Base(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.a_count, self.a_name = 4, "name"
        name = kind + "_count"
        self.width = self.pick(3)
        # all is set

    def pick(self, what):
        return what
"""
HEIR = """import torch
from lib.ops import Base

class Model(Base):
    def forward(self, x: torch.Tensor):
        if isinstance(self.width, int):
            print(x)
        return x
"""


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("        # all is set\n", "        done = True\n", False),
        ("self.pick(3)", "self.pick(None)", True),
        ("        # all is set\n", "        self.width = self.pick(None)\n", True),
        ("return what", "return [what]", True),
    ],
)
def test_what_a_base_class_puts_off_counts(project: Project, old: str, new: str, again: bool) -> None:
    project.ops.write_text(BASE)
    project.model.write_text(HEIR)
    assert project.edited(old, new) == again


def test_a_name_that_is_put_together_for_what_is_put_off_counts(project: Project) -> None:
    project.ops.write_text(BASE.replace("self.pick(3)", "self.pick(getattr(self, name))"))
    project.model.write_text(HEIR)
    assert project.edited('kind + "_count"', 'kind + "_name"')


def test_methods_are_edited_one_after_another(objects: Project) -> None:
    assert not objects.edited("return x * self.weight", "return self.weight * x")
    assert not objects.edited("return n // 2", "return n // 3")
    assert not objects.edited("return self.weight * x", "y = x\n        return self.weight * y")
    assert objects.edited("        # all is set\n", "        self.more = True\n")
    assert objects.edited("        self.more = True\n", "        # all is set\n")
    assert not objects.edited("return n // 3", "return n // 4")


def test_what_rules_read_of_a_caller_counts(project: Project) -> None:
    """Whether a parameter is one of the region's inputs hangs on the text of the function that hands it on."""
    project.ops.write_text(
        "import torch\n\ndef fill(x, at):\n    x.add_(at)\n    return x\n\n"
        "def outer(x: torch.Tensor, at: torch.Tensor):\n    y = at + 1\n    # then\n    return fill(x, y)\n"
    )
    project.model.write_text(
        "import torch\nfrom lib.ops import outer\n\n@torch.compile(mode='reduce-overhead')\n"
        "def step(x: torch.Tensor, at: torch.Tensor):\n    return outer(x, at)\n"
    )
    before = {finding.rule for finding in project.lint(None).findings}
    project.edited("    # then\n", "    x = x + 1\n")
    assert before != {finding.rule for finding in project.lint(None).findings}


STATS = """class Stats:
    def __init__(self):
        self.count = 0

    def push(self):
        self.count += 1
        return self.count

SHARED = Stats()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.stats.push()", "if False:\n            self.stats.count = 0\n        self.stats.push()"),
        ("self.stats.push()", "for _ in ():\n            self.stats.reset()\n        self.stats.push()"),
        ("SHARED.push()", "shared = SHARED\n        shared.push()"),
    ],
)
def test_what_a_caller_does_with_an_object_counts_in_the_methods_of_that(project: Project, old: str, new: str) -> None:
    """Also where the walk does not tell: on a path that is not taken, by the variable that the object is called by."""
    project.ops.write_text(
        "import torch\nfrom pkg.model import SHARED\n\nclass Base(torch.nn.Module):\n    def forward(self, x):\n"
        f"        {old}\n        return x\n"
    )
    project.model.write_text(
        f"import torch\nfrom lib.ops import Base\n\n{STATS}\nclass Net(Base):\n"
        "    def __init__(self):\n        super().__init__()\n        self.stats = Stats()\n"
    )
    before = project.lint(None).findings
    assert project.edited(old, new)
    assert before != project.lint(None).findings


def test_a_function_that_tells_whether_its_argument_is_none_counts_where_it_is_asked(project: Project) -> None:
    project.ops.write_text("import torch\n\ndef given(x):\n    return x is not None\n")
    project.model.write_text(
        "import torch\nfrom lib.ops import given\n\n@torch.compile\n"
        "def step(x: torch.Tensor, mask: torch.Tensor | None = None):\n"
        "    if given(mask):\n        x = x if mask.sum() > 0 else -x\n    return x\n"
    )
    assert not project.edited("return x is not None", "return not (x is None)")
    assert project.edited("return not (x is None)", "return x is None or x is None")


@pytest.mark.parametrize(
    ("kept", "now", "expected"),
    [
        ({"code": "1"}, {"code": "2"}, True),
        ({"code": "1"}, {"code": "1", "body f": "1"}, True),
        ({"code": "1"}, {"code": "1", "body g": "1"}, True),  # which is made of the code
        ({"surface": "1"}, {"surface": "1", "body g": "1"}, False),
        ({"code": "1"}, {"surface": "1", "names": "1", "class C": "1"}, True),
        ({"code": "1"}, {"starts": "1"}, False),
        ({"code": "1"}, {"head": "1"}, False),
        ({"surface": "1"}, {"names": "1"}, True),
        ({"body g": "1"}, {"names": "1"}, False),
        ({"names": "1"}, {"surface": "1"}, False),
        ({"code": "1"}, {}, False),  # no parts stand for all of the file
        ({}, {"code": "1"}, True),
        ({}, {}, True),
    ],
)
def test_what_a_function_reads_now_has_been_read_before(
    kept: dict[str, str], now: dict[str, str], expected: bool
) -> None:
    read = Read({"a.py": Reading("new", now)}, frozenset(), {}, "")
    assert read.is_part_of({"a.py": Reading("old", kept)}, (), "f") == expected
    assert not read.is_part_of({"b.py": Reading("old", kept)}, (), "f")


PARTS = """import torch

class Part(torch.nn.Module):
    def __init__(self, name=0):
        super().__init__()
        self.n = 1

class Loud(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part("a")
        said(self.part)

class Quiet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

def said(part):
    print(part)
    return part
"""
MAKES = """import torch
from lib.ops import Loud, Quiet

@torch.compile
def f(x):
    {}()
    {}()
    return x
"""


@pytest.mark.parametrize("made", [("Loud", "Quiet"), ("Quiet", "Loud")])
def test_what_waits_for_a_break_is_found_in_any_order_and_after_any_edit_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: tuple[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model, ops = tmp_path / "pkg" / "model.py", tmp_path / "lib" / "ops.py"
    for file, text in ((model, MAKES.format(*made)), (ops, PARTS)):
        file.parent.mkdir()
        file.with_name("__init__.py").touch()
        file.write_text(text)
    settings, files = Settings(root=tmp_path), [model, ops]
    for line, given_up in (
        ("    print(part)\n", {"Part.__init__", "Loud.__init__"}),
        ("    part.n = 2\n", set()),
        ("    print(part)\n", {"Part.__init__", "Loud.__init__"}),
        ("    part.n = 3\n", set()),
    ):
        ops.write_text(PARTS.replace("    print(part)\n", line))
        kept = lint(files, settings, cache=tmp_path / "cache")
        assert kept == lint(files, settings)
        assert {finding.function for finding in kept.findings if finding.rule == "CL503"} == given_up
