"""Outcomes kept between runs: never another result than without, whatever happened to files, entries and writers."""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import compilelint
from compilelint.config import Settings
from compilelint.model import Failure, Finding, Rewrite, Span, Step
from compilelint.static import StaticResult, lint
from compilelint.static.project import bodies, parsing
from compilelint.static.project.text import digest_of
from compilelint.static.units import work
from compilelint.static.units.cache import MOST_BYTES, Cache
from compilelint.static.units.context import own_code
from compilelint.static.units.work import Outcome, Reading, Task

FIXTURES = Path(__file__).parents[2] / "fixtures"
APPENDED = (
    "\n\n@torch.compile\ndef added(x):\n    print(x.sum().item())\n    return x\n",
    "\n\ndef public_one(x: torch.Tensor):\n    return x[x > 0]\n",
    "\n\nclass Added(torch.nn.Module):\n    def forward(self, x):\n        return x if x.sum() > 0 else -x\n",
    "\nthis is no Python\n",
    "\n# nothing\n",
)
INSERTED = ("# a comment", "", "added = 0", "self.added = x", "print(x)", "import json", "return x", "x = x", "n = 2")


def nothing(asked: str, function: ast.AST, module: ast.Module) -> str:
    """No rule asks about anything."""
    return ""


def untried(path: str, name: str, told: str) -> None:
    """No function is run again."""


@pytest.mark.parametrize(
    "file", ["model.py", "fingerprint.py", "knowledge/torch-2.13.json", "static/values.py", "static/units/cache.py"]
)
def test_an_outcome_hangs_on_all_of_compilelint(file: str) -> None:
    assert f"{Path(compilelint.__file__).parent / file}:" in own_code()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the fixtures, cut into units of a few files."""
    monkeypatch.setattr(work, "LEAST_BYTES", 4000)
    monkeypatch.setattr(work, "MOST_BYTES", 8000)
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(FIXTURES, tmp_path / "fixtures", ignore=shutil.ignore_patterns("*.json", "*.md")))


def run(tree: Path, cache: Path | None, jobs: int = 0) -> StaticResult:
    return lint(sorted(tree.rglob("*.py")), Settings(root=tree), jobs, cache)


def edit(tree: Path, chance: random.Random) -> None:
    """One change as people make them: text added, taken back, a line removed or doubled, other numbers, a file moved,
    removed or added."""
    file = chance.choice(sorted(tree.rglob("*.py")))
    ways = (
        *("append", "append", "insert", "insert", "insert", "restore", "remove line", "delete", "add", "move"),
        *("double", "double", "number", "number"),
    )
    how = chance.choice(ways)
    original = FIXTURES / file.relative_to(tree)
    if how == "append":
        file.write_text(file.read_text() + chance.choice(APPENDED))
    elif how == "insert":
        insert(file, chance.choice(INSERTED), chance)
    elif how == "restore" and original.exists():
        shutil.copy(original, file)
    elif how == "remove line":
        lines = file.read_text().splitlines(keepends=True)
        del lines[chance.randrange(len(lines) or 1) :][:1]
        file.write_text("".join(lines))
    elif how == "double":
        lines = file.read_text().splitlines(keepends=True)
        place = chance.randrange(len(lines) or 1)
        lines[place:place] = lines[place : place + 1]
        file.write_text("".join(lines))
    elif how == "number":
        file.write_text(re.sub(r"\b[1-9]\b", lambda found: chance.choice((found[0], "0", "2", "7")), file.read_text()))
    elif how == "delete":
        file.unlink()
    elif how == "add":
        (file.parent / f"new_{chance.randrange(5)}.py").write_text("import torch\n" + chance.choice(APPENDED))
    elif how == "move":
        file.rename(file.with_name(f"moved_{file.name}"))


def insert(file: Path, line: str, chance: random.Random) -> None:
    """Put a line before some statement, indented as that is."""
    lines = file.read_text().splitlines(keepends=True)
    try:
        body = [node for node in ast.walk(ast.parse("".join(lines))) if isinstance(node, ast.stmt)]
    except SyntaxError:
        return
    statement = chance.choice(body)
    lines.insert(statement.lineno - 1, f"{' ' * statement.col_offset}{line}\n")
    file.write_text("".join(lines))


@pytest.mark.parametrize("seed", range(3))
def test_any_sequence_of_edits_gives_what_a_run_without_cache_gives(tree: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for step in range(6):
        kept = run(tree, tmp_path / "cache", jobs=step % 3)
        assert kept == run(tree, None)
        assert kept == run(tree, tmp_path / "cache")
        for _ in range(chance.randrange(3)):
            edit(tree, chance)


def test_only_what_a_change_can_reach_is_walked_again(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tree, tmp_path / "cache")
    walked: list[Task] = []
    put = Cache.put

    def watch(cache: Cache, task: Task, outcome: Outcome) -> None:
        walked.append(task)
        put(cache, task, outcome)

    monkeypatch.setattr(Cache, "put", watch)
    run(tree, tmp_path / "cache")
    assert walked == []
    changed = sorted(tree.rglob("hazards.py"))[0]
    changed.write_text(changed.read_text() + APPENDED[0])
    run(tree, tmp_path / "cache")
    assert walked
    assert all(f"{changed.parent.name}.hazards" in str(task.modules) or "hazards" in str(task) for task in walked)
    assert len(walked) < len(list(work.units([(str(file), file.stat().st_size) for file in tree.rglob("*.py")])))


MODEL = """import torch
from .ops import f, unrelated

@torch.compile
def g(x):
    return f(x)
"""
OPS = """import torch

class Unrelated:
    def __init__(self):
        self.a = 1

def unrelated(x):
    return x

def f(x):
    if x is None:
        return x
    return int(x.sum())
"""


@pytest.mark.parametrize(
    ("old", "new", "walked"),
    [
        ("def unrelated", "# a comment\n\ndef unrelated", False),
        ("    return int", "    # a comment\n\n    return int", False),
        ("self.a = 1", "self.a = 1\n\n    # a comment", False),
        ("return int(", "return float(", True),
        ("def unrelated(x)", "def unrelated(x, y=0)", True),
        ("import torch", "import torch, json", True),
        ("    def __init__", "    b = 1\n\n    def __init__", True),
    ],
)
def test_what_was_not_looked_into_may_change_and_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, walked: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    model, ops = package / "model.py", package / "ops.py"
    model.write_text(MODEL)
    ops.write_text(OPS)
    cache, settings, files = tmp_path / "cache", Settings(root=tmp_path), [model, ops]
    before = lint(files, settings, cache=cache)
    (found,) = (finding for finding in before.findings if finding.path == "pkg/ops.py")
    seen: list[Task] = []
    put = Cache.put
    monkeypatch.setattr(Cache, "put", lambda self, task, outcome: (seen.append(task), put(self, task, outcome)))
    assert OPS.count(old) == 1
    ops.write_text(OPS.replace(old, new))
    after = lint(files, settings, cache=cache)
    assert bool([task for task in seen if task.public is None]) is walked
    assert after == lint(files, settings) == lint(files, settings, cache=cache)
    lines = ops.read_text().splitlines()
    moved = [finding for finding in after.findings if finding.rule == found.rule and finding.path == "pkg/ops.py"]
    assert ["x.sum()" in lines[finding.span.line - 1] for finding in moved] == [True]


def test_a_text_that_names_a_line_of_another_file_follows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, train = tmp_path / "pkg" / "model.py", tmp_path / "app" / "train.py"
    net = (
        "import torch\n\nclass Net(torch.nn.Module):\n    scale = 1.0\n\n"
        "    def forward(self, x):\n        return x * self.scale if x.sum() > 0 else x\n\n"
        "def read(x):\n    return x.sum().item()\n"
    )
    loop = (
        "import torch\nfrom pkg.model import Net, read\n\ndef fit(data):\n    net = Net()\n"
        "    step = torch.compile(net)\n"
        "    for number, x in enumerate(data):\n        net.scale = number / 7\n        step(x)\n"
        "    return torch.compile(read)\n"
    )
    for file, text in ((model, net), (train, loop)):
        file.parent.mkdir()
        file.with_name("__init__.py").write_text("")
        file.write_text(text)
    cache, settings, files = tmp_path / "cache", Settings(root=tmp_path), [model, train]
    before = lint(files, settings, cache=cache)
    assert any("app/train.py:8" in finding.message for finding in before.findings)
    assert any("app/train.py:10" in step.note for finding in before.findings for step in finding.region)
    train.write_text(loop.replace("def fit", "# a comment\n\ndef fit"))
    after = lint(files, settings, cache=cache)
    assert any("app/train.py:10" in finding.message for finding in after.findings)
    assert any("app/train.py:12" in step.note for finding in after.findings for step in finding.region)
    assert after == lint(files, settings) == lint(files, settings, cache=cache)


LIBRARY = """import torch

SETTINGS = {"level": 1}

def unrelated(level):
    return level

def f(x):
    return x * SETTINGS["level"]
"""


TALKING = """import logging
import torch

logger = logging.getLogger(__name__)

def unrelated(level):
    return level

def f(x):
    logger.warning("called")
    return x
"""


@pytest.mark.parametrize(
    ("text", "new", "walked"),
    [
        (LIBRARY, "return level + 1", False),
        (LIBRARY, 'SETTINGS["level"] = level', True),
        (TALKING, "return level + 1", False),
        (TALKING, "torch = level", True),  # then a fix has no torch to ask
    ],
)
def test_of_another_file_only_what_rules_ask_about_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, new: str, walked: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    model, library = tmp_path / "pkg" / "model.py", tmp_path / "lib" / "ops.py"
    for file, content in ((model, MODEL.replace(".ops import f, unrelated", "lib.ops import f")), (library, text)):
        file.parent.mkdir()
        file.with_name("__init__.py").write_text("")
        file.write_text(content)
    cache, settings, files = tmp_path / "cache", Settings(root=tmp_path), [model, library]
    lint(files, settings, cache=cache)
    seen: list[Task] = []
    put = Cache.put
    monkeypatch.setattr(Cache, "put", lambda self, task, outcome: (seen.append(task), put(self, task, outcome)))
    library.write_text(text.replace("return level", new))
    after = lint(files, settings, cache=cache)
    assert (("pkg.model",) in [task.modules for task in seen]) is walked
    if text is LIBRARY:
        assert any(finding.rule == "CL607" for finding in after.findings) is walked
    else:
        assert [finding.rewrite is None for finding in after.findings if finding.rule == "CL402"] == [walked]
    assert after == lint(files, settings)


def test_what_is_kept_for_one_torch_is_not_taken_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "model.py"
    model.write_text(OPS)
    walked: list[Task] = []
    put = Cache.put
    monkeypatch.setattr(Cache, "put", lambda self, task, outcome: (walked.append(task), put(self, task, outcome)))
    for target, again in (("2.13", True), ("2.14", True), ("2.13", False)):
        walked.clear()
        settings = Settings(root=tmp_path, target_torch=target)
        assert lint([model], settings, cache=tmp_path / "cache") == lint([model], settings)
        assert bool(walked) is again


def test_a_file_that_was_looked_for_and_appears_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    model = package / "model.py"
    model.write_text("import torch\nfrom .ops import f\n@torch.compile\ndef g(x):\n    return f(x)\n")
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    assert lint([model], settings, cache=cache).findings == ()
    (package / "ops.py").write_text("def f(x):\n    return int(x.sum())\n")
    assert lint([model], settings, cache=cache) == lint([model], settings)


def test_whether_a_package_is_installed_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    ops = package / "ops.py"
    ops.write_text("import torch\ndef f(x: torch.Tensor):\n    return x * int(x.sum())\n")
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    assert lint([ops], settings, cache=cache).findings
    (tmp_path / "requirements.txt").touch()
    assert not lint([ops], settings, cache=cache).findings
    (tmp_path / "setup.py").touch()
    assert lint([ops], settings, cache=cache).findings


def test_a_folder_that_becomes_a_package_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script finds what lies beside it, a module of a package does not, whatever both are called."""
    monkeypatch.chdir(tmp_path)
    inner = tmp_path / "pkg" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "pkg" / "__init__.py").touch()
    (inner / "sums.py").write_text("def total(x):\n    return x.sum()\n")
    step = inner / "step.py"
    step.write_text(
        "import torch\nfrom sums import total\n@torch.compile\ndef f(x):\n    return x if total(x) > 0 else -x\n"
    )
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    assert lint([step], settings, cache=cache).findings
    (inner / "__init__.py").touch()
    assert not lint([step], settings, cache=cache).findings


@pytest.mark.parametrize("damage", [b"", b"\n", b"{}", b"\xff\xfe", None])
def test_damaged_entries_are_made_anew(tree: Path, tmp_path: Path, damage: bytes | None) -> None:
    cache = tmp_path / "cache"
    expected = run(tree, cache)
    entries = sorted(cache.glob("*.json"))
    assert len(entries) > 5
    for number, entry in enumerate(entries):
        data = entry.read_bytes()
        cut = data[: len(data) * (number + 1) // (len(entries) + 1)]
        entry.write_bytes(cut if damage is None else damage)
    assert run(tree, cache) == expected
    assert run(tree, cache) == expected


def test_with_nothing_changed_no_task_is_asked_for(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "broken.py").write_text("this is no Python\n")
    cache = tmp_path / "cache"
    expected = run(tree, cache)
    assert [failure.path for failure in expected.failures] == ["fixtures/broken.py"]
    for entry in cache.glob("*.json"):
        os.utime(entry, (1, 1))
    asked: list[Task] = []
    get = Cache.get
    monkeypatch.setattr(Cache, "get", lambda self, task: (asked.append(task), get(self, task))[1])
    assert run(tree, cache) == expected
    assert asked == []
    assert min(entry.stat().st_mtime for entry in cache.glob("*.json")) > 1  # all of them have been of use
    (tree / "broken.py").unlink()
    assert run(tree, cache).failures == ()
    assert asked


@pytest.mark.parametrize("second", ["as it was", "as it is"])
def test_a_run_in_which_a_file_changed_is_not_kept(tmp_path: Path, second: str) -> None:
    file = tmp_path / "m.py"
    file.write_bytes(b"x = 1\n")
    contents = {"as it was": digest_of(b"x = 0\n"), "as it is": digest_of(b"x = 1\n")}
    cache = Cache(tmp_path / "cache", "context", tmp_path, nothing, untried)
    tasks = [Task(("a",)), Task(("b",))]
    for task, content in zip(tasks, (contents["as it is"], contents[second]), strict=True):
        cache.put(task, Outcome(read={file.as_posix(): Reading(content)}))
    cache.keep_run((), tasks, {}, ())
    kept = Cache(tmp_path / "cache", "context", tmp_path, nothing, untried).last_run(())
    assert kept == (Outcome() if second == "as it is" else None)
    assert Cache(tmp_path / "cache", "context", tmp_path, nothing, untried).last_run(("m:f",)) is None


USER = "import torch\nfrom lib.ops import f\n@torch.compile\ndef g(x):\n    return {}\n"


@pytest.fixture
def two_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """A file that breaks the graph, and two in units of their own whose regions lead there."""
    monkeypatch.chdir(tmp_path)
    files = tmp_path / "first" / "m.py", tmp_path / "second" / "m.py", tmp_path / "lib" / "ops.py"
    for file, text in zip(files, (USER.format("f(x)"), USER.format("f(x)"), OPS), strict=True):
        file.parent.mkdir()
        file.with_name("__init__.py").touch()
        file.write_text(text)
    return files


def test_a_finding_that_only_another_task_has_left_is_that_one(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)

    def breaks() -> list[str]:
        result = lint(two_users, settings, cache=cache)
        assert result == lint(two_users, settings)
        return [finding.region[0].path for finding in result.findings if finding.path == "lib/ops.py"]

    assert breaks() == ["first/m.py"]
    walked: list[Task] = []
    put = Cache.put
    monkeypatch.setattr(Cache, "put", lambda self, task, outcome: (walked.append(task), put(self, task, outcome)))
    for text, where in (("x", "second/m.py"), ("f(x)", "first/m.py"), ("f(x) + 1", "first/m.py")):
        two_users[0].write_text(USER.format(text))
        walked.clear()
        assert breaks() == [where]
        assert {task.modules for task in walked if task.public is None} == {("first.m",)}


def test_tasks_that_no_change_concerns_are_not_opened(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    lint(two_users, settings, cache=cache)
    opened: list[str] = []
    open_entry = Cache._opened
    monkeypatch.setattr(Cache, "_opened", lambda self, file: (opened.append(file.name), open_entry(self, file))[1])
    two_users[0].write_text(USER.format("f(x) + 1"))
    assert lint(two_users, settings, cache=cache) == lint(two_users, settings)
    assert len(opened) == 1
    opened.clear()
    # Whether another unit enters a function that was not there before is not known: all entries tell.
    two_users[0].write_text(USER.format("f(x) + 1") + APPENDED[1])
    assert lint(two_users, settings, cache=cache) == lint(two_users, settings)
    assert len(set(opened)) > 2


def test_where_all_code_counts_no_parts_of_it_are_told(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[tuple[str, ...], dict[str, Reading]] = {}
    monkeypatch.setattr(Cache, "put", lambda self, task, outcome: read.setdefault(task.modules, outcome.read))
    lint(two_users, Settings(root=tmp_path), cache=tmp_path / "cache")
    assert set(read["first.m",][two_users[0].as_posix()].parts) == {"code", "starts"}
    told = [set(reading.parts) for about in read.values() for reading in about.values()]
    assert all(parts <= {"code", "starts", "head"} for parts in told if "code" in parts)


@pytest.mark.parametrize("gone", ["before", "meanwhile"])
def test_entries_that_another_run_removes_are_made_anew(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    lint(two_users, settings, cache=cache)
    two_users[0].write_text(USER.format("x"))

    def remove() -> None:
        for entry in cache.glob("*.json"):
            entry.unlink()

    if gone == "before":
        run_kept = max(cache.glob("*.json"), key=lambda entry: entry.stat().st_mtime_ns)
        data = run_kept.read_bytes()
        remove()
        run_kept.write_bytes(data)
    else:
        fetch = Cache.finding
        monkeypatch.setattr(Cache, "finding", lambda self, *about: (remove(), fetch(self, *about))[1])
    assert lint(two_users, settings, cache=cache) == lint(two_users, settings)


def test_bodies_that_an_earlier_run_has_seen_are_not_parsed(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    lint(two_users, settings, cache=cache)
    known: list[bool] = []
    index = parsing.index_source
    monkeypatch.setattr(parsing, "index_source", lambda *about: (known.append(about[-1] is not None), index(*about))[1])
    two_users[0].write_text(USER.format("f(x) + 1"))
    assert lint(two_users, settings, cache=cache) == lint(two_users, settings)
    assert (
        known.count(True) == 1
    )  # of lib/ops.py: the edited file is parsed as it is, and a run without cache knows none


def test_what_an_earlier_run_knows_of_a_file_is_no_reason_to_parse_its_bodies(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    two_users[2].write_text(OPS + "\n\ndef other(x):\n    table = {}\n    table[0] = x\n    return table\n")
    two_users[1].write_text("")
    lint(two_users, settings, cache=cache)
    parsed: list[str] = []
    parse = bodies._parsed
    monkeypatch.setattr(bodies, "_parsed", lambda node: (parsed.append(node.name), parse(node))[1])
    two_users[0].write_text(USER.format("f(x) + 1"))
    found = lint(two_users, settings, cache=cache)
    assert parsed == ["f"]
    assert found == lint(two_users, settings)


@pytest.mark.skipif(os.name != "posix", reason="a file's times can all be set")
def test_files_that_nobody_has_written_to_are_not_read(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    monkeypatch.setattr("compilelint.static.units.stamps.SETTLED_NS", -(10**12))  # however short ago that was
    expected = lint(two_users, settings, cache=cache)
    hashed: list[bytes] = []
    monkeypatch.setattr(
        "compilelint.static.units.stamps.digest_of", lambda data: (hashed.append(data), digest_of(data))[1]
    )
    assert lint(two_users, settings, cache=cache) == expected
    assert OPS.encode() not in hashed
    was = two_users[2].stat()
    two_users[2].write_text(OPS.replace("return int(", "return abs("))
    os.utime(two_users[2], ns=(was.st_atime_ns, was.st_mtime_ns))  # as long, and as old as it seems
    assert lint(two_users, settings, cache=cache) == lint(two_users, settings) != expected


@pytest.mark.skipif(os.name != "posix", reason="a file's times can all be set")
def test_files_that_hold_none_of_some_words_are_known_without_reading_them(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without() -> set[str]:
        found = lint(two_users, settings, cache=cache, words=(b"noqa",)).without_words
        return {Path(path).parent.name for path in found}

    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    monkeypatch.setattr("compilelint.static.units.stamps.SETTLED_NS", -(10**12))
    two_users[1].write_text(USER.format("f(x)  # noqa"))
    assert without() == {"first", "lib"}
    read: list[Path] = []
    as_it_is = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (read.append(path), as_it_is(path))[1])
    assert without() == {"first", "lib"}
    assert read and {*two_users}.isdisjoint(read)  # its own entry alone
    two_users[0].write_text(USER.format("f(x)  # NoQA"))
    assert without() == {"lib"}
    two_users[1].write_text(USER.format("f(x)"))
    assert without() == {"second", "lib"}
    lint(two_users, settings, cache=tmp_path / "other")
    cache = tmp_path / "other"
    assert without() == set()  # nobody has looked for any


@pytest.mark.skipif(os.name != "posix", reason="a file's times can all be set")
@pytest.mark.parametrize("how", ["copied with its times", "another in its place", "given back its times", "linked"])
def test_another_file_of_that_size_and_time_is_read(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    cache, settings, ops = tmp_path / "cache", Settings(root=tmp_path), two_users[2]
    monkeypatch.setattr("compilelint.static.units.stamps.SETTLED_NS", -(10**12))
    before = lint(two_users, settings, cache=cache)
    was, other = ops.stat(), tmp_path / "other"
    other.write_text(OPS.replace("return int(", "return abs("))
    os.utime(other, ns=(was.st_atime_ns, was.st_mtime_ns))
    if how == "copied with its times":
        shutil.copy2(other, ops)
    elif how == "another in its place":
        other.replace(ops)
    elif how == "given back its times":
        ops.write_bytes(other.read_bytes())
        os.utime(ops, ns=(was.st_atime_ns, was.st_mtime_ns))
    else:
        ops.unlink()
        ops.symlink_to(other)
    assert (ops.stat().st_size, ops.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)
    assert lint(two_users, settings, cache=cache) == lint(two_users, settings) != before


@pytest.mark.skipif(os.name != "posix", reason="a file's times can all be set")
def test_what_is_written_during_a_run_is_read_by_the_next_whatever_clocks_say(
    two_users: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of a file system on another machine may be behind, so that all files seem to be old."""
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    monkeypatch.setattr("compilelint.static.units.stamps.SETTLED_NS", -(10**12))
    keep = Cache.keep_run

    def edited_before(*about: Any) -> None:
        two_users[2].write_text(OPS.replace("return int(", "return abs("))
        keep(*about)

    with monkeypatch.context() as during:
        during.setattr(Cache, "keep_run", edited_before)
        before = lint(two_users, settings, cache=cache)
    assert lint(two_users, settings, cache=cache) == lint(two_users, settings) != before


@pytest.mark.parametrize("foreign", [b"{}", b"a b\n{}\n{}\n", b"a b\n[]\n[]\n[]", b"\n\n\n"])
def test_a_foreign_entry_of_the_run_is_no_entry(
    two_users: tuple[Path, Path, Path], tmp_path: Path, foreign: bytes
) -> None:
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    expected = lint(two_users, settings, cache=cache)
    head = foreign.split(b"\n", 3)
    if len(head) == 4:  # with digests that are right
        head[0] = f"{digest_of(head[1] + head[3])} {digest_of(head[2])}".encode()
    for entry in cache.glob("*.json"):
        if entry.read_bytes().count(b'\n{"read"'):
            entry.write_bytes(b"\n".join(head))
            break
    else:
        pytest.fail("there is no entry of the run")
    assert lint(two_users, settings, cache=cache) == expected


def test_what_was_just_written_is_read(two_users: tuple[Path, Path, Path], tmp_path: Path) -> None:
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    for text in ("f(x)", "x   ", "f(x)", "-x  "):
        two_users[0].write_text(USER.format(text))
        assert lint(two_users, settings, cache=cache) == lint(two_users, settings)


def test_what_cannot_be_kept_is_worked_out(tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "cache"
    place.write_text("a file")
    assert run(tree, place) == run(tree, None)


def test_everything_a_finding_says_is_kept(tmp_path: Path) -> None:
    span = Span(1, 2, 3, 4)
    step = Step("m.py", 5, "f", "x")
    rewrite = Rewrite("replace", "title", "safe", span, "{part}", span)
    words = {name: name for name in ("rule", "name", "path", "function", "message", "instead", "fingerprint")}
    finding = Finding(
        **words, hazard="graph-break", span=span, confidence="possible", statement=(6, 7), region=(step,),
        rewrite=rewrite, definition=step,
    )  # fmt: skip
    left_out = {field.name for field in fields(Finding) if getattr(finding, field.name) == field.default}
    assert left_out == {"verdict", "evidence", "fixes"}  # set after the static pass
    outcome = Outcome(
        (finding,), (), (Failure("n.py", "no", 8),), ("CL1",), frozenset("e"), ("p",), {}, frozenset("/a")
    )
    Cache(tmp_path, "context", tmp_path, nothing, untried).put(Task(("m",)), outcome)
    assert Cache(tmp_path, "context", tmp_path, nothing, untried).get(Task(("m",))) == outcome
    assert Cache(tmp_path, "another", tmp_path, nothing, untried).get(Task(("m",))) is None


def test_a_failure_of_ours_is_not_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path, "context", tmp_path, nothing, untried)
    cache.put(Task(("m",)), Outcome(failures=(Failure("m.py", "internal error"),)))
    assert cache.get(Task(("m",))) is None


def test_runs_at_the_same_time_agree(tree: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "compilelint", "fixtures", "--output-format", "json", "--exit-zero"]

    def once(cache: str) -> str:
        done = subprocess.run([*command, *cache.split()], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    expected = once("--no-cache")
    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(once, ["--cache-dir cache"] * 3)) == {expected}


def test_a_killed_run_leaves_nothing_wrong(tree: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    program = (
        "import os, signal, sys; from pathlib import Path; from compilelint.static import lint;"
        "from compilelint.static.units import cache, work;"
        "from compilelint.config import Settings; work.LEAST_BYTES, work.MOST_BYTES = 4000, 8000;"
        "write, left = cache._write, [4];\n"
        "def killed(place, data):\n"
        "    left[0] -= 1\n"
        "    if not left[0]:\n"
        "        place.with_suffix('.new').write_bytes(data[: len(data) // 2]); os.kill(os.getpid(), signal.SIGKILL)\n"
        "    write(place, data)\n"
        "cache._write = killed; tree = Path('fixtures').resolve()\n"
        "lint(sorted(tree.rglob('*.py')), Settings(root=tree), 0, Path('cache').resolve())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(cache.glob("*.new"))
    assert run(tree, cache) == run(tree, None)


def test_the_folder_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_BYTES >= 1024 * 1024
    monkeypatch.setattr("compilelint.static.units.cache.MOST_BYTES", 4000)
    cache = Cache(tmp_path, "context", tmp_path, nothing, untried)
    for number in range(40):
        cache.put(Task((f"m{number}",)), Outcome())
        os.utime(max(tmp_path.glob("*.json"), key=lambda path: path.stat().st_mtime_ns), (number, number))
    cache.trim()
    assert 0 < sum(path.stat().st_size for path in tmp_path.glob("*.json")) <= 4000
    assert cache.get(Task(("m39",))) is not None
    assert cache.get(Task(("m0",))) is None
    assert (tmp_path / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert (tmp_path / ".gitignore").read_text() == "*\n"


def test_of_a_star_import_that_does_not_bind_a_name_only_the_names_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    other, model = package / "other.py", package / "model.py"
    other.write_text("def unrelated(x):\n    return x\n")
    (package / "ops.py").write_text("def f(x):\n    return x\n")
    model.write_text(
        "import torch\nfrom .other import *\nfrom .ops import *\n@torch.compile\ndef g(x):\n    return f(x)\n"
    )
    cache, settings = tmp_path / "cache", Settings(root=tmp_path)
    walked: list[Task] = []
    put = Cache.put
    monkeypatch.setattr(Cache, "put", lambda self, task, outcome: (walked.append(task), put(self, task, outcome)))
    assert lint([model], settings, cache=cache).findings == ()
    walked.clear()
    other.write_text("def unrelated(x):\n    return int(x.sum())\n")
    assert lint([model], settings, cache=cache).findings == ()
    assert walked == []
    other.write_text("def f(x):\n    return int(x.sum())\n")
    assert lint([model], settings, cache=cache) == lint([model], settings)
    assert walked
