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
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module

from compilelint.static.project import contents
from compilelint.static.project.bindings import makers_of
from compilelint.static.project.bodies import start_of_body, with_body
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
    """The parts of one parsed file. Lines are 1-based. `known` are digests of parts of a file with this content."""

    def __init__(self, module: ModuleIndex, known: Mapping[str, str] | None = None) -> None:
        self._module = module
        self._functions = list(_numbered(_functions(module.tree.body, "")))
        self._first_lines = [first_line(node) for _, node in self._functions]
        self._names = {(node.lineno, node.col_offset): name for name, node in self._functions}
        self._digests = dict(known or {})
        self._laid_out: dict[str, list[int]] = {}

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
        part = self._owners[line] if 0 < line < len(self._owners) else SURFACE
        lines = self._lines(part)
        number = bisect_left(lines, line)
        return (part, number) if lines[number : number + 1] == [line] else None

    def line(self, anchor: Anchor) -> int:
        """The line that an anchor means now. Raises LookupError where it means none."""
        part, number = anchor
        return self._lines(part)[number]

    def _digest(self, part: str) -> str:
        sort, _, name = part.partition(" ")
        if part == STARTS:
            return _digest_of(_starts(self._module))
        if part == HEAD:
            return _digest_of(self._module.lines[: contents.HEAD_LINES])
        if sort == OUTSIDE:
            return _digest_of(map(ast.dump, assigned_from_outside(self._module, name)))
        if sort == "class":
            return _digest_of([self._digest(body) for body in self._bodies if body.startswith(f"body {name}.")])
        if part == CODE:
            return _digest_of([(inner, self._digest(inner)) for inner in (SURFACE, *self._bodies)])
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
        if part != SURFACE and part not in self._bodies:
            return ""
        return _digest_of([self._small(part), *(self._module.lines[line - 1] for line in self._lines(part))])

    @cached_property
    def _bodies(self) -> dict[str, tuple[FunctionNode, range]]:
        """Each body with its function and the lines that it stands on; none where it begins amid a line."""
        found: dict[str, tuple[FunctionNode, range]] = {}
        for name, node in self._functions:
            first, column = start_of_body(node)
            amid = self._module.lines[first - 1].encode()[:column].strip() != b""
            found[f"body {name}"] = node, range(0) if amid else range(first, (node.end_lineno or first) + 1)
        return found

    @cached_property
    def _owners(self) -> list[str]:
        """The part of each line, from 1."""
        owners = [SURFACE] * (len(self._module.lines) + 1)
        for part, (_, lines) in self._bodies.items():
            owners[lines.start : lines.stop] = [part] * len(lines)
        return owners

    def _lines(self, part: str) -> list[int]:
        """The lines of the surface or of a body, in order: those that a statement holds, whatever is in them, and those
        between statements with more than a comment. Raises LookupError where there is no such part."""
        if part not in self._laid_out:
            if part == SURFACE:
                within, pieces = range(1, len(self._owners)), _pieces(self._module.tree.body, self._is_apart)
            else:
                node, within = self._bodies[part]
                pieces = _pieces(with_body(node).body)
            held = {line for first, last, _ in pieces for line in range(first, last + 1)}
            own = (line for line in within if self._owners[line] == part)
            self._laid_out[part] = [line for line in own if line in held or self._holds_code(line)]
        return self._laid_out[part]

    def _holds_code(self, line: int) -> bool:
        bare = self._module.lines[line - 1].strip()
        return bool(bare) and not bare.startswith("#")

    def _is_apart(self, node: ast.stmt) -> bool:
        """Whether a statement is a function whose body has lines of its own."""
        return (node.lineno, node.col_offset) in self._apart

    @cached_property
    def _apart(self) -> set[tuple[int, int]]:
        return {(node.lineno, node.col_offset) for node, lines in self._bodies.values() if lines}

    def _small(self, part: str) -> list[bool]:
        """Which of the functions in a body, and the one that it is of, are small: a comment may make one large."""
        if part == SURFACE:
            return []
        statements = (statement for _, _, statement in _pieces([self._bodies[part][0]]))
        return [is_small(node) for node in statements if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


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


def _pieces(
    body: Iterable[ast.stmt], is_apart: Callable[[ast.stmt], bool] = lambda _: False
) -> Iterator[tuple[int, int, ast.stmt]]:
    """First and last line of every statement in `body`, at any depth, of its headers where it holds others.

    What is in functions that are apart is left out.
    """
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_apart(statement):
            yield first_line(statement), start_of_body(statement)[0] - 1, statement
            continue
        blocks = list(_blocks(with_body(statement)))
        if not blocks:
            yield first_line(statement), statement.end_lineno or statement.lineno, statement
        for block, header in blocks:
            if header:
                yield header, first_line(block[0]) - 1, statement
            yield from _pieces(block, is_apart)


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
