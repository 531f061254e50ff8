"""Which method of an object an operator or an assignment runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilelint.config import Settings
from compilelint.static import lint


@pytest.mark.parametrize(
    ("statement", "method"),
    [
        ("x = turn @ x", "__matmul__"),
        ("turn @= x", "__imatmul__"),
        ("x = x @ turn", "__rmatmul__"),
        ("x @= turn", "__rmatmul__"),
        ("turn = ~turn", "__invert__"),
    ],
)
def test_the_method_that_python_looks_for_first_is_named(tmp_path: Path, statement: str, method: str) -> None:
    methods = ("__matmul__", "__imatmul__", "__rmatmul__")
    body = "".join(f"    def {name}(self, other):\n        return self.by\n" for name in methods)
    file = tmp_path / "step.py"
    file.write_text(
        f"import torch\n\nclass Turn:\n    def __init__(self, by):\n        self.by = by\n{body}"
        "    def __invert__(self):\n        return self\n\n"
        f"@torch.compile\ndef step(x: torch.Tensor):\n    turn = Turn(x)\n    {statement}\n    return x\n"
    )
    findings = lint([file], Settings(root=tmp_path)).findings
    assert [f"runs `{method}`" in finding.message for finding in findings if finding.rule == "CL533"] == [True]


def test_what_an_assignment_to_an_attribute_runs_is_walked(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text(
        "import torch\n\nclass Number:\n    def __set__(self, owner, value):\n        owner.kept = float(value)\n\n"
        "class State:\n    count = Number()\n\n    @property\n    def rate(self):\n        return self._rate\n\n"
        "    @rate.setter\n    def rate(self, value):\n        self._rate = value.item()\n\n"
        "@torch.compile\ndef step(x: torch.Tensor):\n    state = State()\n    state.count = x.sum()\n"
        "    state.rate = x.mean()\n    return x * 2\n"
    )
    findings = lint([file], Settings(root=tmp_path)).findings
    assert {(finding.rule, finding.span.line) for finding in findings} == {("CL202", 5), ("CL201", 16)}
