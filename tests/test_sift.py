"""Selection, confidence, per-file ignores, baseline, changed lines."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from samples import BREAK, ITEM, PRINT, confirmed

from compilelint.config import ConfigError, Settings
from compilelint.model import Finding, Span
from compilelint.sift.baseline import baseline_text, not_in_baseline, read_baseline
from compilelint.sift.changed import changed_lines, on_changed_lines
from compilelint.sift.select import check_codes, outside_per_file_ignores, selected, sure_enough
from compilelint.source import Sources

BOTH = (ITEM, PRINT)
HERE = Path("/project")


@pytest.mark.parametrize(
    ("select", "extend", "ignore", "expected"),
    [
        (["ALL"], [], [], ["CL201", "CL401"]),
        (["CL2"], [], [], ["CL201"]),
        (["CL2"], ["CL4"], [], ["CL201", "CL401"]),
        (["ALL"], [], ["CL2"], ["CL401"]),
        (["CL201"], [], ["CL2"], ["CL201"]),
        (["CL2"], [], ["CL2"], []),
        (["ALL"], [], ["ALL"], []),
        (["CL4"], [], ["ALL"], ["CL401"]),
    ],
)
def test_the_longer_prefix_wins(select: list[str], extend: list[str], ignore: list[str], expected: list[str]) -> None:
    settings = Settings(root=HERE, select=tuple(select), extend_select=tuple(extend), ignore=tuple(ignore))
    assert [finding.rule for finding in selected(BOTH, settings)] == expected


def test_codes_are_checked() -> None:
    check_codes(["ALL", "C", "CL2", "CL201"], ["CL201"], "select")
    for wrong in ("", "cl201", "CL2011", "X"):
        with pytest.raises(ConfigError, match="select: no rule has the code"):
            check_codes([wrong], ["CL201"], "select")


@pytest.mark.parametrize(
    ("pattern", "path", "kept"),
    [
        ("tests/*", "tests/a.py", False),
        ("tests/", "tests/deep/a.py", False),
        ("a.py", "pkg/a.py", False),
        ("/a.py", "pkg/a.py", True),
        ("*", "/elsewhere/a.py", False),
        ("tests/*", "pkg/a.py", True),
    ],
)
def test_per_file_ignores(pattern: str, path: str, kept: bool) -> None:
    settings = Settings(root=HERE, per_file_ignores=((pattern, ("CL2",)),))
    found = outside_per_file_ignores([replace(ITEM, path=path), PRINT], settings, HERE)
    assert [finding.rule for finding in found] == (["CL201", "CL401"] if kept else ["CL401"])


def test_confidence_yields_to_what_was_seen() -> None:
    unsure = replace(ITEM, confidence="possible")
    assert sure_enough([unsure], "likely") == ()
    assert sure_enough([unsure], "possible") == (unsure,)
    seen = replace(unsure, verdict="confirmed")
    assert sure_enough([seen, PRINT], "certain") == (seen,)


def known(tmp_path: Path, *findings: Finding) -> dict[str, frozenset[str]]:
    file = tmp_path / "known.json"
    file.write_text(baseline_text(findings))
    return read_baseline(file)


def test_baseline_ignores_where_and_how_it_was_said(tmp_path: Path) -> None:
    accepted = known(tmp_path, ITEM)
    moved = replace(ITEM, span=Span(60, 1, 60, 2), message="other words", path="moved.py")
    assert not_in_baseline([moved, PRINT], accepted) == (PRINT,)


def test_baseline_tells_a_new_break_id_from_a_known_one(tmp_path: Path) -> None:
    accepted = known(tmp_path, confirmed())
    other = confirmed(ITEM, replace(BREAK, gb="GB9999"))
    assert not_in_baseline([confirmed(), ITEM], accepted) == ()
    assert not_in_baseline([other], accepted) == (other,)
    assert not_in_baseline([other], known(tmp_path, ITEM)) == ()


def test_baseline_is_the_same_text_for_the_same_findings() -> None:
    assert baseline_text([ITEM, PRINT]) == baseline_text([PRINT, ITEM, PRINT])


def test_baseline_of_another_schema(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    file.write_text('{"schema": "other/9", "findings": []}')
    with pytest.raises(ConfigError, match="'other/9'"):
        read_baseline(file)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/größe x.py").write_text("a\nb\nc\nd\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_changed_lines(repository: Path) -> None:
    (repository / "pkg/größe x.py").write_text("a\nB\nc\nd\ne\nf\n")
    (repository / "new.py").write_text("x\n")
    changed = changed_lines("main", repository / "pkg")
    assert [list(lines) for lines in changed[repository / "pkg/größe x.py"]] == [[2], [5, 6]]

    def at(line: int, end: int, path: str = "pkg/größe x.py") -> bool:
        finding = replace(ITEM, path=path, span=Span(line, 1, end, 2))
        return bool(on_changed_lines([finding], changed, Sources(repository)))

    assert [at(1, 1), at(2, 2), at(1, 3), at(3, 4), at(6, 6)] == [False, True, True, False, True]
    assert at(40, 40, "new.py")
    assert not at(1, 1, "untouched.py")


def test_changes_on_the_other_branch_do_not_count(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "work")
    git(repository, "checkout", "-q", "main")
    (repository / "pkg/größe x.py").write_text("A\nb\nc\nd\n")
    git(repository, "commit", "-q", "-a", "-m", "second")
    git(repository, "checkout", "-q", "work")
    assert changed_lines("main", repository) == {}


def test_unknown_revision_and_no_repository(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ConfigError, match="'nowhere' is not a revision"):
        changed_lines("nowhere", repository)
    with pytest.raises(ConfigError, match="'--output=x' is not a revision"):
        changed_lines("--output=x", repository)
    with pytest.raises(ConfigError, match="not a git repository"):
        changed_lines("main", tmp_path_factory.mktemp("bare"))
