"""Small projects in the working directory, and a rule that tells what the tracer knows wherever they call `probe`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from unittest import mock

from compilelint.config import Settings
from compilelint.model import Finding, RuleCard
from compilelint.rule import Hit, RegionKind, Rule, View, Watch
from compilelint.static import lint
from compilelint.static.describe import describe
from compilelint.static.values import Value

Files = Mapping[str, str]


@dataclass(frozen=True)
class Sighting:
    """One way in which a call of `probe` was reached: where, in which kind of region, and what its argument was."""

    path: str
    line: int
    function: str
    region: RegionKind
    value: Value
    options: Mapping[str, object]


@dataclass(frozen=True)
class Probed:
    """Everything the probes of a project saw. But for those in host code, each is a certain graph break as well."""

    sightings: tuple[Sighting, ...]
    findings: tuple[Finding, ...]
    failures: tuple[str, ...]

    def kinds(self) -> set[str]:
        """What the arguments of the probes are taken to be, in words."""
        return {describe(sighting.value) for sighting in self.sightings}

    def functions(self, region: RegionKind = "compiled") -> set[str]:
        """The functions whose probes are reached in this kind of region, by qualified name."""
        return {sighting.function for sighting in self.sightings if sighting.region == region}


def write(files: Files) -> tuple[Path, ...]:
    """Write the files, dedented, in the working directory; their absolute paths in the order given."""
    paths = []
    for name, text in files.items():
        path = Path(name).absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        paths.append(path)
    return tuple(paths)


def check(files: Files | str, entry_points: tuple[str, ...] = (), torch: str | None = None) -> tuple[Finding, ...]:
    """What all rules find in the files, or in one file `model.py` of that text; by default for the installed torch."""
    files = {"model.py": files} if isinstance(files, str) else files
    result = lint(write(files), Settings(root=Path.cwd(), entry_points=entry_points, target_torch=torch))
    assert not result.failures
    return result.findings


def probe(files: Files | str, entry_points: tuple[str, ...] = (), linted: int | None = None) -> Probed:
    """As `check`, with the probe as only rule; `linted` is how many of the files are, where not all."""
    files = {"model.py": files} if isinstance(files, str) else files
    return probe_paths(write(files)[:linted], entry_points)


def probe_paths(paths: tuple[Path, ...], entry_points: tuple[str, ...] = ()) -> Probed:
    """As `probe`, over files that are written already."""
    seen: list[Sighting] = []

    def note(node: ast.AST, view: View) -> Iterator[Hit]:
        assert isinstance(node, ast.Call)
        argument = node.args[0] if node.args else ast.Constant(None)
        path = view.frame.tracer.display(view.frame.module)  # type: ignore[attr-defined]
        value = view.kind(argument)
        seen.append(Sighting(path, node.lineno, view.qualname, view.region, value, view.options))
        if view.region != "host":
            yield Hit(node, describe(value), "nothing")

    card = RuleCard("CL000", "probe", "graph-break", "Notes what is known.", "")
    regions: frozenset[RegionKind] = frozenset({"compiled", "decode-loop", "batch-loop", "host"})
    rule = Rule(card, Watch(nodes=(ast.Call,), names=frozenset({"probe"}), regions=regions), note, (), ())
    with mock.patch("compilelint.static.session.load_rules", lambda: (rule,)):
        result = lint(paths, Settings(root=Path.cwd(), entry_points=entry_points))
    return Probed(tuple(seen), result.findings, tuple(failure.message for failure in result.failures))
