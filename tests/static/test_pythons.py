"""What hangs on the Python that runs the code: its bytecode is what Dynamo reads."""

from __future__ import annotations

import sys
import textwrap

import pytest
import torch
from projects import check

RULE = "compilelint.rules.cl104_assert_on_tensor"
HEAD = "import torch\n@torch.compile\ndef total(x: torch.Tensor):\n"
LOOPS = {
    "ends the loop": ("for i in range(3):\n    x = x + i\n    assert x.sum() > 0, 'text'", True),
    "ends an if that ends it": ("for i in range(3):\n    x = x + i\n    if i:\n        assert x.sum() > 0", True),
    "ends an else that ends it": (
        "for i in range(3):\n    if i:\n        x = x + 1\n    else:\n        assert x.sum() > 0",
        True,
    ),
    "something follows": ("for i in range(3):\n    assert x.sum() > 0\n    x = x + i", False),
    "something follows the if": ("for i in range(3):\n    if i:\n        assert x.sum() > 0\n    x = x + i", False),
    "behind the loop": ("for i in range(3):\n    x = x + i\nelse:\n    assert x.sum() > 0", False),
    "of a while loop": ("i = 0\nwhile i < 3:\n    i += 1\n    assert x.sum() > 0", False),
    "within a with": ("for i in range(3):\n    with torch.no_grad():\n        assert x.sum() > 0", False),
    "of no loop": ("if x.ndim:\n    assert x.sum() > 0", False),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("python", [(3, 11), (3, 12), (3, 13)])
def test_an_assert_that_ends_a_loop(name: str, python: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    body, skipped = LOOPS[name]
    monkeypatch.setattr(f"{RULE}.PYTHON", python)
    code = HEAD + textwrap.indent(f"{body}\nreturn x\n", "    ")
    expected = [("CL104", "frame-skip")] if skipped and python >= (3, 12) else []
    assert [(finding.rule, finding.hazard) for finding in check(code)] == expected


@pytest.mark.parametrize("name", LOOPS)
def test_dynamo_agrees(name: str) -> None:
    body, skipped = LOOPS[name]
    seen: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        seen.append(len(inputs))
        return graph.forward

    names: dict[str, object] = {}
    exec(HEAD.replace("@torch.compile\n", "") + textwrap.indent(f"{body}\nreturn x\n", "    "), names)
    torch.compiler.reset()
    torch.compile(names["total"], backend=backend)(torch.ones(3))  # type: ignore[call-overload]
    assert bool(seen) is not (skipped and sys.version_info >= (3, 12))


@pytest.mark.parametrize(("python", "hazard"), [((3, 11), "frame-skip"), ((3, 12), "recompile")])
def test_the_first_read_of_a_cached_property(
    python: tuple[int, int], hazard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compilelint.rules.cl548_cached_property_first_read.PYTHON", python)
    code = """\
from functools import cached_property
from torch import nn

class Scaled(nn.Module):
    @cached_property
    def scale(self):
        return 0.5

    def forward(self, x):
        return x * self.scale
"""
    assert [(finding.rule, finding.hazard) for finding in check(code)] == [("CL548", hazard)]
