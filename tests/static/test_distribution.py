"""Which packages are there for others to install: their public functions are compiled with the models of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import probe

FUNCTION = "import torch\ndef scaled(x: torch.Tensor):\n    return probe(x)\n"
BESIDE = {
    "nothing": ({}, True),
    "a build": ({"pyproject.toml": "[build-system]\nrequires = ['hatchling']\n"}, True),
    "a name": ({"pyproject.toml": "[project]\nname = 'ops'\n", "requirements.txt": "torch\n"}, True),
    "poetry": ({"pyproject.toml": "[tool.poetry]\nname = 'ops'\n", "Dockerfile": ""}, True),
    "setup.py": ({"setup.py": "", "requirements.txt": ""}, True),
    "what pip leaves": ({"ops-1.0.dist-info/METADATA": "", "requirements.txt": ""}, True),
    "requirements": ({"requirements.txt": "torch\n"}, False),
    "several requirements": ({"requirements_base.txt": "torch\n"}, False),
    "an environment": ({"environment.yml": ""}, False),
    "a container": ({"Dockerfile": "FROM scratch\n"}, False),
    "version control": ({".git/HEAD": ""}, False),
    "settings of linters": ({"pyproject.toml": "[tool.ruff]\nline-length = 100\n", ".git/HEAD": ""}, False),
    "settings of linters alone": ({"pyproject.toml": "[tool.ruff]\nline-length = 100\n"}, True),
}


def functions(beside: dict[str, str], folder: str = "") -> set[str]:
    """The functions that a package with one public function has compiled, in a project with these files."""
    for name, text in beside.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    return probe({f"{folder}pkg/__init__.py": "", f"{folder}pkg/ops.py": FUNCTION}).functions()


@pytest.mark.parametrize("name", BESIDE)
def test_public_functions_of_a_program_are_its_own(name: str) -> None:
    beside, installed = BESIDE[name]
    assert functions(beside) == ({"scaled"} if installed else set())


@pytest.mark.parametrize("place", ["src/", "python/src/"])
def test_a_project_may_lie_above_its_packages(place: str) -> None:
    assert functions({"requirements.txt": ""}, place) == set()
    assert functions({"setup.py": ""}, place) == {"scaled"}


def test_what_lies_nearest_counts() -> None:
    assert functions({"setup.py": "", "demo/requirements.txt": ""}, "demo/") == set()
