"""The faster tree walk against the standard library's."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import compilelint
from compilelint.static.project.syntax import children, nodes_in

LEFT_OUT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
ODD = """\
global_names = {**a, "k": lambda x, *, y, z=1, **k: x}
def f(a, /, b: int = 1, *c, d, e=2, **g) -> None:
    global one, two
    with open(a) as b, c:
        async def inner():
            async for x in y:
                yield (await x)[1:2, ::3]
    try:
        import p.q as r; from . import s
    except (A, B) as error:
        raise error from None
    match a:
        case {"k": [1, *rest], **others} | Point(x=0, y=[_]) as whole if whole: pass
        case 1 | "t" | None | True: del a[0], b.c
    print(f"{a!r:>{width}}", not -a @ b, a < b <= c, [i for i in j if k], (n := 1), *c, sep="")
@decorated
class C(B, metaclass=M):
    x: int
    y: int = 1
"""
FILES = [*Path(compilelint.__file__).parent.rglob("*.py"), Path(ast.__file__)]


@pytest.mark.parametrize("text", [ODD, *(file.read_text(encoding="utf-8") for file in FILES)])
def test_the_same_nodes_in_the_same_order(text: str) -> None:
    tree = ast.parse(text)
    assert list(nodes_in(tree)) == [node for node in ast.walk(tree) if not isinstance(node, LEFT_OUT)]
    for node in nodes_in(tree):
        assert children(node) == [inner for inner in ast.iter_child_nodes(node) if not isinstance(inner, LEFT_OUT)]
