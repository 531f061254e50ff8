"""`explain`: a line that is reached, one that no path reaches, one that is not in a region."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from projects import write

from compilelint.config import ConfigError, Settings
from compilelint.static import explain
from compilelint.static.regions.neighbours import neighbours, package_of

FILES = {
    "pkg/__init__.py": "",
    "pkg/ops.py": """\
        from typing import Optional
        from torch import Tensor
        def scale(x, by: Optional[Tensor] = None):
            größe = x.shape[0]
            if by is None:
                return x * größe
            return x * by
        def _around(x):
            print(x)
        """,
    "pkg/model.py": """\
        import torch
        from .ops import scale
        class Gate(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [scale]
            def forward(self, x: torch.Tensor):
                y = scale(torch.sin(x))
                if y.sum() > 0:
                    return y
                if x is None:
                    print(x)
                raise ValueError
                y = 1
        """,
}


def told(path: str, line: int) -> str:
    files = write(FILES)
    return explain(Path(path), line, Settings(root=Path.cwd()), files)


def test_a_reached_line_tells_the_path_and_every_value() -> None:
    assert told("pkg/ops.py", 6) == (
        "way 1 of 1: compiled, by this path:\n"
        "  pkg/model.py:8 in Gate.forward: `Gate` is a torch.nn.Module: its forward is what torch.compile compiles\n"
        "  pkg/ops.py:3 in scale\n"
        "values on line 6:\n"
        "  x: a tensor of float; a parameter, passed at pkg/model.py:8\n"
        "  x * größe: a tensor of float\n"
        "  größe: a Python int from a shape; set at line 4"
    )


def test_a_line_with_a_finding_tells_it() -> None:
    text = told("pkg/model.py", 9)
    assert "  y.sum() > 0: a scalar tensor of bool\n" in text
    assert re.search(r"\n\nCL101 branch-on-tensor \(certain\): `y\.sum\(\) > 0` .+\n  instead: .+$", text)


def test_functions_are_told_with_the_line_they_stand_in() -> None:
    text = told("pkg/model.py", 8)
    assert "  scale: the function `scale` (pkg.ops:3); defined at pkg/ops.py:3\n" in text
    assert "  x: a tensor (by annotation or use); a parameter of the region's root, declared `torch.Tensor`" in text


def test_an_object_under_construction_is_no_region() -> None:
    assert told("pkg/model.py", 6).startswith("way 1 of 1: construction of an object, by this path:\n")


@pytest.mark.parametrize("line", [12, 14])
def test_a_line_that_no_path_reaches(line: int) -> None:
    assert told("pkg/model.py", line) == (
        f"pkg/model.py:{line}: the function is walked, but no path through it reaches this line "
        "(a branch that cannot be taken under the compiler, or code after a return)"
    )


@pytest.mark.parametrize(("path", "line"), [("pkg/ops.py", 9), ("pkg/model.py", 1), ("pkg/model.py", 99)])
def test_a_line_outside_of_every_region(path: str, line: int) -> None:
    text = told(path, line)
    assert text.startswith(f"{path}:{line}: not in a region: ")
    assert "entry-points" in text


def test_the_file_alone_is_enough() -> None:
    write(FILES)
    assert explain(Path("pkg/ops.py"), 4, Settings(root=Path.cwd())).startswith("way 1 of 1: compiled")


def test_only_so_many_ways_are_told() -> None:
    calls = "\n".join(f"        scale({value})" for value in ("x", "1", "None", "[x]", "(x, x)", "{}"))
    text = "import torch\ndef scale(x):\n    return x\nclass M(torch.nn.Module):\n    def forward(self, x):\n"
    (path,) = write({"model.py": text + calls})
    shown = explain(path, 3, Settings(root=Path.cwd()))
    assert shown.count("by this path:") == 4
    assert shown.startswith("way 1 of 6: ")
    assert "\n\n… and 2 more ways" in shown


def test_a_decode_loop_is_told_as_one() -> None:
    text = "def generate(model, x):\n    while True:\n        x = model(x)\n        print(x)\n"
    (path,) = write({"model.py": text})
    shown = explain(path, 4, Settings(root=Path.cwd()))
    assert shown.startswith(
        "way 1 of 1: in a decode loop, by this path:\n  model.py:1 in generate: a loop here calls a model each turn\n"
    )


def test_compiled_ways_come_first() -> None:
    text = "import torch\n@torch.compile\ndef step(x):\n    return x\ndef run(x):\n    return torch.compile(step)(x)\n"
    (path,) = write({"model.py": text})
    shown = explain(path, 4, Settings(root=Path.cwd()))
    assert shown.startswith("way 1 of 2: compiled, by this path:\n")
    assert "\n\nway 2 of 2: host code around a region, by this path:\n" in shown


ORIGINS = """\
import torch

SCALE = 2.0

def double(x):
    return x * 2

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.ones(3)

    def forward(self, x):
        for size in x.shape:
            y = double(x)
        def inner(z):
            return z + size
        return inner(y) + self.gain * SCALE + double(x) + torch.sin(x)
"""


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (18, "self.gain: a tensor of float; set at line 11"),
        (18, "SCALE: 2.0; set at line 3"),
        (18, "y: a tensor (by annotation or use); set at line 15"),
        (18, "double(x): a tensor (by annotation or use); returned by line 5"),
        (18, "torch.sin(x): a tensor of float; what `torch.sin` returns"),
        (17, "size: a Python int from a shape; of the enclosing function"),
    ],
)
def test_values_are_told_with_where_they_come_from(line: int, text: str) -> None:
    (path,) = write({"model.py": ORIGINS})
    assert f"  {text}" in explain(path, line, Settings(root=Path.cwd())).splitlines()


CHAIN = {
    "pkg/__init__.py": "",
    "pkg/leaf.py": "def _leaf(x):\n    return x.sum()\n",
    "pkg/middle.py": "from .leaf import _leaf\ndef _middle(x):\n    return _leaf(x)\n",
    "pkg/top.py": """
        import torch
        from .middle import _middle
        class M(torch.nn.Module):
            def forward(self, x):
                return _middle(x)
        """,
    "pkg/other.py": "def other(x):\n    return x\n",
}


def test_neighbours_are_the_files_that_lead_to_a_line() -> None:
    files = [Path(name).resolve() for name in CHAIN]
    write(CHAIN)
    found = neighbours(Path("pkg/leaf.py").resolve(), 2, files)
    assert [file.name for file in found] == ["middle.py", "top.py"]


def test_a_line_outside_of_definitions_has_no_neighbours() -> None:
    files = write({"pkg/leaf.py": "X = 1\n", "pkg/other.py": "from leaf import X\n"})
    assert neighbours(files[0], 1, files) == []


def test_the_package_of_a_file_is_its_top_level_folder() -> None:
    write({**CHAIN, "pkg/sub/__init__.py": "", "pkg/sub/deep.py": ""})
    assert package_of(Path("pkg/sub/deep.py").resolve()) == Path("pkg").resolve()
    assert package_of(Path("script.py").resolve()) == Path.cwd()


def test_a_file_that_is_no_python_is_told(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("def f(:\n")
    with pytest.raises(ConfigError, match=r"bad\.py: not valid Python [\d.]+: "):
        explain(file, 1, Settings(root=tmp_path))
