"""The hooks in a scratch repository: a hazard stops the commit or the push, and its fix lets it pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import compilelint

pytest.importorskip("pre_commit")
yaml = pytest.importorskip("yaml")  # pre-commit needs it

ROOT = Path(__file__).parent.parent

HELPER = "import torch\n\n\ndef scaled(x):\n    return x * x.sum()\n"
MODEL = """\
import torch

import compilelint
from helper import scaled


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return scaled(x) + 1


def target():
    return compilelint.Target(Net(), calls=[(torch.ones(3),)])
"""
SETTINGS = 'device = "cpu"\n\n[targets.net]\nfactory = "model:target"\n'


class Repository:
    """A repository with the project's own hooks in it, run by the interpreter that runs the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))},
            "PRE_COMMIT_HOME": str(folder.parent / "cache"),
            "PYTHONPATH": str(Path(compilelint.__file__).parents[1]),
        }
        hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
        for hook in hooks:
            command, _, arguments = hook["entry"].partition(" ")
            hook |= {"language": "system", "entry": f"{sys.executable} -m {command} {arguments}"}
        self.write(".pre-commit-config.yaml", yaml.safe_dump({"repos": [{"repo": "local", "hooks": hooks}]}))
        for name, text in [("helper.py", HELPER), ("model.py", MODEL), ("compilelint.toml", SETTINGS)]:
            self.write(name, text)
        assert self.git("init", "-q", "-b", "main").returncode == 0
        assert self.commit().returncode == 0  # before there are hooks

    def install(self, stage: str) -> None:
        """Let git run the hooks of a stage."""
        command = [sys.executable, "-m", "pre_commit", "install", "--hook-type", stage]
        subprocess.run(command, cwd=self.folder, env=self.environment, check=True, capture_output=True)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def commit(self) -> subprocess.CompletedProcess[str]:
        """Commit everything."""
        self.git("add", "--all")
        return self.git("commit", "-m", "a change")

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        return subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "project").mkdir()
    return Repository(tmp_path / "project")


def test_a_changed_helper_is_linted_in_the_model_that_calls_it(repository: Repository) -> None:
    repository.install("pre-commit")
    repository.write("helper.py", HELPER.replace("x.sum()", "x.sum().item()"))
    refused = repository.commit()
    assert refused.returncode == 1
    assert "helper.py:5:16 CL201" in refused.stdout + refused.stderr
    assert "Net.forward  model.py:9" in refused.stdout + refused.stderr  # the region, in a file that did not change
    repository.write("helper.py", HELPER.replace("x.sum()", "x.mean()"))
    assert repository.commit().returncode == 0


def test_only_changed_files_are_reported(repository: Repository) -> None:
    repository.write("helper.py", HELPER.replace("x.sum()", "x.sum().item()"))
    repository.commit()
    repository.install("pre-commit")
    repository.write("model.py", MODEL.replace("+ 1", "+ 2"))
    assert repository.commit().returncode == 0


def test_the_compiler_judges_before_a_push(repository: Repository) -> None:
    pytest.importorskip("torch")
    repository.git("init", "-q", "--bare", "../remote")
    repository.git("remote", "add", "origin", "../remote")
    repository.install("pre-push")
    repository.write("helper.py", HELPER.replace("x.sum()", "x.sum().item()"))
    assert repository.commit().returncode == 0
    refused = repository.git("push", "origin", "main")
    assert refused.returncode == 1
    assert "[confirmed]" in refused.stdout + refused.stderr
    repository.write("helper.py", HELPER)
    repository.commit()
    assert repository.git("push", "origin", "main").returncode == 0
