"""From a rewrite to its edit: layout and comments stay, and what cannot be changed without loss is left alone."""

from __future__ import annotations

from textwrap import dedent

import pytest

from compilelint.fix.apply import fixed_text
from compilelint.fix.edits import fix_of
from compilelint.model import Edit, Rewrite, Span


def guarded(source: str, marked: str = "print") -> str | None:
    """The source with its first statement that starts with `marked` under the guard; None if that is refused."""
    start = source.index(marked)
    end = source.index("@", start)
    source = source[:end] + source[end + 1 :]
    fix = fix_of(Rewrite("guard", "", "unsafe", span(source, start, end)), source)
    return None if fix is None else fixed_text(source, [fix])[0]


def replaced(source: str, old: str, template: str, part: str) -> str | None:
    start = source.index(old)
    inner = source.index(part, start)
    there, kept = span(source, start, start + len(old)), span(source, inner, inner + len(part))
    fix = fix_of(Rewrite("replace", "", "safe", there, template, kept), source)
    return None if fix is None else fixed_text(source, [fix])[0]


def span(text: str, start: int, end: int) -> Span:
    return Span(*place(text, start), *place(text, end))


def place(text: str, offset: int) -> tuple[int, int]:
    lines = text[:offset].replace("\r\n", "\n").split("\n")
    return len(lines), len(lines[-1]) + 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "def f(x):\n    print(x)@  # why\n    return x\n",
            "def f(x):\n    if not torch.compiler.is_compiling():\n        print(x)  # why\n    return x\n",
        ),
        (
            "def f(x):\n  # above\n  print(x)@\n",
            "def f(x):\n  # above\n  if not torch.compiler.is_compiling():\n    print(x)\n",
        ),
        (
            "def f(x):\n\tprint(x)@\n",
            "def f(x):\n\tif not torch.compiler.is_compiling():\n\t\tprint(x)\n",
        ),
        (
            "def f(x):\r\n    print(\r\n        x,\r\n    )@\r\n    return x\r\n",
            "def f(x):\r\n    if not torch.compiler.is_compiling():\r\n        print(\r\n            x,\r\n"
            "        )\r\n    return x\r\n",
        ),
        (
            'def f(x):\n    print("é😀", """\n  kept\n""")@',
            'def f(x):\n    if not torch.compiler.is_compiling():\n        print("é😀", """\n  kept\n""")',
        ),
        (
            "def f(x, loud):\n    if loud: print(x)@  # why\n    return x\n",
            "def f(x, loud):\n    if loud:\n        if not torch.compiler.is_compiling():\n"
            "            print(x)  # why\n    return x\n",
        ),
    ],
    ids=["comment", "two spaces", "tab", "CRLF, many lines", "text of many lines", "one-line body"],
)
def test_a_guarded_statement_keeps_its_layout(before: str, after: str) -> None:
    assert guarded(before) == after


def test_a_guard_on_one_line_is_an_insertion() -> None:
    source = "def f(x):\n    print(x)\n"
    fix = fix_of(Rewrite("guard", "guard it", "unsafe", Span(2, 5, 2, 13)), source)
    assert fix is not None
    assert (fix.title, fix.safety, fix.verified) == ("guard it", "unsafe", None)
    assert fix.edits == (Edit(Span(2, 5, 2, 5), "if not torch.compiler.is_compiling():\n        "),)


@pytest.mark.parametrize(
    "source",
    ["def f(x):\n    y = x; print(x)@\n", "def f(x):\n    if x:\n        pass\n    else: print(x)@\n"],
    ids=["beside another statement", "after else"],
)
def test_a_statement_that_shares_its_line_is_left_alone(source: str) -> None:
    assert guarded(source) is None


@pytest.mark.parametrize(
    ("source", "old", "template", "part", "after"),
    [
        ("y = deepcopy(x)\n", "deepcopy(x)", "{part}.clone()", "x", "y = x.clone()\n"),
        ("y = deepcopy(a + b)\n", "deepcopy(a + b)", "{part}.clone()", "a + b", "y = (a + b).clone()\n"),
        ("assert not a < b\n", "not a < b", "torch.logical_not({part})", "a < b", "assert torch.logical_not(a < b)\n"),
        ("é = not 😀x, 1\n", "not 😀x", "{part}.copy()", "x", "é = x.copy(), 1\n"),
        (
            "y = deepcopy(\n    a\n    .b\n)\n",
            "deepcopy(\n    a\n    .b\n)",
            "{part}.clone()",
            "a\n    .b",
            "y = (a\n    .b).clone()\n",
        ),
    ],
)
def test_a_replaced_expression_means_what_it_meant(source: str, old: str, template: str, part: str, after: str) -> None:
    assert replaced(source, old, template, part) == after


def test_a_comment_that_would_go_keeps_the_expression() -> None:
    source = dedent("""\
        y = deepcopy(
            x,  # the original
        )
        """)
    assert replaced(source, source[4:-1], "{part}.clone()", "x") is None
