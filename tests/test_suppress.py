"""Suppression comments. A finding is put on every line of the source; the test says on which lines one is left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from samples import ITEM

from compilelint.lines import split_lines
from compilelint.model import Finding, Span
from compilelint.sift.suppress import suppressed

KNOWN = ("CL000", "CL001", "CL201", "CL202", "CL401")


def on(line: int, statement: tuple[int, int] | None = None, rule: str = "CL201") -> Finding:
    return replace(ITEM, rule=rule, span=Span(line, 5, line, 9), statement=statement or (line, line))


def left(source: str, *findings: Finding, **options: object) -> list[tuple[str, int]]:
    given = findings or [on(line) for line in range(1, len(split_lines(source)) + 1)]
    kept = suppressed(given, [("model.py", source)], known=lambda: KNOWN, **options)  # type: ignore[arg-type]
    return [(finding.rule, finding.span.line) for finding in kept]


def lines_left(source: str) -> list[int]:
    return [line for _, line in left(source)]


def test_trailing_comment_speaks_for_its_line() -> None:
    assert lines_left("a = 1\nb = 2  # compilelint: ignore[CL201] on purpose\nc = 3") == [1, 3]


def test_comment_above_speaks_for_the_line_below() -> None:
    source = "a = 1\n# compilelint: ignore[CL201]\n# because of that\n\nb = 2\nc = 3"
    assert lines_left(source) == [1, 6]


@pytest.mark.parametrize("comment_line", [1, 3])
def test_comment_at_either_end_of_a_statement(comment_line: int) -> None:
    lines = ["f(", "    x.item(),", ")"]
    lines[comment_line - 1] += "  # compilelint: ignore[CL201]"
    assert left("\n".join(lines), on(2, (1, 3))) == []
    assert left("\n".join(["f(", "    x.item(),", ")", "g()  # compilelint: ignore"]), on(2, (1, 3))) == [("CL201", 2)]


FUNCTION = """\
@decorated
def f(
    x,
):{trailing}
    {inside}
    y = 1

    def g():
        return 2

z = 3
"""


def test_comment_on_a_def_line_speaks_for_the_function() -> None:
    assert lines_left(FUNCTION.format(trailing="  # compilelint: ignore[CL201]", inside="pass")) == [10, 11, 12]
    assert lines_left("# compilelint: ignore[CL201]\n@a\ndef f():\n    x = 1\ny = 2") == [1, 5]
    assert lines_left("class A:  # compilelint: ignore[CL201]\n    x = 1\ny = 2") == [3]


def test_comment_in_a_function_is_not_about_the_function() -> None:
    source = FUNCTION.format(trailing="", inside="# compilelint: ignore[CL201]")
    assert lines_left(source) == [1, 2, 3, 4, 7, 8, 9, 10, 11, 12]


def test_file() -> None:
    assert lines_left("a = 1\n# compilelint: ignore-file[CL2]\nb = 2") == []


def test_codes_prefixes_and_none() -> None:
    source = "a = 1  # compilelint: ignore[{}]"
    both = (on(1), on(1, rule="CL401"))
    assert left(source.format("CL401"), *both) == [("CL201", 1)]
    assert left(source.format("cl2, CL401"), *both) == []
    assert left("a = 1  # compilelint: ignore", *both) == []


def test_noqa_needs_our_code() -> None:
    assert left("a = 1  # noqa: E501, CL201", on(1)) == []
    assert left("a = 1  # noqa", on(1)) == [("CL201", 1)]
    assert left("a = 1  # noqa: E501", on(1)) == [("CL201", 1)]


def test_text_in_a_string_is_no_comment() -> None:
    assert left('a = "# compilelint: ignore[CL201]"', on(1)) == [("CL201", 1)]


def test_only_in_the_file_it_stands_in() -> None:
    other = replace(on(1), path="other.py")
    assert left("a = 1  # compilelint: ignore[CL201]", on(1), other) == [("CL201", 1)]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("ignroe[CL201]", "'ignroe' is not a suppression; did you mean 'ignore'?"),
        ("off", "'off' is not a suppression; write ignore[CODE]"),
        ("ignore[CL999]", "no rule has the code 'CL999'"),
        ("ignore[CL2O1]", "no rule has the code 'CL2O1'; did you mean 'CL201'?"),
    ],
)
def test_wrong_comments_are_findings(comment: str, message: str) -> None:
    source = f"a = 1  # compilelint: {comment}"
    kept = suppressed([on(1)], [("model.py", source)], known=lambda: KNOWN)
    assert [finding.rule for finding in kept] == ["CL201", "CL001"]
    assert kept[1].message.startswith(message)
    assert kept[1].span == Span(1, 8, 1, len(source) + 1)


def test_unused_comments_are_findings_where_asked() -> None:
    source = "a = 1  # compilelint: ignore[CL201, CL401]\nb = 2  # compilelint: ignore"
    assert left(source, on(1)) == []
    kept = suppressed([on(1)], [("model.py", source)], known=lambda: KNOWN, report_unused={"model.py"})
    assert [(finding.span.line, finding.message) for finding in kept] == [
        (1, "this suppression of CL401 holds nothing back"),
        (2, "this suppression holds nothing back"),
    ]


def test_runtime_code_is_unused_only_if_the_runtime_ran() -> None:
    source = "a = 1  # compilelint: ignore[CL000]"
    options = {"known": lambda: KNOWN, "report_unused": {"model.py"}}
    assert not suppressed([], [("model.py", source)], ran=False, **options)  # type: ignore[arg-type]
    assert suppressed([], [("model.py", source)], ran=True, **options)  # type: ignore[arg-type]


def test_broken_source_still_has_its_comments() -> None:
    assert left("a = 1  # compilelint: ignore[CL201]\ndef (:\n", on(1)) == []


def test_form_feeds_do_not_move_lines() -> None:
    assert left("a = 1\n\x0c\nb = 2  # compilelint: ignore[CL201]", on(3)) == []
