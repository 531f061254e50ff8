"""Changing files: which fixes are made, and what of a file stays as it was."""

from __future__ import annotations

import codecs
from dataclasses import replace
from pathlib import Path

import pytest
from samples import ITEM

from compilelint.fix import apply
from compilelint.fix.apply import Change, LeftAloneError, changes, fixed_text, write
from compilelint.model import Edit, Fix, Safety, Span
from compilelint.source import Sources

TEXT = "first\nsecond\r\nthird\n"


def fix(line: int, start: int, end: int, text: str, safety: Safety = "safe") -> Fix:
    return Fix("", safety, (Edit(Span(line, start, line, end), text),))


def test_edits_are_made_at_their_places_whatever_their_order() -> None:
    assert fixed_text(TEXT, [fix(3, 1, 6, "3"), fix(1, 1, 1, "0 "), fix(2, 7, 7, "!")]) == (
        "0 first\nsecond!\r\n3\n",
        3,
    )


@pytest.mark.parametrize(
    "second",
    [fix(1, 1, 6, "b"), fix(1, 5, 6, "b"), Fix("", "safe", (Edit(Span(1, 3, 2, 2), "b"),))],
    ids=["the same", "a part", "over the end"],
)
def test_of_overlapping_fixes_the_first_is_made(second: Fix) -> None:
    assert fixed_text(TEXT, [fix(1, 1, 6, "a"), second]) == ("a\nsecond\r\nthird\n", 1)


def test_two_insertions_at_one_place_overlap_and_neighbours_do_not() -> None:
    assert fixed_text("x\n", [fix(1, 1, 1, "a"), fix(1, 1, 1, "a")]) == ("ax\n", 1)
    assert fixed_text("xy\n", [fix(1, 1, 2, "a"), fix(1, 2, 3, "b")]) == ("ab\n", 2)


def test_a_fix_is_made_whole_or_not_at_all() -> None:
    both = Fix("", "safe", (Edit(Span(1, 1, 1, 1), "a"), Edit(Span(3, 1, 3, 6), "b")))
    assert fixed_text(TEXT, [fix(1, 1, 6, "1"), replace(both, edits=both.edits[::-1])])[1] == 2
    assert fixed_text(TEXT, [fix(3, 1, 6, "3"), both]) == ("afirst\nsecond\r\nb\n", 1)


def test_unsafe_fixes_are_made_when_asked_for(tmp_path: Path) -> None:
    safe = replace(ITEM, fixes=(fix(1, 1, 2, "s"),))
    unsafe = replace(ITEM, fixes=(fix(2, 1, 2, "u", "unsafe"),))
    sources = Sources(tmp_path, {"model.py": "a\nb\n"})
    assert changes([safe, unsafe], sources, unsafe=False) == (Change("model.py", "a\nb\n", "s\nb\n", 1),)
    assert changes([safe, unsafe], sources, unsafe=True) == (Change("model.py", "a\nb\n", "s\nu\n", 2),)
    assert changes([unsafe], sources, unsafe=False) == ()


@pytest.mark.parametrize(
    ("start", "encoding"),
    [(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (b"# coding: latin-1\n", "latin-1")],
    ids=["UTF-8", "byte-order mark", "coding comment"],
)
def test_encoding_line_ends_and_mode_are_kept(tmp_path: Path, start: bytes, encoding: str) -> None:
    file = tmp_path / "model.py"
    file.write_bytes(start + "x = 'é'\r\ny = 1".encode(encoding))
    file.chmod(0o750)
    before = Sources(tmp_path).text("model.py")
    write(Change("model.py", before, before.replace("y = 1", "y = 'ü'"), 1), file)
    assert file.read_bytes() == start + "x = 'é'\r\ny = 'ü'".encode(encoding)
    assert file.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("x = 1\n")
    (tmp_path / "model.py").symlink_to("real.py")
    write(Change("model.py", "x = 1\n", "x = 2\n", 1), tmp_path / "model.py")
    assert (tmp_path / "model.py").is_symlink()
    assert (tmp_path / "real.py").read_text() == "x = 2\n"


@pytest.mark.parametrize(
    ("data", "change", "reason"),
    [
        (b"x = 3\n", Change("", "x = 1\n", "x = 2\n", 1), "changed while"),
        (b"x = '\xff'\n", Change("", "x = '\ufffd'\n", "x = 2\n", 1), "cannot be fixed without damage"),
        (b"x = 1\n", Change("", "x = 1\n", "x = (\n", 1), "cannot be fixed without damage"),
        (b"# coding: latin-1\n", Change("", "# coding: latin-1\n", "x = '😀'\n", 1), "cannot be fixed without damage"),
    ],
    ids=["changed", "not its encoding", "no Python", "not in its encoding"],
)
def test_a_file_is_left_alone_rather_than_damaged(tmp_path: Path, data: bytes, change: Change, reason: str) -> None:
    file = tmp_path / "model.py"
    file.write_bytes(data)
    with pytest.raises(LeftAloneError, match=reason) as told:
        write(change, file)
    assert "\n" not in str(told.value)
    assert file.read_bytes() == data


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.py"
    file.write_text("x = 1\n")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(apply.shutil, "copymode", refuse)
    with pytest.raises(LeftAloneError, match="cannot be written: No space left on device"):
        write(Change("model.py", "x = 1\n", "x = 2\n", 1), file)
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]
    assert file.read_text() == "x = 1\n"
