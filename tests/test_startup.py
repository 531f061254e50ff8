"""What a run over a small clean file imports: a hook starts one for every commit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CLEAN = "import math\n\n\nclass Circle:\n    @property\n    def area(self) -> float:\n        return math.pi\n"
MODEL = (
    "import torch\nfrom torch import nn\n\n\nclass Layer(nn.Module):\n    def forward(self, x):\n"
    "        return torch.relu(x)\n"
)
PROGRAM = """
import json, sys
from compilelint.cli import main
code = main(["check", "--isolated", *sys.argv[1:], "a.py"])
print(json.dumps([code, sorted(sys.modules)]))
"""
NEVER = {"torch", "libcst", "sarif_om", "rich", "importlib.metadata"}


def imported(folder: Path, source: str, *arguments: str) -> set[str]:
    """The modules that a check of one clean file has imported, in a process of its own."""
    (folder / "a.py").write_text(source)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], cwd=folder, capture_output=True, text=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stdout + done.stderr
    return set(modules)


@pytest.mark.parametrize("arguments", [("--no-cache",), ("--output-format", "concise")], ids=["full", "kept"])
def test_a_file_without_regions_needs_neither_tracer_nor_rules(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    modules = imported(tmp_path, CLEAN, *arguments)
    assert not modules & NEVER
    assert not [name for name in modules if name.startswith(("compilelint.rules.cl", "compilelint.static.tracer"))]
    assert "compilelint.rule" not in modules


def test_a_clean_model_is_walked_without_libraries(tmp_path: Path) -> None:
    modules = imported(tmp_path, MODEL, "--no-cache")
    assert "compilelint.static.tracer.tracer" in modules
    assert not modules & NEVER
