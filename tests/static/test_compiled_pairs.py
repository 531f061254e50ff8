"""When a compiled model has run, and what makes its graphs go: what rules about changes behind it ask."""

from __future__ import annotations

import textwrap

import pytest
from projects import check

MODEL = """
import torch
import torch._dynamo as dynamo
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def scale(self, x):
        return x + 1

    def forward(self, x):
        return self.head(self.scale(x))

def doubled(self, x):
    return x * 2

def serve(x):
    net = Net()
    fast = torch.compile(net)
"""
CHANGES = {
    "CL633": "net.head = nn.ReLU()",
    "CL905": "net.head.register_forward_hook(print)",
    "CL913": "Net.scale = doubled",
}


def reported(body: str) -> set[str]:
    """Which of the rules speak about a function that compiles a model and goes on with this."""
    found = check({"main.py": MODEL + textwrap.indent(textwrap.dedent(body), "    ")})
    return {finding.rule for finding in found} & set(CHANGES)


@pytest.mark.parametrize(("rule", "change"), CHANGES.items())
def test_a_change_after_the_compiled_call_is_reported(rule: str, change: str) -> None:
    assert reported(f"fast(x)\n{change}\nreturn fast(x)") == {rule}


@pytest.mark.parametrize("change", CHANGES.values())
@pytest.mark.parametrize(
    "body",
    [
        "net(x)\n{}\nreturn fast(x)",  # the model itself runs uncompiled
        "fast(x)\n{}\ndynamo.reset()\nreturn fast(x)",
        "fast(x)\n{}\ntorch._dynamo.reset()\nreturn fast(x)",
        "fast(x)\n{}\ntorch.compiler.reset()\nreturn fast(x)",
    ],
)
def test_a_change_before_it_or_before_a_reset_is_not(body: str, change: str) -> None:
    assert reported(body.format(change)) == set()


@pytest.mark.parametrize(("rule", "change"), CHANGES.items())
def test_another_reset_throws_no_graphs_away(rule: str, change: str) -> None:
    assert reported(f"fast(x)\n{change}\nx.metrics.reset()\nreturn fast(x)") == {rule}


@pytest.mark.parametrize("change", ["net.head = nn.ReLU()", "net.head.register_forward_hook(print)"])
def test_what_ran_under_the_name_before_it_was_compiled_ran_uncompiled(change: str) -> None:
    other = f"\ndef other(x):\n    net = Net()\n    net(x)\n    {change}\n"
    assert reported(f"fast(x)\nreturn fast(x)\n{other}") == set()
    assert reported(f"fast(x)\nreturn fast(x)\n{other}    net = torch.compile(net)\n    return net(x)") == set()


def test_a_model_of_another_function_is_not_the_one_that_is_compiled() -> None:
    tests = "".join(
        f"def test_{i}(x):\n    net = Net()\n    net(x)\n    net.head = nn.ReLU()\n{more}    return net(x)\n"
        for i, more in enumerate(["", "    net = torch.compile(net)\n"])
    )
    assert "CL633" not in {finding.rule for finding in check({"main.py": MODEL + "    return fast(x)\n" + tests})}
