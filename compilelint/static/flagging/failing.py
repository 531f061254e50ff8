"""What runs only after something has gone wrong: an operation that fails on a device, a check that ends in an error."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.static.flagging.view import FrameView
from compilelint.static.project.definitions import ClassRef
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Function, options

_ANSWERS = frozenset(
    (
        "ImportError ModuleNotFoundError KeyError IndexError LookupError AttributeError NameError StopIteration "
        "NotImplementedError TypeError ValueError ZeroDivisionError"
    ).split()
)
"""Exceptions that code asks with: whether a library is there, an object has an attribute, a dict a key."""
_EXITS = frozenset({"sys.exit", "os._exit", "os.abort", "exit", "quit"})


def is_after_failure(node: ast.AST, view: FrameView) -> bool:
    """Whether a node only runs where the call comes to nothing, or an operation failed on a device."""
    return _ends_the_run(node, view) or _is_in_handler(node, view)


def may_not_fail(node: ast.AST, view: FrameView) -> bool:
    """Whether a node stands in a handler of errors that the body of its `try` need not raise.

    Measured on torch 2.13: a handler that is not entered is in no graph, whatever it prints.
    """
    below = node
    for parent in view.parents(node):
        body = parent.body if isinstance(below, ast.ExceptHandler) and isinstance(parent, ast.Try) else None
        if body is not None and not any(isinstance(statement, ast.Raise) for statement in body):
            return True
        below = parent
    return False


def _ends_the_run(node: ast.AST, view: FrameView) -> bool:
    """Whether a node stands in a branch, before what ends the run: `if bad: print(x); raise …` or `sys.exit()`.

    What is raised in a `try` may be caught and go on.
    """
    below, found = node, False
    for parent in view.parents(node):
        if isinstance(parent, ast.Try) and below in parent.body and parent.handlers:
            return False
        if isinstance(parent, ast.If) and below is not parent.test:
            block = parent.body if below in parent.body else parent.orelse
            behind = block[block.index(below) + 1 :] if isinstance(below, ast.stmt) else []
            found = found or (bool(behind) and _is_end(behind[-1]) and not any(map(_may_leave, (below, *behind))))
        below = parent
    return found


def _may_leave(statement: ast.AST) -> bool:
    """Whether a statement may lead past those behind it without an error."""
    return any(isinstance(node, (ast.Return, ast.Break, ast.Continue)) for node in nodes_in(statement))


def _is_end(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise):
        return True
    called = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(called, ast.Call) and ast.unparse(called.func) in _EXITS


def _is_in_handler(node: ast.AST, view: FrameView) -> bool:
    """Whether a node stands in a handler of errors of any sort, or of those of a device, that the `try` does not raise.

    `except RuntimeError:` is for what fails on a GPU. Measured on torch 2.13: where the body compiles, the handler is
    in no graph and costs nothing, and where the body breaks, all of the frame runs uncompiled. What code raises itself
    is traced into the handler, also out of a function that is called: a break there leaves no graph.
    """
    below = node
    for parent in view.parents(node):
        if isinstance(below, ast.ExceptHandler) and isinstance(parent, ast.Try) and not _may_raise(parent):
            caught = list(_caught(below))
            if not any(_may_be_an_answer(kind, view) for kind in caught) and not _called_raises(parent, caught, view):
                return True
        below = parent
    return False


def _caught(handler: ast.ExceptHandler) -> Iterator[ast.expr]:
    """The exceptions that a handler names; none where it takes all."""
    if handler.type is not None:
        yield from handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]


def _may_be_an_answer(kind: ast.expr, view: FrameView) -> bool:
    """Whether an exception is one that code asks with, or one of the project's own, which only a `raise` gives."""
    if _last_name(kind) in _ANSWERS:
        return True
    return isinstance(view.frame.tracer.program.dotted(kind, view.frame.module), ClassRef)


def _may_raise(node: ast.Try) -> bool:
    """Whether the `try` itself raises an error, or imports what may be missing."""
    raising = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
    return any(isinstance(inner, raising) for s in node.body for inner in nodes_in(s))


def _called_raises(node: ast.Try, caught: list[ast.expr], view: FrameView) -> bool:
    """Whether a function that the `try` calls raises what a handler names. To one of any error it is a failure."""
    names = {_last_name(kind) for kind in caught} - {"Exception", "BaseException"}
    calls = (inner for s in node.body for inner in nodes_in(s) if names and isinstance(inner, ast.Call))
    return any(
        _raised(part) in names
        for call in calls
        for called in options(view.kind(call.func))
        if isinstance(called, Function)
        for part in nodes_in(view.definition(called))
    )


def _raised(node: ast.AST) -> str:
    if isinstance(node, ast.Assert):
        return "AssertionError"
    return _last_name(node.exc) if isinstance(node, ast.Raise) and node.exc is not None else ""


def _last_name(kind: ast.expr) -> str:
    return ast.unparse(kind.func if isinstance(kind, ast.Call) else kind).rpartition(".")[2]
