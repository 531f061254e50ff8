"""`explain`: a line that is reached, one that no path reaches, one that is not in a region."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from projects import write

from compilelint.config import Settings
from compilelint.static import explain

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
        "  x: a tensor of float\n"
        "  x * größe: a tensor of float\n"
        "  größe: a Python int from a shape"
    )


def test_a_line_with_a_finding_tells_it() -> None:
    text = told("pkg/model.py", 9)
    assert "  y.sum() > 0: a scalar tensor of bool\n" in text
    assert re.search(r"\n\nCL101 branch-on-tensor \(certain\): `y\.sum\(\) > 0` .+\n  instead: .+$", text)


def test_functions_are_told_with_the_line_they_stand_in() -> None:
    assert "  scale: the function `scale` (pkg.ops:3), defined at line 3\n" in told("pkg/model.py", 8)


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
