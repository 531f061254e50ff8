"""What runs only while somebody debugs is shown on request alone."""

from __future__ import annotations

import pytest
from projects import check

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, flag, verbose{default}, debug_level=0):
        super().__init__()
        self.flag, self.verbose, self.debug_level = flag, verbose, debug_level

    def forward(self, x: torch.Tensor, *, debug: bool = False):
        {body}
        return x
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if self.verbose: print(x)", "possible"),
        ("if debug: print(x)", "possible"),
        ("if self.debug_level > 1: print(x)", "possible"),
        ("if self.flag and self.verbose: print(x)", "possible"),
        ("if self.verbose:\n            for i in range(3): print(x)", "possible"),
        ("print(x) if self.verbose else None", "possible"),
        ("self.verbose and print(x)", "possible"),
        ("self.flag and debug and print(x)", "possible"),
        ("assert x.dim() == 2, print(x)", "possible"),
        ("None if self.verbose else print(x)", "likely"),
        ("self.flag and print(x)", "likely"),
        ("self.verbose or print(x)", "likely"),
        ("print(x) and self.verbose", "certain"),
        ("if self.verbose or self.flag: print(x)", "certain"),
        ("if not self.verbose: print(x)", "certain"),
        ("if self.verbose: pass\n        else: print(x)", "certain"),
        ("if self.flag: print(x)", "certain"),
        ("if self.verbose: pass\n        print(x)", "certain"),
    ],
)
def test_what_a_flag_for_debugging_guards(body: str, expected: str) -> None:
    found = check(MODEL.format(body=body, default="=False"))
    assert {finding.confidence for finding in found if finding.rule == "CL401"} == {expected}


def test_a_flag_that_is_known_to_be_set_guards_nothing() -> None:
    known = "self.verbose = True\n        if self.verbose: print(x)"
    assert [finding.confidence for finding in check(MODEL.format(body=known, default="=0"))] == ["certain"]


@pytest.mark.parametrize(("default", "expected"), [("=False", "possible"), ("=None", "possible"), ("=True", "certain")])
def test_a_flag_that_is_on_by_default_guards_nothing(default: str, expected: str) -> None:
    found = check(MODEL.format(body="if self.verbose: print(x)", default=default))
    assert [finding.confidence for finding in found] == [expected]


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("os.environ.get('NET_DEBUG') == '1'", "possible"),
        ("bool(os.getenv('NET_DEBUG', ''))", "possible"),
        ("config.debug", "certain"),
    ],
)
def test_a_flag_of_the_environment_is_off(flag: str, expected: str) -> None:
    text = f"import os\nfrom net import config\nDEBUG = {flag}\n" + MODEL.format(body="if DEBUG: print(x)", default="")
    found = [finding for finding in check({"model.py": text, "net.py": "import config"}) if finding.rule == "CL401"]
    assert [finding.confidence for finding in found] == [expected]
