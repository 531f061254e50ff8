"""One file as parts that change apart: what can be asked of it, each with a digest that a comment does not change.

A part is a text: `code` (all of it), `surface` (all but the bodies of functions), `body F` and `class C` (the bodies of
one function, of all methods of one class), `assigned C` (what the methods of a class assign to their object), `outside
NAME` (what the file assigns to that attribute of other objects), `starts` (where it speaks of compilation, if in
comments), `head` (the first lines, comments and all), `plan HOW F` (what the rest of the file has rules ask about in a
function that is looked at in that way, see `dispatch.asking`), `made NAME` (what the file binds to a name), `given C`
(what the file passes to the constructor of a class), `rebound NAME` (what its functions assign to a global), `fact
QUESTION` (what a function, by module and name, says of the file), `tests F` (what a function tells of its argument, see
`definitions.none_test`). `F` and `C` are qualified names; of several definitions of one name the second is `F#2`.

Lines between statements that hold nothing but a comment, and blank ones, are in no part. So the lines of a part that
has not changed can be found again wherever they have moved to.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from importlib import import_module

from compilelint.static.project import contents
from compilelint.static.project.bindings import makers_of
from compilelint.static.project.bodies import with_bodies, with_body
from compilelint.static.project.definitions import (
    ClassRef,
    assigned,
    assigned_from_outside,
    constructed_in,
    is_small,
    none_test,
    rebound,
)
from compilelint.static.project.index import FunctionNode, ModuleIndex, Scope
from compilelint.static.project.syntax import first_line
from compilelint.static.project.text import digest_of

CODE = "code"
SURFACE = "surface"
STARTS = "starts"
OUTSIDE = "outside"
HEAD = "head"
PLAN = "plan"
MADE = "made"
GIVEN = "given"
REBOUND = "rebound"
FACT = "fact"
TESTS = "tests"

Pattern = Callable[[str, Scope, ast.Module], str]
"""See `dispatch.Dispatch.pattern`."""
Anchor = tuple[str, int]
"""A part, `surface` or a body, and a 0-based line of it."""


def function_of(part: str) -> str:
    """The name of the function that a part is about, its body or its plan; "" for other parts."""
    sort, _, name = part.rpartition(" ")
    return name if sort == "body" or sort.startswith(PLAN) else ""


class Parts:
    """The parts of one parsed file. Lines are 1-based."""

    def __init__(self, module: ModuleIndex) -> None:
        self._module = module
        self._functions = list(_numbered(_functions(module.tree.body, "")))
        self._first_lines = [first_line(node) for _, node in self._functions]
        self._names = {(node.lineno, node.col_offset): name for name, node in self._functions}
        self._digests: dict[str, str] = {}

    def lay_out(self) -> None:
        """Find out now which lines are in which part."""
        _ = self._layout

    def name(self, line: int, column: int) -> str:
        """The name of the function or method whose `def` stands there; "" for one inside a function, or a lambda."""
        return self._names.get((line, column), "")

    def body_at(self, line: int) -> str:
        """The part with the body of the function around a line, or that starts there; `SURFACE` outside of any."""
        position = bisect_right(self._first_lines, line) - 1
        if position >= 0 and line <= (self._functions[position][1].end_lineno or 0):
            return f"body {self._functions[position][0]}"
        return SURFACE

    def class_at(self, sort: str, name: str, line: int) -> str:
        """The part `class C` or `assigned C` of a class; where that is inside a function, the function's body."""
        around = self.body_at(line)
        return f"{sort} {name}" if around == SURFACE else around

    def plan_at(self, asked: str, line: int) -> str:
        """The part `plan` of the function around a line that is looked at as `asked` says; outside of any, the code."""
        around = self.body_at(line)
        return CODE if around == SURFACE else f"{PLAN} {asked} {around.partition(' ')[2]}"

    def tests_at(self, line: int) -> str:
        """The part `tests` of the function that starts at a line; of one inside another, the body of that one."""
        around = self.body_at(line)
        own = any(node.lineno == line for _, node in self._functions)
        return f"{TESTS} {around.partition(' ')[2]}" if own else around

    def digest(self, part: str, pattern: Pattern) -> str:
        """What tells one state of a part from another; "" where the file has no such part."""
        if part not in self._digests:
            self._digests[part] = self._plan(part, pattern) if part.startswith(PLAN) else self._digest(part)
        return self._digests[part]

    def _plan(self, part: str, pattern: Pattern) -> str:
        _, asked, name = part.split(" ")
        function = dict(self._functions).get(name)
        return "" if function is None else _digest_of([pattern(asked, function, self._module.tree)])

    def anchor(self, line: int) -> Anchor | None:
        """Where a line is to be found again; None for one that is in no part."""
        return self._anchors.get(line)

    def line(self, anchor: Anchor) -> int:
        """The line that an anchor means now. Raises LookupError where it means none."""
        part, number = anchor
        return self._lines[part][number]

    def _digest(self, part: str) -> str:
        sort, _, name = part.partition(" ")
        if part == STARTS:
            return _digest_of(_starts(self._module))
        if part == HEAD:
            return _digest_of(self._module.lines[: contents.HEAD_LINES])
        if sort == OUTSIDE:
            return _digest_of(map(ast.dump, assigned_from_outside(self._module, name)))
        if sort == "class":
            return _digest_of([self._digest(body) for body in self._lines if body.startswith(f"body {name}.")])
        if part == CODE:
            return _digest_of([(inner, self._digest(inner)) for inner in self._lines])
        if sort == TESTS:
            return _digest_of(none_test(with_body(node)) for inner, node in self._functions if inner == name)
        if sort == MADE:
            return _digest_of(sorted(makers_of(self._module.tree, name)))
        if sort == FACT:
            return _digest_of([_question(name)(self._module.tree)])
        if sort == GIVEN:
            sites = constructed_in(self._module, name)
            return _digest_of(ast.dump(part) for site in sites for part in site if part is not None)
        if sort == REBOUND:
            return _digest_of(ast.dump(part) for site in rebound(self._module, name) for part in site)
        if sort == "assigned":
            classes = [ref for ref in contents.classes(self._module) if ref.qualname == name]
            return _digest_of(item for ref in classes for item in _assigned(ref)) if classes else ""
        if part not in self._lines:
            return ""
        return _digest_of([self._small.get(part, []), *(self._module.lines[line - 1] for line in self._lines[part])])

    @property
    def _lines(self) -> dict[str, list[int]]:
        """The lines of the surface and of each body, in order."""
        return self._layout[0]

    @property
    def _small(self) -> dict[str, list[bool]]:
        """For each part, which of the functions that stand in it are small: a comment may make one large."""
        return self._layout[1]

    @cached_property
    def _layout(self) -> tuple[dict[str, list[int]], dict[str, list[bool]]]:
        body = with_bodies(self._module.tree).body
        pieces = list(_pieces(body))
        small: dict[str, list[bool]] = {}
        for _, _, node in pieces:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                small.setdefault(self.body_at(node.lineno), []).append(is_small(node))
        held = {line for first, last, _ in pieces for line in range(first, last + 1)}
        return self._owned(_numbered(_functions(body, "")), held), small

    def _owned(self, functions: Iterable[tuple[str, FunctionNode]], held: set[int]) -> dict[str, list[int]]:
        """The lines of each part; those `held` by a statement are in one, whatever is in them."""
        lines = self._module.lines
        found: dict[str, list[int]] = {SURFACE: []}
        owners = [SURFACE] * (len(lines) + 1)
        for name, node in functions:
            found[f"body {name}"] = []
            first = first_line(node.body[0])
            if not lines[first - 1].encode()[: node.body[0].col_offset].strip() or first < node.body[0].lineno:
                last = node.end_lineno or first
                owners[first : last + 1] = [f"body {name}"] * (last + 1 - first)
        for line, text in enumerate(lines, start=1):
            bare = text.strip()
            if line in held or (bare and not bare.startswith("#")):
                found[owners[line]].append(line)
        return found

    @cached_property
    def _anchors(self) -> dict[int, Anchor]:
        return {line: (part, number) for part, lines in self._lines.items() for number, line in enumerate(lines)}


def _question(name: str) -> Callable[[ast.Module], object]:
    module, _, function = name.partition(":")
    question: Callable[[ast.Module], object] = getattr(import_module(module), function)
    return question


def _functions(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, FunctionNode]]:
    """The functions of a file and the methods of its classes by qualified name, in order; none inside functions."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{prefix}{statement.name}", statement
        else:
            inner = f"{prefix}{statement.name}." if isinstance(statement, ast.ClassDef) else prefix
            for block, _ in _blocks(statement):
                yield from _functions(block, inner)


def _numbered(functions: Iterable[tuple[str, FunctionNode]]) -> Iterator[tuple[str, FunctionNode]]:
    seen: dict[str, int] = {}
    for name, node in functions:
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), node


def _blocks(statement: ast.stmt) -> Iterator[tuple[list[ast.stmt], int]]:
    """The statement lists inside a statement, each with the line where its own header starts, 0 without one."""
    first = first_line(statement)
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if block:
            yield block, first if field == "body" else 0
    for handler in getattr(statement, "handlers", ()):
        yield handler.body, handler.lineno
    for case in getattr(statement, "cases", ()):
        yield case.body, case.pattern.lineno


def _pieces(body: Iterable[ast.stmt]) -> Iterator[tuple[int, int, ast.stmt]]:
    """First and last line of every statement in `body`, at any depth, of its headers where it holds others."""
    for statement in body:
        blocks = list(_blocks(statement))
        if not blocks:
            yield first_line(statement), statement.end_lineno or statement.lineno, statement
        for block, header in blocks:
            if header:
                yield header, first_line(block[0]) - 1, statement
            yield from _pieces(block)


def _starts(module: ModuleIndex) -> Iterator[object]:
    """Where the file speaks of compilation; a comment that does counts too."""
    yield contents.speaks_of_compile(module)
    for ref in contents.functions(module):
        yield ref.qualname, contents.host_function(ref, module)


def _assigned(ref: ClassRef) -> Iterator[object]:
    for name, sites in assigned(ref).items():
        yield name, [(method.qualname, ast.dump(value)) for method, value in sites]


def _digest_of(items: Iterable[object]) -> str:
    return digest_of("\n".join(map(repr, items)).encode(errors="surrogateescape"))[:16]
