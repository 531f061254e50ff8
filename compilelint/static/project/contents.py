"""What a file defines, and where it speaks of compilation."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from compilelint.static.project.compiled_names import compiled_by
from compilelint.static.project.definitions import ClassRef, FunctionRef, class_members, function_ref
from compilelint.static.project.index import FunctionNode, Import, ModuleIndex

HEAD_LINES = 8
"""Where a file says what it was generated from."""


def classes(module: ModuleIndex) -> Iterator[ClassRef]:
    """Every class at module level, or under an `if` or `try` there."""
    for node in _definitions(module.tree.body):
        if isinstance(node, ast.ClassDef):
            yield ClassRef(module.name, node.name, node)


def functions(module: ModuleIndex) -> Iterator[FunctionRef]:
    """Every function at module level and every method of the classes there."""
    for node in _definitions(module.tree.body):
        if isinstance(node, ast.ClassDef):
            for member in class_members(ClassRef(module.name, node.name, node)).values():
                if isinstance(member, FunctionRef):
                    yield member
        else:
            yield function_ref(module.name, "", node)


def _definitions(body: list[ast.stmt]) -> Iterator[FunctionNode | ast.ClassDef]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement
        elif isinstance(statement, (ast.If, ast.Try)):
            yield from _definitions([*statement.body, *statement.orelse])
            if isinstance(statement, ast.Try):
                yield from _definitions([inner for handler in statement.handlers for inner in handler.body])


def speaks_of_compile(module: ModuleIndex) -> bool:
    """Whether a file mentions compilation at all."""
    return bool(module.speaking)


def only_tests(module: ModuleIndex) -> bool:
    """Whether a file holds tests, named as pytest finds them, and does not mention compilation.

    The modules in it stand in for models, and its loops are as long as a test.
    """
    name = module.path.name
    if speaks_of_compile(module) or not (
        name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    ):
        return False
    tests = any(_is_test(node) for node in _definitions(module.tree.body))
    return tests or any(
        isinstance(to, Import) and to.module in ("pytest", "unittest") for to in module.bindings.values()
    )


_MEASURING = frozenset("bench benchmark benchmarks benchmarking profile profiling sweep test tests conftest".split())


def is_benchmark_or_test(path: Path) -> bool:
    """Whether a word in the name of a file, or the name of its folder, says that it tries something out."""
    return path.parent.name.lower() in _MEASURING or bool(_MEASURING.intersection(path.stem.lower().split("_")))


def _is_test(node: FunctionNode | ast.ClassDef) -> bool:
    """Whether pytest takes a definition for a test; of a class some method has to be one."""
    if isinstance(node, ast.ClassDef):
        return node.name.startswith("Test") and any(map(_is_test, _definitions(node.body)))
    return node.name.startswith("test")


def host_function(ref: FunctionRef, module: ModuleIndex) -> bool:
    """Whether a function's own text mentions compilation."""
    node = ref.node
    following = bisect_left(module.speaking, node.lineno)
    speaks = following < len(module.speaking) and module.speaking[following] <= (node.end_lineno or node.lineno)
    return speaks or compiled_by(node)
