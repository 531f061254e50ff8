"""Arguments to files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compilelint.config import Settings
from compilelint.static.project.discover import Discovery, discover


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "a.py",
        "notes.txt",
        "pkg/b.py",
        "pkg/stubs.pyi",
        "pkg/gen/c.py",
        "build/d.py",
        ".venv/lib/site-packages/torch/e.py",
        "pkg/__pycache__/f.py",
        ".compilelint_cache/g.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path


def names(found: Discovery, tree: Path) -> list[str]:
    return [file.relative_to(tree).as_posix() for file in found.files]


def test_folder_is_walked_in_order_without_default_excludes(tree: Path) -> None:
    found = discover(["."], Settings(root=tree), tree)
    assert names(found, tree) == ["a.py", "pkg/b.py", "pkg/gen/c.py"]
    assert not found.named


@pytest.mark.parametrize("argument", [".venv/lib/site-packages/torch", ".venv/lib/site-packages", ".venv"])
def test_named_folder_is_walked_though_excluded(tree: Path, argument: str) -> None:
    found = discover([argument], Settings(root=tree), tree)
    expected = [] if argument == ".venv" else [".venv/lib/site-packages/torch/e.py"]
    assert names(found, tree) == expected  # site-packages below .venv is still an excluded folder
    assert found.empty == ((".venv",) if argument == ".venv" else ())


def test_named_file_is_taken_as_it_is(tree: Path) -> None:
    found = discover(["pkg/stubs.pyi", "build/d.py"], Settings(root=tree), tree)
    assert names(found, tree) == ["pkg/stubs.pyi", "build/d.py"]
    assert found.named == set(found.files)


def test_force_exclude_speaks_about_named_files(tree: Path) -> None:
    found = discover(["build/d.py", "a.py"], Settings(root=tree, force_exclude=True), tree)
    assert names(found, tree) == ["a.py"]
    assert found.excluded == 1


@pytest.mark.parametrize("pattern", ["gen", "pkg/gen", "/pkg/gen/", "pkg/**/c.py", "c.*"])
def test_exclude_patterns(tree: Path, pattern: str) -> None:
    settings = replace(Settings(root=tree), extend_exclude=(pattern,))
    assert names(discover(["."], settings, tree), tree) == ["a.py", "pkg/b.py"]
    assert names(discover(["pkg"], settings, tree), tree) == ["pkg/b.py"]


def test_folder_named_inside_an_excluded_one(tree: Path) -> None:
    settings = replace(Settings(root=tree), extend_exclude=("pk*",))
    assert names(discover(["pkg/gen"], settings, tree), tree) == ["pkg/gen/c.py"]


def test_gitignore_with_negation_and_nesting(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("gen/\nb.py\n")
    (tree / "pkg/.gitignore").write_text("!b.py\n")
    settings = Settings(root=tree)
    assert names(discover(["."], settings, tree), tree) == ["a.py", "pkg/b.py"]
    assert names(discover(["pkg"], settings, tree), tree) == ["pkg/b.py"]
    assert names(discover(["pkg/gen"], settings, tree), tree) == ["pkg/gen/c.py"]
    unheeding = replace(settings, respect_gitignore=False)
    assert names(discover(["."], unheeding, tree), tree) == ["a.py", "pkg/b.py", "pkg/gen/c.py"]


def test_gitignore_of_an_outer_repository_ends_at_an_inner_one(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("b.py\n")
    (tree / "pkg/.git").mkdir()
    assert "pkg/b.py" in names(discover(["."], Settings(root=tree), tree), tree)


def test_git_info_exclude(tree: Path) -> None:
    (tree / ".git/info").mkdir(parents=True)
    (tree / ".git/info/exclude").write_text("a.py\n")
    assert "a.py" not in names(discover(["."], Settings(root=tree), tree), tree)


def test_overlapping_arguments_give_each_file_once(tree: Path) -> None:
    found = discover([".", "pkg", "pkg/b.py", "./a.py"], Settings(root=tree), tree)
    assert names(found, tree) == ["a.py", "pkg/b.py", "pkg/gen/c.py"]
    assert {file.name for file in found.named} == {"a.py", "b.py"}


def test_symlinks(tree: Path) -> None:
    (tree / "aa_link.py").symlink_to(tree / "pkg/b.py")
    (tree / "pkg/loop").symlink_to(tree)
    (tree / "broken.py").symlink_to(tree / "gone.py")
    found = discover(["."], Settings(root=tree), tree)
    assert sorted(names(found, tree)) == ["a.py", "pkg/b.py", "pkg/gen/c.py"]
    assert discover(["broken.py"], Settings(root=tree), tree).failures[0].message == "broken symbolic link"
    assert names(discover(["pkg/loop"], Settings(root=tree), tree), tree)[0] == "pkg/loop/a.py"


def test_missing_path_and_empty_folder(tree: Path) -> None:
    (tree / "empty").mkdir()
    found = discover(["nowhere", "empty", "a.py"], Settings(root=tree), tree)
    assert [(failure.path, failure.message) for failure in found.failures] == [("nowhere", "no such file or folder")]
    assert found.empty == ("empty",)
    assert names(found, tree) == ["a.py"]


def test_path_outside_the_configured_root(tree: Path) -> None:
    settings = Settings(root=tree / "pkg", extend_exclude=("a.*",))
    assert names(discover(["."], settings, tree), tree) == ["pkg/b.py", "pkg/gen/c.py"]
