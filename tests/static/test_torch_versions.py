"""What another torch answers otherwise is said for the torch that the settings name."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import write

from compilelint.config import Settings
from compilelint.static import lint

ASKS = "import torch\n@torch.compile\ndef f(x):\n    if {call}:\n        return x + 1\n    return x\n"


@pytest.mark.parametrize(
    ("call", "versions"),
    [
        ("torch.backends.mps.is_available()", {"2.11", "2.13"}),
        ("torch.backends.mps.is_built()", {"2.11", "2.13"}),
        ("torch.backends.mkl.is_available()", {"2.11", "2.13", "2.14"}),
        ("torch.cuda.is_available()", set()),
    ],
)
def test_questions_about_the_build(call: str, versions: set[str]) -> None:
    paths = write({"model.py": ASKS.format(call=call)})
    found = {
        version
        for version in ("2.11", "2.13", "2.14")
        if lint(paths, Settings(root=Path.cwd(), target_torch=version)).findings
    }
    assert found == versions
