"""The edits of a rewrite, worked out on a concrete syntax tree of the one statement or expression it changes.

Only that piece is parsed, since libcst takes several times as long as `ast` (benchmarks/speed): comments and layout
around it are not even looked at, and those in it are kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, takewhile

import libcst as cst
from libcst.helpers import parse_template_expression

from compilelint.lines import split_lines
from compilelint.model import Edit, Fix, Rewrite, Span

GUARD = "not torch.compiler.is_compiling()"
_BLOCK = "if 1:\n"
"""What an indented statement is parsed under, so that its indentation needs no change."""
_DISPLAYS = (cst.List, cst.ListComp, cst.Set, cst.SetComp, cst.Dict, cst.DictComp)
_PRIMARY = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, *_DISPLAYS)
"""What a dot may follow without parentheses."""


def fix_of(rewrite: Rewrite, text: str) -> Fix | None:
    """The fix that makes `rewrite` in a file of this text; None where its layout does not allow it.

    That is a statement that shares its line with another one, and an expression with a comment in what would go.
    """
    edit = _guarded(text, rewrite.span) if rewrite.how == "guard" else _replaced(_lines(text), rewrite)
    if edit is None:
        return None
    newline = re.search(r"\r\n|\r|\n", text)
    if newline is not None and newline[0] != "\n":
        edit = Edit(edit.span, edit.replacement.replace("\n", newline[0]))
    return Fix(rewrite.title, rewrite.safety, (edit,))


def _guarded(text: str, span: Span) -> Edit | None:
    """Put the statement at `span`, alone on its lines, under the guard."""
    old = "\n".join(_lines(text)[span.line - 1 : span.end_line])
    try:
        module = cst.parse_module(f"{_BLOCK}{old}\n")
    except cst.ParserSyntaxError:
        return None
    outer = module.body[0]
    assert isinstance(outer, cst.If)
    if len(outer.body.body) != 1:
        return None
    guarded = _under_guard(outer.body.body[0], "\t" if old.startswith("\t") else _indentation(text))
    if guarded is None:
        return None
    changed = module.with_deep_changes(outer.body, body=[guarded])
    return _difference(old, changed.code.removeprefix(_BLOCK).removesuffix("\n"), span.line)


def _under_guard(found: cst.BaseStatement | cst.BaseSmallStatement, unit: str) -> cst.BaseStatement | None:
    """A line of one statement under the guard; `if verbose: print(x)` gets a body of its own to hold it."""
    if isinstance(found, cst.SimpleStatementLine):
        if len(found.body) != 1:
            return None
        return cst.If(cst.parse_expression(GUARD), cst.IndentedBlock([found], indent=unit))
    if not isinstance(found, cst.BaseCompoundStatement) or not isinstance(found.body, cst.SimpleStatementSuite):
        return None
    line = cst.SimpleStatementLine(found.body.body, trailing_whitespace=found.body.trailing_whitespace)
    inner = _under_guard(line, unit)
    return None if inner is None else found.with_changes(body=cst.IndentedBlock([inner], indent=unit))


def _replaced(lines: Sequence[str], rewrite: Rewrite) -> Edit | None:
    """Write the template for the expression."""
    assert rewrite.part is not None
    old, kept = _source(lines, rewrite.span), _source(lines, rewrite.part)
    if "#" in old.replace(kept, "", 1):
        return None
    part = cst.parse_expression(f"({kept})")
    # The parentheses let an expression run over lines; what stands before a dot may need them.
    if "\n" not in kept and (isinstance(part, _PRIMARY) or not rewrite.template.startswith("{part}")):
        part = part.with_changes(lpar=part.lpar[1:], rpar=part.rpar[:-1])
    new = parse_template_expression(rewrite.template, part=part)
    return Edit(rewrite.span, cst.Module([]).code_for_node(new))


def _source(lines: Sequence[str], span: Span) -> str:
    """The text at `span`, with `\\n` between lines."""
    taken = list(lines[span.line - 1 : span.end_line])
    taken[-1] = taken[-1][: span.end_column - 1]
    taken[0] = taken[0][span.column - 1 :]
    return "\n".join(taken)


@lru_cache(maxsize=1)
def _lines(text: str) -> list[str]:
    return split_lines(text)


@lru_cache(maxsize=1)
def _indentation(text: str) -> str:
    """The spaces by which most blocks of a file are deeper than what opens them."""
    steps = Counter(
        depth
        for opener, line in pairwise(_lines(text))
        if opener.endswith(":") and (depth := _depth(line) - _depth(opener)) > 0
    )
    return " " * (steps.most_common(1)[0][0] if steps else 4)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _difference(old: str, new: str, first_line: int) -> Edit:
    """The shortest edit that makes `new` of `old`, whose first character is the first of line `first_line`."""
    start = _common_start(old, new)
    same_end = _common_start(old[start:][::-1], new[start:][::-1])
    end = len(old) - same_end
    span = Span(*_position(old, start, first_line), *_position(old, end, first_line))
    return Edit(span, new[start : len(new) - same_end])


def _common_start(one: str, other: str) -> int:
    """How many characters two texts begin alike with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _position(text: str, offset: int, first_line: int) -> tuple[int, int]:
    """1-based line and column of a 0-based offset."""
    before = text[:offset]
    return first_line + before.count("\n"), offset - (before.rfind("\n") + 1) + 1
