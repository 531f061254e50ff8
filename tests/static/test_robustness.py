"""Code that is deep, circular, huge or odd is walked to its end; a mistake in one file costs that file only."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from projects import check, probe, probe_paths, write

from compilelint.config import Settings
from compilelint.model import RuleCard
from compilelint.rule import Hit, Rule, View, Watch
from compilelint.static import lint
from compilelint.static.tracer.frame import MAX_DEPTH

STEP = "@torch.compile\ndef step(x):\n"

CIRCLES = {
    "a function calls itself": "def f(x): return f(x + 1)\n" + STEP + "    probe(f(x))",
    "functions call each other": "def f(x): return g(x)\ndef g(x): return f(x)\n" + STEP + "    probe(f(x))",
    "a growing argument": "def f(x): return f([x])\n" + STEP + "    probe(f(x))",
    "a doubling argument": "def f(x): return f((x, x))\n" + STEP + "    probe(f(x))",
    "a growing constant": "def f(x, n=1): return f(x, n + 1)\n" + STEP + "    probe(f(x))",
    "a growing closure": "def f(g): return f(lambda: g)\n" + STEP + "    probe(f(x))",
    "a growing partial": "import functools\ndef f(g): return f(functools.partial(g, g))\n" + STEP + "    probe(f(f))",
    "a growing object": "class C:\n    def __init__(self, c): self.c = C(self)\n" + STEP + "    probe(C(x).c.c.c)",
    "an object in itself": "class C:\n    def __init__(self): self.c = self\n" + STEP + "    probe(C().c.c.c)",
    "a list in itself": STEP + "    a = [x]\n    for _ in x:\n        a.append(a)\n        a = [a, a]\n    probe(a)",
    "a dict in itself": STEP + "    a = {}\n    for i in x:\n        a[i] = a\n        a = {'a': a}\n    probe(a)",
    "a name of itself": "a = a\nb = c\nc = b\n" + STEP + "    probe((a, b))",
    "a class of itself": "class C(C): pass\nclass D(E): pass\nclass E(D): pass\n" + STEP + "    probe((C(), D()))",
    "a decorator of itself": "@f\ndef f(g): return g\n" + STEP + "    probe(f(f))",
    "decorators of each other": "@g\ndef f(h): return h\n@f\ndef g(h): return h\n" + STEP + "    probe(f(g))",
    "a property of itself": "class C:\n    @property\n    def p(self): return self.p\n" + STEP + "    probe(C().p)",
    "a default of itself": "def f(x=f): return x\n" + STEP + "    probe(f())",
    "an annotation of itself": "A = 'A'\ndef f(x: A) -> 'f': return x\n" + STEP + "    probe(f(x))",
    "an alias of itself": "from typing import List\nA = List['A']\n@torch.compile\ndef f(x: A): probe(x)",
    "a generator of itself": "def f(): yield from f()\n" + STEP + "    probe(list(f()))",
    "an iterator of itself": "class C:\n    def __iter__(self): return iter(self)\n" + STEP + "    probe(list(C()))",
    "a context of itself": "class C:\n    def __enter__(self):\n        with self as c: return c\n"
    "    def __exit__(self, *a): pass\n" + STEP + "    with C() as c: probe(c)",
    "a module in itself": "class M(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.m = M()\n    def forward(self, x):\n        probe(x)\n        return self.m(x)",
    "a hook that registers itself": "class M(torch.nn.Module):\n    def forward(self, x):\n"
    "        self.register_forward_hook(self.forward)\n        probe(x)",
    "torch.compile of itself": "def f(x):\n    probe(x)\n    return torch.compile(f)(x)\nf = torch.compile(f)",
}


@pytest.mark.parametrize("name", CIRCLES)
def test_circles_end(name: str) -> None:
    seen = probe("import torch\n" + CIRCLES[name])
    assert seen.sightings
    assert not seen.failures


def test_imports_in_circles_end() -> None:
    text = "import torch\nfrom {0} import *\nfrom {0} import f as g\n" + STEP.replace("step", "f") + "    probe(g(x))"
    seen = probe({"a.py": text.format("b"), "b.py": text.format("a")})
    assert {finding.path for finding in seen.findings} == {"a.py", "b.py"}


def test_long_chains_of_calls_are_followed_to_a_bound() -> None:
    chain = "".join(f"def f{i}(x):\n    probe(x)\n    return f{i + 1}(x)\n" for i in range(500))
    seen = probe(f"import torch\n{chain}def f500(x): return x\n{STEP}    return f0(x)")
    assert not seen.failures
    assert len(seen.functions()) == MAX_DEPTH


@pytest.mark.parametrize(
    "expression",
    [
        "x" + ".sin()" * 1000,
        " + ".join(["x"] * 3000),
        "(" * 80 + "x" + ",)" * 80,
        "[" * 80 + "x" + "]" * 80,
        "x" + "[0]" * 80,
        "f(" * 80 + "x" + ")" * 80,
        "x if x.shape else " * 80 + "x",
        "lambda: " * 80 + "x",
        "not " * 80 + "x",
        " and ".join(["x"] * 3000),
        "{" + ", ".join(f"{i}: x" for i in range(3000)) + "}",
    ],
)
def test_deep_and_wide_expressions(expression: str) -> None:
    seen = probe(f"import torch\ndef f(x): return x\n{STEP}    probe({expression})")
    assert len(seen.findings) == 1
    assert not seen.failures


def test_a_function_of_thousands_of_lines() -> None:
    """What a value costs must not grow with what was seen before it: 5,000 lines, 500 branches, one list."""
    lines = ["import torch", "@torch.compile", "def step(x, n=3):", "    out = []"]
    for i in range(500):
        lines += [
            f"    if n > {i}:",
            f"        v{i} = torch.sin(x) * {i}",
            "    else:",
            f"        v{i} = None",
            f"    if v{i} is not None:",
            f"        out.append(v{i})",
            "    for k in range(n):",
            f"        x = x + {i}",
            "    y = {'a': x, 'b': out}",
            "    x = y['a'].clone()",
        ]
    seen = probe("\n".join([*lines, "    probe(out)"]))
    assert seen.kinds() == {"a list of a tensor of float"}


@pytest.mark.parametrize("line", ["x = x + {}", "v{0} = x * {0}", "if y > {0}: x = x + {0}", "self.a{0} = x"])
def test_a_function_twice_as_long_costs_twice_as_much(line: str) -> None:
    # The rules are asked once before, so that what they load and keep for each process is in neither.
    _, short, long = (calls_to_lint([line.format(number) for number in range(lines)]) for lines in (9, 300, 600))
    assert long < 2.5 * short


def test_a_sum_of_twice_as_many_terms_costs_twice_as_much() -> None:
    _, short, long = (calls_to_lint([f"x = {' + '.join(['y'] * terms)}"]) for terms in (9, 200, 400))
    assert long < 2.5 * short


def calls_to_lint(lines: list[str]) -> int:
    """How many functions are called to lint a model with these lines in its `forward`."""
    body = ["import torch", "class Model(torch.nn.Module):", "    def forward(self, x, y):"]
    paths = write({"long.py": "\n".join([*body, *[f"        {line}" for line in lines], "        return x"])})
    called = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal called
        called += event == "call"

    threading.setprofile(count)
    try:
        assert not lint(paths, Settings(root=Path.cwd())).failures
    finally:
        threading.setprofile(None)
    return called


def test_many_loops_in_each_other() -> None:
    """Each pass over a loop walks the loops in it; eight levels are 256 passes over the innermost body."""
    loops = "".join(f"{'    ' * (i + 1)}for i{i} in range(n):\n" for i in range(8))
    seen = probe(f"import torch\n@torch.compile\ndef step(x, n=3):\n{loops}{'    ' * 9}x = probe(x) or x")
    assert len(seen.findings) == 1


ODD = {
    "match": "match x:\n        case [a, *_] | (a, _): pass\n        case {'k': v, **r}: pass\n"
    "        case C(b=c): pass\n        case None | True: pass\n        case str() as s if s: pass\n"
    "        case _: pass",
    "walrus": "if (n := x) is not None and (m := n): pass\n    [y := 1, (z := y)]\n    while (w := x): break",
    "stars": "a, *b = *x, *[x]\n    [*a, *b]\n    {**x, 'a': 1}\n    f(*a, **b)\n    x[*a]"
    if sys.version_info >= (3, 11)
    else "a, *b = *x, *[x]",
    "deletes": "del x.a, x[0], x",
    "globals": "global a, b\n    a = b = x\n    a += 1",
    "a slice": "x[..., None, 1:, ::-1, :x]",
    "f-strings": "f'{x!r:>{x}} {x=} {{}}'",
    "chained": "a = b = x < x <= x in x is not x",
    "numbers": "1j + 0x_f + 1e999 - 10 ** 100 // 0 % 0",
    "huge constants": "[0] * 10**9\n    'a' * 10**9\n    2 ** 10**9\n    (1,) * -1",
    "nothing": "pass; ...; 'text'; ()",
    "try": "try: pass\n    except (A, B) as e: raise C from e\n    except: pass\n    else: pass\n    finally: return",
    "loops": "for a, (b, *c) in x: continue\n    else: pass\n    while 0: pass\n    else: pass",
    "with": "with (x as a, x as (b, c), x): pass",
    "annotations": "a: int\n    b: 'not an annotation' = 1\n    c.d: x[0] = 2\n    (e): x = 3",
    "definitions": "class A(x, metaclass=x):\n        def f(self): super().f()\n"
    "    def g(a, /, b=x, *c, d, **e): yield\n    async def h():\n        async for i in x: await i\n"
    "        async with x: yield\n    lambda *a, **k: (a, k)",
    "super": "super().f\n    super(x, x).f()",
    "decorators": "@x.y(1)[0]\n    @(lambda f: f)\n    def f(): pass",
    "comprehensions": "[a for a in x for b in a if a if b]\n    {a: b for a, b in x}\n    (y async for y in x)",
    "assert": "assert (x, 'always'), x",
    "non-ASCII names": "größe = π = x\n    ｘ = größe",
}
NEWER = {
    "exception groups": ((3, 11), "try: pass\n    except* E as e: pass"),
    "type parameters": (
        (3, 12),
        "def f[T: int](a: T) -> T: return a\n    class C[**P, *Ts]: pass\n    type A[T] = list[T]",
    ),
    "quotes in f-strings": ((3, 12), "f'{x['a']}{'\\n'}'"),
    "defaults of type parameters": ((3, 13), "def f[T = int](a: T) -> T: return a"),
}


@pytest.mark.parametrize("name", [*ODD, *NEWER])
def test_odd_syntax(name: str) -> None:
    version, body = NEWER.get(name, ((3, 10), ODD.get(name, "")))
    if sys.version_info < version:
        pytest.skip("this Python does not parse it")
    text = f"import torch\nclass C: pass\n@torch.compile\nasync def step(x):\n    probe(x)\n    {body}\n"
    ast.parse(text)
    check(text)
    seen = probe(text)
    assert len(seen.findings) == 1
    assert not seen.failures


HAZARDS = (
    "t.max().item()",
    "t.tolist()",
    "int(t.sum()) + 1",
    "t if t.any() else -t",
    "t[t > 0]",
    "t[: t.argmax()]",
    "torch.arange(int(t.max()))",
    "sorted(t, key=float)",
    "print(t)",
    "f'{t}'",
    "[i for i in t.tolist() if i]",
    "torch.nn.Linear(2, 2)(t)",
    "t.data",
    "t.numpy().sum() > 1",
)


@pytest.mark.parametrize("expression", HAZARDS)
@pytest.mark.parametrize("way", ["(lambda t: {})(x)", "(lambda: {})()", "(lambda y={}: y)()", "[{} for t in (x, x)]"])
def test_rules_get_along_with_hazards_that_stand_in_no_statement(expression: str, way: str) -> None:
    text = f"import torch\n@torch.compile\ndef step(x: torch.Tensor):\n    t = x\n    return {way.format(expression)}\n"
    result = lint(write({"step.py": text}), Settings(root=Path.cwd()))
    assert not result.failures


def broken_rule(word: str) -> Rule:
    """A rule that raises in functions of that name, and reports every return elsewhere."""

    def mistaken(node: ast.AST, view: View) -> Iterator[Hit]:
        if view.qualname == word:
            raise ZeroDivisionError("a mistake of ours")
        assert isinstance(node, ast.Return)
        yield Hit(node, "found", "nothing")

    card = RuleCard("CL000", "broken", "graph-break", "Raises.", "")
    return Rule(card, Watch(nodes=(ast.Return,)), mistaken, (), ())


def test_an_internal_error_costs_its_file_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPILELINT_DEBUG", raising=False)
    text = "import torch\n@torch.compile\ndef {}(x):\n    return x\n"
    paths = write({name: text.format(name[0]) for name in ("a.py", "b.py", "c.py")})
    with mock.patch("compilelint.static.session.load_rules", lambda: (broken_rule("b"),)):
        result = lint(paths, Settings(root=Path.cwd()))
    assert {finding.path for finding in result.findings} == {"a.py", "c.py"}
    (failure,) = result.failures
    assert failure.path == "b.py"
    assert failure.message == "internal error, please report it: ZeroDivisionError: a mistake of ours"


def test_internal_errors_are_raised_for_whoever_debugs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPILELINT_DEBUG", "1")
    paths = write({"b.py": "import torch\n@torch.compile\ndef b(x):\n    return x\n"})
    with (
        mock.patch("compilelint.static.session.load_rules", lambda: (broken_rule("b"),)),
        pytest.raises(ZeroDivisionError),
    ):
        lint(paths, Settings(root=Path.cwd()))


PROJECT = {
    "pkg/__init__.py": "from .model import Gate\n",
    "pkg/ops.py": """\
        import torch
        def scale(x, by=None):
            if by is not None and by > 0:
                return x * by.item()
            print(x)
            return x
        """,
    "pkg/model.py": """\
        import torch
        from .ops import scale
        class Gate(torch.nn.Module):
            def forward(self, x):
                y = scale(x, x.sum())
                if y.sum() > 0:
                    return scale(y)
                return y.nonzero()
        """,
    "main.py": """\
        import torch
        from pkg import Gate
        from pkg.ops import scale
        model = torch.compile(Gate(), mode="reduce-overhead")
        fast = torch.compile(scale)
        def generate(x):
            for _ in range(8):
                x = model(x)
                print(x.item())
        """,
}


def test_findings_do_not_depend_on_the_order_of_files_or_on_what_was_linted_before() -> None:
    first = check(PROJECT)
    assert len(first) > 5
    assert check(PROJECT) == first
    turned = check(dict(reversed(PROJECT.items())))
    assert [(f.rule, f.path, f.span, f.confidence, f.hazard, f.fingerprint) for f in turned] == [
        (f.rule, f.path, f.span, f.confidence, f.hazard, f.fingerprint) for f in first
    ]


def test_a_file_named_twice_is_linted_once() -> None:
    (path,) = write({"model.py": "import torch\n@torch.compile\ndef step(x):\n    probe(x)\n"})
    assert len(probe_paths((path, path, path.parent / "." / "model.py")).findings) == 1


def test_nothing_of_what_is_linted_is_imported_or_run() -> None:
    write({"neighbour.py": "raise SystemExit('imported')", "pkg/__init__.py": "raise SystemExit('imported')"})
    before = set(sys.modules)
    probe({"model.py": "import neighbour\nimport torch\nraise SystemExit('run')\n@torch.compile\ndef f(x): probe(x)\n"})
    assert "neighbour" not in sys.modules
    assert not {name for name in set(sys.modules) - before if not name.startswith("compilelint")}
