"""Where the output of a CUDA graph is used after the next one ran, in the forms that programs write it."""

from __future__ import annotations

import ast
import textwrap

import pytest
from projects import check

from compilelint.static.facts.replays import late_uses

COMPILED = """
step = torch.compile(f, mode="reduce-overhead")
head = torch.compile(g, mode="reduce-overhead")
plain = torch.compile(h)
"""


def uses(body: str) -> list[tuple[str, str]]:
    """The late uses in a function of this body, as text and how."""
    code = COMPILED + "def run(self, x, xs):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    module = ast.parse(code)
    function = module.body[-1]
    assert isinstance(function, ast.FunctionDef)
    return [(ast.unparse(use.node), use.how) for use in late_uses(function, module)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for _ in xs:\n    x = step(x)", [("x", "passed")]),
        ("while True:\n    x = step(x)", [("x", "passed")]),
        ("for _ in xs:\n    h, c = step(x, h, c)", [("h", "passed")]),
        ("return head(step(x))", [("step(x)", "passed")]),
        ("a = step(x)\nb = head(x)\nreturn a + b", [("a", "read")]),
        ("a = step(x)[:, -1]\nb = head(x)\nreturn a + b", [("a", "read")]),
        ("self.h = step(x, self.h)", [("self.h", "passed")]),
        ("if x is None:\n    x = step(xs)\nreturn head(x)", [("x", "passed")]),
        ("a = step(x)\nwith ctx:\n    b = step(a)\nreturn b", [("a", "passed")]),
        (
            "last = None\nfor x in xs:\n    y = step(x)\n    if last is not None:\n        d = y - last\n    last = y",
            [("last", "read")],
        ),
    ],
)
def test_used_late(body: str, expected: list[tuple[str, str]]) -> None:
    assert uses(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "for _ in xs:\n    x = step(x).clone()",
        "for _ in xs:\n    x = x + step(x)",
        "for _ in xs:\n    x = step(x).argmax(-1)",
        "for _ in xs:\n    x = plain(x)",
        "a = step(x)\nb = a.sum()\nc = step(x)\nreturn b + c",
        "a = step(x)\na = a.clone()\nb = step(x)\nreturn a + b",
        "if x.ndim:\n    return step(x)\nreturn head(x)",
        "if x.ndim:\n    y = step(x)\nelse:\n    y = head(x)\nreturn y",
        "last = step(x)\nfirst = step(x)\nreturn last is None",
        "for _ in xs:\n    x = step(x)\nx.sum().backward()",
        "def inner(x):\n    return head(x)\nreturn step(x)",
    ],
)
def test_used_in_time(body: str) -> None:
    assert uses(body) == []


def test_what_has_the_name_before_it_is_compiled_or_elsewhere_is_no_replay() -> None:
    assert uses("step = f\na = step(x)\nb = step(x)\nreturn a + b") == []
    assert (
        uses("step = step.eval()\na = step(x)\nstep = torch.compile(f, mode='max-autotune')\nreturn a + step(x)") == []
    )
    assert uses("step = torch.compile(f, mode='max-autotune')\na = step(x)\nb = step(x)\nreturn a + b") == [
        ("a", "read")
    ]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("@torch.no_grad()", "likely"),
        ("@torch.inference_mode()", "likely"),
        ("net.eval()\n", "possible"),  # parameters still require gradients, and keep what was computed with them
    ],
)
def test_only_code_without_gradients_loses_outputs(said: str, expected: str) -> None:
    code = (
        COMPILED.replace("\n", "\nimport torch\n", 1)
        + said
        + "\ndef run(x, y):\n    a = step(x)\n    return step(y) - a\n"
    )
    found = [finding.confidence for finding in check({"main.py": code}) if finding.rule == "CL805"]
    assert found == [expected]
