"""The linter on one example of a rule, as the tests of rules and of fixes both ask it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from compilelint.config import Settings
from compilelint.model import Finding
from compilelint.rule import Example
from compilelint.static import lint

MARK = "# ~"
REFERENCE = "2.13"
"""The version of torch that the examples' claims are about."""
DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def findings_in(example: Example, folder: Path, torch: str = REFERENCE) -> list[Finding]:
    """What every rule says about the example's code under a version of torch, guesses left out."""
    file = folder / "example.py"
    file.write_text(example.code, encoding="utf-8")
    settings = Settings(root=folder, entry_points=entry_points(example), target_torch=torch, engine=example.engine)
    result = lint([file], settings)
    assert not result.failures
    return [finding for finding in result.findings if finding.confidence != "possible"]


def entry_points(example: Example) -> tuple[str, ...]:
    """What `run` compiles, where the code does not say: `f` of `(f, [...])`, `Net.encode` of `(Net().encode, …)`."""
    if example.inside or not example.run:
        return ()
    pair = ast.parse(example.run, mode="eval").body
    assert isinstance(pair, ast.Tuple), "run is (callable, [arguments, ...])"
    dotted = ast.unparse(without_calls(pair.elts[0]))
    classes = {node.name for node in ast.parse(example.code).body if isinstance(node, ast.ClassDef)}
    found_anyway = dotted in classes or not DOTTED_NAME.fullmatch(dotted)  # a module's forward is
    return () if found_anyway else (f"example:{dotted}",)


def without_calls(node: ast.expr) -> ast.expr:
    """`Net().encode` -> `Net.encode`, `Net(4)` -> `Net`."""
    if isinstance(node, ast.Call):
        return without_calls(node.func)
    return ast.Attribute(without_calls(node.value), node.attr) if isinstance(node, ast.Attribute) else node


def covers(finding: Finding, line: int) -> bool:
    return finding.span.line <= line <= finding.span.end_line
