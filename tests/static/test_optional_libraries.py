"""Code for where a library is there and for where it is not: both run somewhere, so both are walked."""

from __future__ import annotations

import pytest
from projects import Files, check

FLAGS = """
try:
    import fast

    HAS_FAST = True
except ImportError:
    fast = None
    HAS_FAST = False
"""
MODEL = """
import torch
{imports}


class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        {body}
"""
SLOW = "x.nonzero()"


def broken(files: Files) -> list[str]:
    return [finding.rule for finding in check(files)]


@pytest.mark.parametrize(
    "body",
    [
        f"if HAS_FAST:\n            return fast.run(x)\n        return {SLOW}",
        f"if not HAS_FAST:\n            return {SLOW}\n        return fast.run(x)",
        f"if fast is not None:\n            return fast.run(x)\n        return {SLOW}",
        f"if fast is None:\n            return {SLOW}\n        return fast.run(x)",
        f"return fast.run({SLOW}) if HAS_FAST else x",
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_both_sides_are_walked(body: str, elsewhere: bool) -> None:
    imports = "from pkg.flags import HAS_FAST, fast" if elsewhere else FLAGS
    files = {"pkg/__init__.py": "", "pkg/flags.py": FLAGS, "pkg/model.py": MODEL.format(imports=imports, body=body)}
    assert broken(files) == ["CL301"]


def test_a_flag_that_is_set_once_decides() -> None:
    body = f"if HAS_FAST:\n            return x\n        return {SLOW}"
    assert broken({"model.py": MODEL.format(imports="HAS_FAST = True", body=body)}) == []
