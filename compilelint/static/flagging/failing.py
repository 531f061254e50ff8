"""What runs only after something has gone wrong, which Dynamo never traces: tracing an operation raises no error."""

from __future__ import annotations

import ast

from compilelint.static.flagging.view import FrameView
from compilelint.static.project.syntax import nodes_in

_ANSWERS = frozenset(
    (
        "ImportError ModuleNotFoundError KeyError IndexError LookupError AttributeError NameError StopIteration "
        "NotImplementedError TypeError ValueError"
    ).split()
)
"""Exceptions that code asks with: whether a library is there, an object has an attribute, a dict a key."""


def is_after_failure(node: ast.AST, view: FrameView) -> bool:
    """Whether a node stands in a handler of errors of any sort, or of those of a device, that the `try` does not raise.

    `except RuntimeError:` is for what fails on a GPU. Measured on torch 2.13: where the body compiles, the handler is
    in no graph and costs nothing, and where the body breaks, all of the frame runs uncompiled.
    """
    below = node
    for parent in view.parents(node):
        of_any_sort = isinstance(below, ast.ExceptHandler) and not _may_be_an_answer(below)
        if of_any_sort and isinstance(parent, ast.Try) and not _may_raise(parent):
            return True
        below = parent
    return False


def _may_be_an_answer(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is not None and ast.unparse(kind).rpartition(".")[2] in _ANSWERS for kind in caught)


def _may_raise(node: ast.Try) -> bool:
    """Whether the `try` itself raises an error, or imports what may be missing."""
    return any(isinstance(inner, (ast.Raise, ast.Import, ast.ImportFrom)) for s in node.body for inner in nodes_in(s))
