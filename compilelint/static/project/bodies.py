"""Trees without the bodies of functions that nothing has entered yet.

To find out what names mean, a unit reads hundreds of files, of which it enters few functions. A tree takes thirty bytes
for each byte of source, and bodies are most of it. One that is asked for after all is parsed again from its lines, with
the same positions. Constructors keep theirs: they are what is entered most, and say which attributes an object has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy
from typing import Any


class WithoutBody(ast.FunctionDef):
    """A function whose body is parsed when it is first asked for; from then on it is a plain one."""

    __slots__ = ()
    written: list[str]
    """The lines of its file."""

    def __getattr__(self, name: str) -> Any:
        if name != "body":
            raise AttributeError(name)
        body = _parsed(self)
        del self.written
        self.__class__ = ast.FunctionDef  # type: ignore[assignment]
        self.body = body
        return body


WithoutBody.__name__ = ast.FunctionDef.__name__  # what `ast.dump` and visitors go by


def leave_out_bodies(tree: ast.Module, lines: list[str]) -> None:
    """Drop the bodies of a file's functions and of its classes' methods; `lines` are those of the file."""
    for node in _functions(tree):
        if node.name != "__init__" and not lines[node.lineno - 1][: node.col_offset].strip(" \t"):
            del node.body
            node.__class__ = WithoutBody
            node.written = lines  # type: ignore[attr-defined]


def fill_in_bodies(tree: ast.Module) -> None:
    """Undo what `leave_out_bodies` did."""
    for node in _functions(tree):
        _ = node.body


def with_body(node: ast.AST) -> ast.AST:
    """A node for one look at it: if it is a function without its body, a copy that has one."""
    if not isinstance(node, WithoutBody):
        return node
    whole = ast.FunctionDef(**{field: getattr(node, field) for field in node._fields if field != "body"})
    whole.body = _parsed(node)
    return ast.copy_location(whole, node)


def with_bodies(tree: ast.Module) -> ast.Module:
    """A file's tree for one look at it, see `with_body`."""
    whole = copy(tree)
    whole.body = [_with_methods(statement) for statement in tree.body]
    return whole


def _with_methods(statement: ast.stmt) -> Any:
    if not isinstance(statement, ast.ClassDef):
        return with_body(statement)
    whole = copy(statement)
    whole.body = [_with_methods(inner) for inner in statement.body]
    return whole


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
