"""Input that cannot be read costs one line on standard error, and never the findings in what can be."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from compilelint.cli import main

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"

HAZARD = """\
import torch


class Gate(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x
"""
CHAIN = HAZARD.replace("x.sum()", f"x{'.sin()' * 400}.sum()")
SUM = HAZARD.replace("x.sum()", f"({' + '.join(['x'] * 2000)}).sum()")

UNREADABLE = {
    "syntax": (b"def f(:\n", f"bad.py:1: not valid Python {RUNNING}: "),
    "no encoding": (b"# caf\xe9\n", "bad.py: not UTF-8, "),
    "another encoding": (b"# coding: latin-1\nx = 1\n".replace(b"latin-1", b"klingon"), "bad.py: not UTF-8, "),
    "UTF-16": ("x = 1\n".encode("utf-16"), "bad.py: not UTF-8, "),
    "a program": (b"\x7fELF\x02\x01\x01\0\xff\xfe" * 100, "bad.py: not UTF-8, "),
    "null bytes": (b"x = 1\n\0\n", "bad.py: "),
    "deep nesting": (b"x = " + b"(" * 5000 + b"1" + b")" * 5000, f"bad.py:1: not valid Python {RUNNING}: "),
}
READABLE = {
    "latin-1 as declared": b"# coding: latin-1\n"
    + HAZARD.replace("torch\n", "torch  # caf\xe9\n", 1).encode("latin-1"),
    "byte-order mark": b"\xef\xbb\xbf" + HAZARD.encode(),
    "CRLF": HAZARD.replace("\n", "\r\n").encode(),
    "CR": HAZARD.replace("\n", "\r").encode(),
    "form feeds": HAZARD.replace("class", "\fclass").encode(),
    "separators that end no line": HAZARD.replace("import", '"""\u2028 \x85 \x1c \v"""\nimport', 1).encode(),
    "other alphabets": HAZARD.replace("x", "größe").encode(),
    "long chain of calls": CHAIN.encode(),
    "long sum": SUM.encode(),
}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def check(*arguments: str) -> int:
    return main(["check", *arguments, "--output-format", "concise"])


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_cannot_be_read_is_told_in_one_line(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    data, told = UNREADABLE[kind]
    Path("bad.py").write_bytes(data)
    assert check(".") == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"compilelint: {told}")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("kind", UNREADABLE)
def test_the_other_files_are_checked(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.py").write_bytes(UNREADABLE[kind][0])
    Path("good.py").write_text(HAZARD)
    assert check(".") == 1
    output = capsys.readouterr()
    assert output.out.startswith("good.py:6:12: CL101 ")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("kind", READABLE)
def test_unusual_text_is_read_and_quoted_as_written(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.py").write_bytes(READABLE[kind])
    assert check("odd.py") == 1
    output = capsys.readouterr()
    (finding,) = (line for line in output.out.splitlines() if " CL101 " in line)
    assert output.err == ""
    start = "größe.sum() > 0" if kind == "other alphabets" else "(x + x" if kind == "long sum" else "x.s"
    assert f"CL101 `{start}" in finding


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(capsys: pytest.CaptureFixture[str]) -> None:
    Path("secret.py").write_text(HAZARD)
    Path("secret.py").chmod(0)
    assert check(".") == 2
    assert capsys.readouterr().err == "compilelint: secret.py: cannot be read: Permission denied\n"


def test_a_name_that_is_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        Path(os.fsdecode(b"caf\xe9.py")).write_text(HAZARD)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    for name in ("concise", "json", "sarif", "full", "junit", "github"):
        assert main(["check", ".", "--output-format", name]) == 1
        output = capsys.readouterr()
        assert "CL101" in output.out
        assert output.err == ""


def test_links_in_circles_end(capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.py").write_text(HAZARD)
    Path("folder").symlink_to(".")
    Path("self.py").symlink_to("self.py")
    Path("nowhere.py").symlink_to("gone.py")
    assert check(".") == 1
    output = capsys.readouterr()
    assert output.out.count(" CL101 ") == 1
    assert output.err == ""
