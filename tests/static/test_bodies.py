"""Trees without bodies: what is asked of them is answered as if they had them, and asking a little keeps little."""

from __future__ import annotations

import ast
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from compilelint.static.project.answers import about_file, answers_of
from compilelint.static.project.bodies import WithoutBody, fill_in_bodies, leave_out_bodies, with_body
from compilelint.static.project.definitions import ClassRef, assigned, assigned_from_outside, constructed_in
from compilelint.static.project.index import ModuleIndex, index_source
from compilelint.static.project.parts import CODE, SURFACE, Parts
from compilelint.static.project.syntax import nodes_in, statements_in

SOURCES = {
    "methods": "class A(B):\n    '''Text.'''\n    def f(self):\n        return 1\n\n    @wrap\n    def g(self): ...",
    "tabs": "class A:\n\tdef f(self):\n\t\tif x:\n\t\t\treturn 1",
    "text over lines": "def f():\n    '''One\n\ntwo'''\n    return f'''{a}\n  {b}'''",
    "letters of several bytes": "class Ä:\n    def ö(self, ü='ß'): return 'é', ü",
    "a form feed": "x = 1\n\x0cdef f():\n    return 1\nclass A:\n\x0c    def g(self):\n        return 2",
    "functions in functions": "def f(a: int = 3) -> int:\n    async def g():\n        await h()\n    return lambda: g",
    "under an if": "if x:\n    def f():\n        return 1\nelse:\n    class A:\n        def g(self): ...",
    "classes in classes": "class A:\n    class B:\n        def f(self):\n            return 1\n    def g(self): ...",
    "no end of line": "async def f(): pass\ndef g(): pass",
    "lines joined": "def f(a, \\\n    b):\n    return a + \\\n        b",
}


def thin(source: str) -> ModuleIndex:
    module = index_source(Path("mod.py"), "mod", False, source)
    leave_out_bodies(module.tree, module.lines)
    return module


def with_bodies(tree: ast.Module) -> ast.Module:
    """A file's tree as looks at each of its functions see it."""
    whole = copy(tree)
    whole.body = [_with_methods(statement) for statement in tree.body]
    return whole


def _with_methods(statement: ast.stmt) -> Any:
    if not isinstance(statement, ast.ClassDef):
        return with_body(statement)
    whole = copy(statement)
    whole.body = [_with_methods(inner) for inner in statement.body]
    return whole


def left_out(tree: ast.Module) -> list[str]:
    """The names of the functions that have no body now."""
    blocks = [tree.body, *(statement.body for statement in tree.body if isinstance(statement, ast.ClassDef))]
    return [node.name for block in blocks for node in block if isinstance(node, WithoutBody)]


def dumped(tree: ast.AST) -> str:
    return ast.dump(tree, include_attributes=True)


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
def test_what_is_parsed_again_is_what_was_parsed(source: str) -> None:
    before = dumped(ast.parse(source))
    looked, walked, filled = thin(source).tree, thin(source).tree, thin(source).tree
    assert dumped(with_bodies(looked)) == before
    assert [type(node) for node in nodes_in(walked)] == [type(node) for node in nodes_in(ast.parse(source))]
    fill_in_bodies(filled)
    assert dumped(filled) == before
    assert left_out(filled) == left_out(walked) == []


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
def test_with_an_outline_all_but_bodies_is_parsed_as_it_was(source: str) -> None:
    whole = index_source(Path("mod.py"), "mod", False, source)
    before = dumped(whole.tree)
    outline = leave_out_bodies(whole.tree, whole.lines)
    outlined = index_source(Path("mod.py"), "mod", False, source, outline)
    assert dumped(outlined.tree) == before if not outline else "Tuple" in dumped(outlined.tree)
    assert leave_out_bodies(outlined.tree, outlined.lines) == outline
    assert left_out(outlined.tree) == left_out(whole.tree)
    fill_in_bodies(outlined.tree)
    assert dumped(outlined.tree) == before


def test_a_look_keeps_nothing() -> None:
    module = thin(
        "class A:\n    def __init__(self):\n        self.x = 1\n    def f(self):\n        self.y = 2\ndef g(): ..."
    )
    assert left_out(module.tree) == ["g", "f"]
    assert len(with_bodies(module.tree).body) == 2
    assert left_out(module.tree) == ["g", "f"]
    assert len(statements_in(module.tree.body[1])) == 2
    assert left_out(module.tree) == ["f"]


CLASSES = """
class Cache:
    def __init__(self, size): self.size = size
    def fill(self, other):
        self.rows = [other.size]
        a, self.pair = 1, 2
        b = self.chained = 3
        (
            self.first,
            self.second,
        ) = 4, 5
        if other: self.inline = 6
        self.table[other == 1] = 7
        self.typed: int = 8
        self.call(size=9).rest = 9
        if self.size == 10: other.size = self.size
    def read(self): return self.size == 3

def build(net, deep):
    net.cache = Cache(3)
    for block in net.blocks:
        block.cache, block.size = None, Cache (4)
        class Inner:
            def run(self): return Cache(5)
    deep.inner.cache = other = net.cache
    @decorated(Cache(6))
    def late(cache=Cache(7)): net.cached = Cache
"""


def told(module: ModuleIndex) -> list[object]:
    """What a file answers to the questions of its classes."""
    node = next(statement for statement in module.tree.body if isinstance(statement, ast.ClassDef))
    ref = ClassRef("mod", "Cache", node)
    outside = {name: assigned_from_outside(module, name) for name in ("cache", "size", "rest", "cached", "rows", "net")}
    return [
        {name: [(method.qualname, dumped(value)) for method, value in sites] for name, sites in assigned(ref).items()},
        {name: [dumped(value) for value in values] for name, values in outside.items()},
        [(dumped(call), getattr(scope, "name", "")) for call, scope in constructed_in(module, "Cache")],
    ]


def test_questions_that_go_by_the_text_find_what_the_tree_has() -> None:
    whole, without = index_source(Path("mod.py"), "mod", False, CLASSES), thin(CLASSES)
    assert told(without) == told(whole)
    attributes, outside, constructed = told(whole)
    expected = "size rows pair chained first second table[] typed inline"
    assert isinstance(attributes, dict) and list(attributes) == expected.split()
    assert isinstance(outside, dict)
    assert {name: len(values) for name, values in outside.items()} == {
        **{"cache": 3, "size": 2, "rest": 1, "cached": 1},
        **{"rows": 0, "net": 0},
    }
    assert isinstance(constructed, list)
    assert [scope for _, scope in constructed] == ["build", "build", "run", "late", "late"]


@pytest.mark.parametrize("source", [*SOURCES.values(), CLASSES])
def test_parts_are_the_same_without_bodies(source: str) -> None:
    whole, without = Parts(index_source(Path("mod.py"), "mod", False, source)), Parts(thin(source))
    for part in (SURFACE, CODE, "outside cache", "body f", "body A.f", "body Cache.fill", "assigned Cache", "class A"):
        assert without.digest(part, lambda *_: "") == whole.digest(part, lambda *_: "")
    assert [without.anchor(line) for line in range(40)] == [whole.anchor(line) for line in range(40)]


@about_file(frozenset())
def functions_named(module: ast.Module) -> frozenset[str]:
    """Stands for a question of some rule."""
    ASKED.append(module)
    return frozenset(node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef))


@about_file({})
def functions_found(module: ast.Module) -> dict[str, ast.FunctionDef]:
    """One whose answers hold syntax."""
    ASKED.append(module)
    return {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}


ASKED: list[ast.Module] = []


def test_answers_that_are_names_or_nothing_are_known_of_another_tree_of_the_file() -> None:
    for text in ("def f(): pass", "x = 1"):
        first, second = ast.parse(text), ast.parse(text)
        answers = functions_named(first), functions_found(first)
        answers_of(second).update(answers_of(first))
        ASKED.clear()
        assert (functions_named(second), functions_found(second).keys()) == (answers[0], answers[1].keys())
        assert len(ASKED) == len(answers[1])  # what holds syntax belongs to its tree
