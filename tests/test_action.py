"""The GitHub action's lint step, run by bash as a runner does, with the files that a runner gives it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
HAZARD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n    return x * x.sum().item()\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("source", "arguments", "code", "verdict"),
    [(HAZARD, "", "1", 1), (HAZARD, "--ignore\nCL2,CL6", "0", 0), (None, "", "2", 2)],
)
def test_the_lint_step(tmp_path: Path, source: str | None, arguments: str, code: str, verdict: int) -> None:
    (tmp_path / "my src").mkdir()
    if source is not None:
        (tmp_path / "my src/model.py").write_text(source)
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    scripts = {step["name"]: step.get("run") for step in steps}
    environment = {
        **os.environ,
        "PATHS": "my src\n",
        "ARGS": arguments,
        "COMPILELINT_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
    done = subprocess.run(
        [*command, scripts["Lint"]], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert outputs.pop("exit-code") == code
    assert subprocess.run([*command, scripts["Verdict"]], env={**environment, "CODE": code}).returncode == verdict
    if source is None:
        assert outputs == {}
        return
    results = json.loads(Path(outputs["sarif-file"]).read_text(encoding="utf-8"))["runs"][0]["results"]
    assert bool(results) == (verdict == 1)
    assert ("file=my src/model.py,line=6" in done.stdout) == (verdict == 1)
    assert (tmp_path / "summary").read_text(encoding="utf-8").startswith("## compilelint")
