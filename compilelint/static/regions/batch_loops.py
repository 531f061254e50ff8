"""Loops that call what their file compiles once a turn and feed nothing back: they train, validate or serve."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from compilelint.static.project.compiled_names import called_name, compiled_names, is_compiled
from compilelint.static.project.contents import speaks_of_compile
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.project.index import FunctionNode, ModuleIndex
from compilelint.static.project.syntax import children, nodes_in, statements_in

_TRIED_OUT = frozenset("bench benchmark profile measure warm warmup test tests check compare verify debug demo".split())
"""Words in the names of functions that call a model to look at it, and so read what it gives."""
_NO_NAMES = frozenset({"", "forward", "__init__", "__call__", "main"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def batch_loops(
    ref: FunctionRef, module: ModuleIndex, decoding: list[ast.For | ast.While]
) -> list[ast.For | ast.While]:
    """The innermost loops of a function around a call of what its file compiles; none of `decoding`, or within one.

    What stands in a loop around these runs once per epoch.
    """
    if isinstance(ref.node, ast.Lambda) or ref.node.name == "forward" or not speaks_of_compile(module):
        return []
    if _tries_out(ref.node.name) or not (steps := _steps(module.tree)):
        return []
    apart = {node for loop in decoding for node in nodes_in(loop)}
    loops = [node for node in statements_in(ref.node) if isinstance(node, (ast.For, ast.While)) and node not in apart]
    tree, function = module.tree, ref.node
    return [loop for loop in loops if any(_is_step(node, steps, function, tree) for node in _on_each_turn(loop))]


def calls_compiled(loop: ast.For | ast.While, function: ast.AST, tree: ast.Module) -> bool:
    """Whether a loop of `function` calls, on its turns or in a loop within, what the file compiles or what does so."""
    steps = _steps(tree)
    return any(_is_step(node, steps, function, tree) for node in nodes_in(loop))


def _on_each_turn(loop: ast.For | ast.While) -> Iterator[ast.AST]:
    """The nodes of a loop's body but those that run once per turn of a loop in it, or in a function that it defines."""
    pending: list[ast.AST] = list(loop.body)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (ast.For, ast.AsyncFor)):
            pending.append(node.iter)
        elif not isinstance(node, (ast.While, *_FUNCTIONS)):
            pending += children(node)


@cache
def _steps(tree: ast.Module) -> frozenset[str]:
    """What a file compiles, and its functions that take one step by calling that, through others of them as well."""
    functions = [node for node in statements_in(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    candidates = [f for f in functions if f.name not in _NO_NAMES and not _tries_out(f.name)]
    compiled = compiled_names(tree) - _NO_NAMES
    found: set[str] = set()
    while more := {
        function.name
        for function in candidates
        if function.name not in found
        and any(_is_step(node, found, function, tree) for node in _outside_loops(function))
    }:
        found |= more
    whole = {f.name for f in candidates if any(_is_step(n, found, f, tree) for n in _in_loops(f))}
    return compiled | (found - whole)


def _in_loops(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function that run once per turn of a loop in it: of one with a step it does an epoch."""
    for loop in statements_in(function):
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
            for statement in loop.body:
                yield from nodes_in(statement)


def _outside_loops(function: FunctionNode) -> Iterator[ast.AST]:
    """The nodes of a function that run once when it is called."""
    pending: list[ast.AST] = [] if isinstance(function, ast.Lambda) else list(function.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (ast.For, ast.AsyncFor, ast.While, *_FUNCTIONS)):
            pending += children(node)


def _is_step(node: ast.AST, steps: set[str] | frozenset[str], function: ast.AST, tree: ast.Module) -> bool:
    """Whether a node of a function calls what the file compiles, by its name, or one of `steps`, alone or on `self`."""
    if not isinstance(node, ast.Call):
        return False
    name = called_name(node.func)
    if name not in _NO_NAMES and is_compiled(node.func, function, tree):
        return True
    return name in steps and (isinstance(node.func, ast.Name) or ast.unparse(node.func) == f"self.{name}")


def _tries_out(name: str) -> bool:
    return bool(_TRIED_OUT & set(name.lower().split("_")))
