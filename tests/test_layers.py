"""Who may import whom, and what a run loads: the structure of the code base as tests."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from subprocess import run

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "compilelint"

# For each part, the parts it may import from, besides `record`; what two modules below another share is one of its own.
LAYERS: dict[str, set[str]] = {
    "record": set(),
    "model": set(),
    "lines": set(),
    "notebook_json": set(),
    "notebook": {"model", "lines", "notebook_json"},
    "source": {"model", "lines", "notebook"},
    "scopes": {"lines", "source"},
    "fingerprint": set(),
    "config": {"model"},
    "knowledge": {"model"},
    "rule": {"model", "static.values"},
    "rulebook": {"model", "rule", "rules"},
    "static": {
        "model",
        "config",
        "rule",
        "rulebook",
        "knowledge",
        "fingerprint",
        "scopes",
        "lines",
        "notebook",
        "source",
    },
    "rules": {"model", "rule", "static"},
    "runtime": {"model"},
    "merge": {"model", "fingerprint", "scopes", "source"},
    "sift": {"model", "config", "lines", "source"},
    "report": {"model", "notebook", "source"},
    "fix": {"model", "lines", "notebook", "source", "config"},
    "command": {
        *("model", "config", "fingerprint", "source", "static", "runtime", "merge", "sift", "report", "fix"),
        "rulebook",
    },
    "pytest_plugin": {"model", "config", "runtime", "merge", "sift"},
    "cli": {"command", "config"},
    "__main__": {"cli"},
    "__init__": {"runtime"},
}

STATIC_LAYERS: dict[str, set[str]] = {
    "object_attributes": set(),
    "values": {"object_attributes"},
    "layouts": set(),
    "dtypes": {"values"},
    "describe": {"values"},
    "project": set(),
    "regions": {"project"},
    "facts": {"project", "values"},
    "tracer": {"project", "facts", "values", "object_attributes", "layouts", "dtypes"},
    "flagging": {"project", "regions", "facts", "tracer", "values", "describe"},
    "units": {"project", "regions", "tracer", "flagging", "values"},
    "session": {"project", "tracer", "flagging", "units"},
    "__init__": {"session"},
}
"""As `LAYERS`, for what is inside `static`."""


def modules() -> Iterator[tuple[str, Path]]:
    """(part, file) of every module, `rules` being the folder beside the package."""
    for file in sorted(PACKAGE.rglob("*.py")):
        yield file.relative_to(PACKAGE).parts[0].removesuffix(".py"), file
    for file in sorted((ROOT / "rules").glob("*.py")):
        yield "rules", file


@cache
def imported(file: Path) -> tuple[tuple[str, bool], ...]:
    """(dotted name, whether at module level) of everything a module imports at run time."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    top = {id(node) for node in tree.body}
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found += [(f"{node.module}.{alias.name}", id(node) in top) for alias in node.names]
    return tuple(found)


def test_imports_go_one_way() -> None:
    wrong = []
    for part, file in modules():
        for name, _ in imported(file):
            if not name.startswith("compilelint."):
                continue
            inner = name.removeprefix("compilelint.")
            allowed = {part, "__version__", "record", *LAYERS[part]}
            if not any(inner == room or inner.startswith(f"{room}.") for room in allowed):
                wrong.append(f"{file.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_rules_look_into_other_functions_where_that_is_noted() -> None:
    """`view.definition` notes what a finding hangs on. Without it, only what stands around bodies may be read."""
    # Decorators, bases, which class it is; CL902 in its `Watch.kinds`, for which the flagger notes it.
    around = {"CL413", "CL504", "CL511", "CL612", "CL902", "CL909", "CL913", "CL914"}
    reading = {file.name[:5].upper() for file in (ROOT / "rules").glob("*.py") if ".ref.node" in file.read_text()}
    assert reading == around


def test_imports_inside_the_static_pass_go_one_way() -> None:
    wrong = []
    for file in sorted((PACKAGE / "static").rglob("*.py")):
        part = file.relative_to(PACKAGE / "static").parts[0].removesuffix(".py")
        for name, _ in imported(file):
            inner = name.removeprefix("compilelint.static.")
            if inner != name and inner.split(".")[0] not in {part, *STATIC_LAYERS[part]}:
                wrong.append(f"{file.relative_to(ROOT)} imports {name}")
    assert wrong == []


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("torch", {"runtime", "knowledge"}),
        ("libcst", {"fix"}),
        (
            "rich",
            {
                "report/console.py",
                "report/excerpt.py",
                "report/target_table.py",
                "command/rule.py",
                "command/progress.py",
            },
        ),
        ("sarif_om", {"report/sarif.py"}),
        ("pathspec", {"static/project/discover.py", "sift/select.py"}),
    ],
)
def test_a_library_stays_in_its_room(library: str, rooms: set[str]) -> None:
    users = {
        file.relative_to(PACKAGE).as_posix() if file.is_relative_to(PACKAGE) else f"rules/{file.name}"
        for _, file in modules()
        if any(name.split(".")[0] == library for name, _ in imported(file))
    }
    assert {user for user in users if user not in rooms and user.split("/")[0] not in rooms} == set()


def test_torch_is_not_imported_by_what_the_command_line_imports() -> None:
    """The parent of the workers, and the table of the knowledge, are loaded where torch may not be installed."""
    loaded = [
        PACKAGE / name for name in ("runtime/launch.py", "runtime/target.py", "knowledge/table.py", "pytest_plugin.py")
    ]
    for file in loaded:
        assert not [name for name, top in imported(file) if top and name.split(".")[0] == "torch"]


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (
            ["--version"],
            {"torch", "libcst", "rich", "sarif_om", "pathspec", "compilelint.static", "compilelint.report.json"},
        ),
        (["model.py", "--output-format", "concise"], {"torch", "libcst", "rich", "sarif_om", "compilelint.merge"}),
        (
            ["model.py", "--output-format", "json"],
            {"torch", "rich", "sarif_om", "compilelint.report.concise"},
        ),
        (["model.py"], {"torch", "sarif_om", "compilelint.runtime.launch"}),
        (["clean.py"], {"torch", "libcst", "sarif_om"}),
        (
            ["clean.py", "--no-cache", "--output-format", "concise"],
            {"torch", "libcst", "rich", "sarif_om", "multiprocessing", "compilelint.static.flagging.explanation"},
        ),
        (["clean.py", "--fix", "--output-format", "json"], {"torch", "libcst", "rich", "sarif_om"}),
    ],
)
def test_a_run_loads_only_what_it_needs(tmp_path: Path, arguments: list[str], absent: set[str]) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\n\n\ndef f(x: torch.Tensor):\n    print(x)\n\n\ntorch.compile(f)\n"
    )
    (tmp_path / "clean.py").write_text("import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor):\n    return x + 1\n")
    program = (
        "import atexit, sys; from compilelint.cli import main;"
        f"atexit.register(lambda: print('loaded', *sorted(sys.modules.keys() & {absent!r}), file=sys.stderr));"
        f"main({arguments!r})"
    )
    done = run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "loaded"
    assert done.stdout


def test_every_package_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {file.parent.relative_to(ROOT) for file in PACKAGE.rglob("__init__.py")}
    assert set(settings["packages"]) == {".".join(folder.parts) for folder in folders} | {"compilelint.rules"}


def test_files_stay_readable() -> None:
    long = {file.name: count for _, file in modules() if (count := len(file.read_text().splitlines())) > 450}
    assert long == {}
