"""Suppression comments: `# compilelint: ignore[CL201] reason`, and `# noqa: CL201` from a shared linter setup.

Where a comment stands says how far it reaches:

- behind code: the findings on that line or in the statement that begins or ends there;
- behind a `def` or `class` line: the whole function or class;
- on a line of its own: the statement below, and the whole function or class if that is what stands below;
- `ignore-file[...]`: the file.

Without codes in brackets it holds back every rule. A bare `# noqa` is not ours and does nothing.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field

from compilelint.config import did_you_mean
from compilelint.lines import split_lines
from compilelint.model import Finding, Span
from compilelint.record import record
from compilelint.sift import RUNTIME_CARD, SUPPRESSION_CARD

OURS = re.compile(r"#\s*compilelint\s*:\s*(?P<verb>[\w-]*)\s*(?:\[(?P<codes>[^\]]*)\])?", re.IGNORECASE)
NOQA = re.compile(r"#\s*noqa\s*:\s*(?P<codes>[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)", re.IGNORECASE)
WORDS = (b"compilelint", b"noqa")
"""A file without any of these, in small letters or capitals, holds no such comment."""
VERBS = ("ignore", "ignore-file")


@record(slots=True)
class Directive:
    """One comment: the lines it speaks for (None: the file), the codes it names (empty: every rule), what it caught."""

    span: Span
    lines: range | None
    codes: tuple[str, ...]
    problem: str = ""
    used: set[str] = field(default_factory=set)

    def holds(self, finding: Finding) -> bool:
        """Whether this comment is about `finding`; marks the code that matched as used."""
        if self.problem or not (self.lines is None or _meets(self.lines, finding)):
            return False
        if not self.codes:
            self.used.add("")
            return True
        matching = [code for code in self.codes if finding.rule.startswith(code)]
        self.used.update(matching)
        return bool(matching)


def suppressed(
    findings: Iterable[Finding],
    files: Iterable[tuple[str, str]],
    known: Callable[[], Collection[str]],
    report_unused: Collection[str] = (),
    ran: bool = False,
) -> tuple[Finding, ...]:
    """`findings` without those a comment holds back, and a CL001 finding for each comment that is wrong or unused.

    `files` are (path as findings give it, source text) of every file to look for comments in. `known()` gives the rule
    codes. Unused comments are reported for the paths in `report_unused`; `ran` says that the runtime pass took part.
    """
    by_path: dict[str, list[Directive]] = {}
    for path, text in files:
        found = list(_directives(text, known))
        if found:
            by_path[path] = found
    kept = []
    for finding in findings:
        # Every comment is asked, so that two that say the same are both counted as used.
        holding = [directive.holds(finding) for directive in by_path.get(finding.path, ())]
        if not any(holding):
            kept.append(finding)
    for path, directives in by_path.items():
        for directive in directives:
            message = directive.problem or (_unused(directive, ran) if path in report_unused else "")
            if message:
                kept.append(_complaint(path, directive.span, message))
    return tuple(kept)


def _directives(text: str, known: Callable[[], Collection[str]]) -> Iterator[Directive]:
    if not any(True for _ in _ours(text)):  # to find out what is a comment takes long, and most speak to others
        return
    comments = [(token, match) for token in _comments(text) for match in _ours(token.string)]
    if not comments:
        return
    try:
        definitions = _definitions(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        definitions = []
    lines = split_lines(text)
    for token, (verb, codes, start) in comments:
        row, column = token.start[0], token.start[1] + start + 1
        span = Span(row, column, row, token.end[1] + 1)
        yield Directive(
            span=span,
            lines=None if verb == "ignore-file" else _reach(row, lines, definitions),
            codes=tuple(dict.fromkeys(codes)),
            problem=_problem(verb, codes, known()),
        )


def _comments(text: str) -> list[tokenize.TokenInfo]:
    comments = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments.append(token)
    except (
        tokenize.TokenError,
        SyntaxError,
    ):  # the static pass reports the file; comments before the error still count
        pass
    return comments


def _ours(comment: str) -> Iterator[tuple[str, list[str], int]]:
    """(verb, codes, 0-based offset in the comment) of each directive in a comment."""
    for match in OURS.finditer(comment):
        codes = re.split(r"[,\s]+", (match["codes"] or "").strip().upper())
        yield match["verb"].lower(), [code for code in codes if code], match.start()
    for match in NOQA.finditer(comment):
        codes = [code for code in re.split(r"[,\s]+", match["codes"].upper()) if re.fullmatch(r"CL\d{3}", code)]
        if codes:
            yield "ignore", codes, match.start()


def _problem(verb: str, codes: Sequence[str], known: Collection[str]) -> str:
    if verb not in VERBS:
        return f"'{verb}' is not a suppression{did_you_mean(verb, VERBS) or '; write ignore[CODE]'}"
    for code in codes:
        if not any(rule.startswith(code) for rule in known):
            return f"no rule has the code '{code}'{did_you_mean(code, known)}"
    return ""


def _definitions(tree: ast.Module) -> list[tuple[range, range]]:
    """(header lines with decorators, all lines) of every function and class."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = _first_line(node)
            header = range(first, max(_first_line(node.body[0]), node.lineno + 1))
            found.append((header, range(first, (node.end_lineno or node.lineno) + 1)))
    return found


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _reach(row: int, lines: Sequence[str], definitions: Sequence[tuple[range, range]]) -> range:
    """The lines a comment at 1-based `row` speaks for."""
    below = row
    if lines[row - 1].lstrip().startswith("#"):
        while below < len(lines) and (not lines[below - 1].strip() or lines[below - 1].lstrip().startswith("#")):
            below += 1
    for header, whole in definitions:
        if below in header:
            return whole
    return range(row, below + 1)


def _meets(lines: range, finding: Finding) -> bool:
    """Whether a comment's lines touch the finding's span, or the line where its statement begins or ends."""
    first, last = finding.statement
    span = finding.span
    return (span.line < lines.stop and lines.start <= span.end_line) or first in lines or last in lines


def _unused(directive: Directive, ran: bool) -> str:
    if not directive.codes:
        return "" if directive.used else "this suppression holds nothing back"
    idle = [code for code in directive.codes if code not in directive.used]
    if not ran:
        idle = [code for code in idle if code != RUNTIME_CARD.code]
    return f"this suppression of {', '.join(idle)} holds nothing back" if idle else ""


def _complaint(path: str, span: Span, message: str) -> Finding:
    return Finding(
        rule=SUPPRESSION_CARD.code,
        name=SUPPRESSION_CARD.name,
        hazard=SUPPRESSION_CARD.hazard,
        path=path,
        span=span,
        function="",
        message=message,
        instead="delete it, or correct the code in the brackets",
        confidence="certain",
        statement=(span.line, span.line),
        fingerprint=f"{SUPPRESSION_CARD.code}:{path}:{message}",
    )
