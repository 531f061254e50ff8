"""Trees without the bodies of functions that nothing has entered yet.

To find out what names mean, a unit reads hundreds of files, of which it enters few functions. A tree takes thirty bytes
for each byte of source, and bodies are most of it. One that is asked for after all is parsed again from its lines, with
the same positions. Constructors keep theirs: they are what is entered most, and say which attributes an object has.

Where the bodies of a file are known from another time (its *outline*), they are not parsed at all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar

Node = TypeVar("Node", bound=ast.AST)
Outline: TypeAlias = list[tuple[int, int, int, int]]
"""The bodies of a file that take several lines: first line, column, last line, last column, as in its tree."""


class WithoutBody(ast.FunctionDef):
    """A function whose body is parsed when it is first asked for; from then on it is a plain one."""

    __slots__ = ()
    written: list[str]
    """The lines of its file."""
    begins: tuple[int, int]
    """The first line and the column of its body."""

    def __getattr__(self, name: str) -> Any:
        if name != "body":
            raise AttributeError(name)
        body = _parsed(self)
        del self.written, self.begins
        self.__class__ = ast.FunctionDef  # type: ignore[assignment]
        self.body = body
        return body


WithoutBody.__name__ = ast.FunctionDef.__name__  # what `ast.dump` and visitors go by


def leave_out_bodies(tree: ast.Module, lines: list[str]) -> Outline:
    """Drop the bodies of a file's functions and of its classes' methods; `lines` are those of the file."""
    outline: Outline = []
    for node in _functions(tree):
        if node.name != "__init__" and not lines[node.lineno - 1][: node.col_offset].strip(" \t"):
            begins = start_of_body(node)
            last, end = node.end_lineno or begins[0], node.end_col_offset or 0
            if last > begins[0]:
                outline.append((*begins, last, end))
            del node.body
            node.__class__ = WithoutBody
            node.written = lines  # type: ignore[attr-defined]
            node.begins = begins  # type: ignore[attr-defined]
    return outline


def shortened(lines: list[str], outline: Outline) -> str:
    """A file's text with an empty tuple over as many lines in place of each body: all else is parsed as it was."""
    found = [*lines]
    for begins, column, last, end in outline:
        found[begins - 1] = f"{lines[begins - 1].encode(errors='surrogatepass')[:column].decode()}("
        found[begins : last - 1] = [""] * (last - 1 - begins)
        found[last - 1] = f"{' ' * (end - 1)})"
    return "\n".join(found)


def start_of_body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """The first line of a function's body, that of a decorator where it begins with one, and the column there."""
    if isinstance(node, WithoutBody):
        return node.begins
    first = node.body[0]
    decorators: list[ast.expr] = getattr(first, "decorator_list", [])
    return min([first.lineno, *(decorator.lineno for decorator in decorators)]), first.col_offset


def fill_in_bodies(tree: ast.Module) -> None:
    """Undo what `leave_out_bodies` did."""
    for node in _functions(tree):
        _ = node.body


def with_body(node: Node) -> Node:
    """A node for one look at it: if it is a function without its body, a copy that has one."""
    if not isinstance(node, WithoutBody):
        return node
    whole = ast.FunctionDef(**{field: getattr(node, field) for field in node._fields if field != "body"})
    whole.body = _parsed(node)
    return ast.copy_location(whole, node)  # type: ignore[return-value]


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for statement in tree.body:
        for node in statement.body if isinstance(statement, ast.ClassDef) else (statement,):
            if isinstance(node, ast.FunctionDef):
                yield node


def _parsed(node: WithoutBody) -> list[ast.stmt]:
    text = "\n".join(node.written[node.lineno - 1 : node.end_lineno])
    if node.col_offset == 0:
        function: Any = ast.parse("\n" * (node.lineno - 1) + text).body[0]
    else:
        around: Any = ast.parse("\n" * (node.lineno - 2) + "if True:\n" + text).body[0]
        function = around.body[0]
    body: list[ast.stmt] = function.body
    return body
