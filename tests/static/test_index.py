"""What one file binds, and under which names and paths its imports lead."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from compilelint.static.project.index import Import, ModuleIndex, index_source
from compilelint.static.project.naming import module_name
from compilelint.static.project.parsing import ReadError, read_module

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


def index(source: str, name: str = "pkg.mod", is_package: bool = False) -> ModuleIndex:
    return index_source(Path("mod.py"), name, is_package, source)


def told(module: ModuleIndex) -> dict[str, str]:
    return {name: words(binding) for name, binding in module.bindings.items()}


def words(binding: object) -> str:
    if isinstance(binding, Import):
        return f"{binding.module}:{binding.attribute}"
    if isinstance(binding, ast.expr):
        return ast.unparse(binding)
    assert isinstance(binding, ast.stmt)
    return f"{type(binding).__name__}:{binding.lineno}"


@pytest.mark.parametrize(
    ("source", "bindings"),
    [
        ("import torch", {"torch": "torch:"}),
        ("import torch.nn.functional", {"torch": "torch:"}),
        ("import torch.nn.functional as F", {"F": "torch.nn.functional:"}),
        ("import torch as th, numpy", {"th": "torch:", "numpy": "numpy:"}),
        ("from torch import nn, Tensor as T", {"nn": "torch:nn", "T": "torch:Tensor"}),
        ("from . import layers", {"layers": "pkg:layers"}),
        ("from .layers import Gate", {"Gate": "pkg.layers:Gate"}),
        ("from ..other import f as g", {"g": "other:f"}),
        ("def f(): pass\nclass C: pass", {"f": "FunctionDef:1", "C": "ClassDef:2"}),
        ("async def f(): pass", {"f": "AsyncFunctionDef:1"}),
        ("a = b = 3", {"a": "3", "b": "3"}),
        ("a: int = 3\nb: int", {"a": "3"}),
        ("a = 1\na = 2", {"a": "2"}),
        ("def f(): pass\nf = wrap(f)", {"f": "wrap(f)"}),
        ("a = 1\nif FAST:\n    a = 2\n    b = 3", {"a": "1", "b": "3"}),
        ("if FAST:\n    a = 1\nelse:\n    a = 2", {"a": "1"}),
        ("try:\n    import fast\nexcept ImportError:\n    fast = None", {"fast": "fast:"}),
        ("try:\n    pass\nexcept E:\n    a = 1\nelse:\n    b = 2\nfinally:\n    c = 3", {"a": "1", "b": "2", "c": "3"}),
        ("if TYPE_CHECKING:\n    from .layers import Gate", {"Gate": "pkg.layers:Gate"}),
        (
            "with torch.no_grad():\n    a = 1\nfor i in r:\n    b = 2\nwhile w:\n    c = 3",
            {"a": "1", "b": "2", "c": "3"},
        ),
        ("def f():\n    inner = 1\nclass C:\n    member = 1", {"f": "FunctionDef:1", "C": "ClassDef:3"}),
    ],
)
def test_bindings(source: str, bindings: dict[str, str]) -> None:
    assert told(index(source)) == bindings


@pytest.mark.parametrize(
    ("source", "earlier"),
    [
        ("m = C()\nm = m.cuda()\nm = torch.compile(m)", {"m": ["C()", "m.cuda()"]}),
        ("def f(): pass\nf = wrap(f)", {"f": ["FunctionDef:1"]}),
        ("from m import f\nf = wrap(f)", {"f": ["m:f"]}),
        ("m = C()\nm = m.cuda()\nm = D()", {}),
        ("m = m.cuda()", {}),
        ("a = 1\na = 2\nb = b", {}),
    ],
)
def test_what_a_name_was_before_it_was_bound_to_something_made_of_it(
    source: str, earlier: dict[str, list[str]]
) -> None:
    assert {name: [words(b) for b in bound] for name, bound in index(source).earlier.items()} == earlier


@pytest.mark.parametrize(
    ("source", "otherwise"),
    [
        ("try:\n    import fast\nexcept ImportError:\n    fast = None", {"fast": "None"}),
        ("try:\n    from fast import op as f\nexcept ImportError:\n    f = None", {"f": "None"}),
        ("try:\n    import fast\n    HAS = True\nexcept ImportError:\n    HAS = False", {"True": "False"}),
        ("try:\n    import torch.fast as fast\nexcept ImportError:\n    fast = None", {}),
        ("try:\n    import fast\nexcept ImportError:\n    from . import slow as fast", {}),
        ("HAS = False\ntry:\n    import fast\n    HAS = True\nexcept ImportError:\n    HAS = None", {}),
    ],
)
def test_what_stands_for_an_absent_library(source: str, otherwise: dict[str, str]) -> None:
    found = index(source).otherwise.items()
    assert {
        name if isinstance(name, str) else ast.unparse(name): ast.unparse(other) for name, other in found
    } == otherwise


@pytest.mark.parametrize(
    ("statement", "importing", "is_package", "origin"),
    [
        ("from . import x", "pkg.mod", False, "pkg"),
        ("from . import x", "pkg", True, "pkg"),
        ("from .sub import x", "pkg.mod", False, "pkg.sub"),
        ("from .sub import x", "pkg", True, "pkg.sub"),
        ("from .. import x", "pkg.a.b", False, "pkg"),
        ("from .. import x", "pkg.a", True, "pkg"),
        ("from ...core.types import x", "pkg.a.b.c", False, "pkg.core.types"),
        ("from .... import x", "pkg.mod", False, ""),
        ("from torch.nn import x", "pkg.mod", False, "torch.nn"),
    ],
)
def test_relative_imports(statement: str, importing: str, is_package: bool, origin: str) -> None:
    assert told(index(statement, importing, is_package)) == {"x": f"{origin}:x"}


def test_star_imports_bind_nothing_themselves() -> None:
    module = index("from .a import *\nfrom torch.nn import *\nfrom . import *")
    assert module.stars == ["pkg.a", "torch.nn", "pkg"]
    assert not module.bindings


@pytest.mark.parametrize(
    ("file", "name", "root"),
    [
        ("script.py", "script", ""),
        ("tools/script.py", "script", "tools"),
        ("pkg/__init__.py", "pkg", ""),
        ("pkg/mod.py", "pkg.mod", ""),
        ("src/pkg/sub/mod.py", "pkg.sub.mod", "src"),
        ("src/pkg/sub/__init__.py", "pkg.sub", "src"),
        ("not-a-name/mod.py", "mod", "not-a-name"),
        ("pkg/plain/mod.py", "pkg.plain.mod", ""),
        ("pkg/project/mod.py", "mod", "pkg/project"),
    ],
)
def test_module_names(file: str, name: str, root: str, folder: Path) -> None:
    for package in ("pkg", "src/pkg", "src/pkg/sub", "not-a-name"):
        (folder / package).mkdir(parents=True, exist_ok=True)
        (folder / package / "__init__.py").touch()
    (folder / "pkg/project").mkdir()
    (folder / "pkg/project/pyproject.toml").touch()
    assert module_name(folder / file) == (name, folder / root)


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b"def f(:\n", f"not valid Python {RUNNING}: invalid syntax", 1),
        (b"x = 1\ny = (\n", f"not valid Python {RUNNING}: '(' was never closed", 2),
        (b"x = '\xff'\n", "not UTF-8", None),
        (b"x = 1\0\n", "null bytes", None),
    ],
)
def test_what_cannot_be_parsed(data: bytes, message: str, line: int | None, folder: Path) -> None:
    (folder / "bad.py").write_bytes(data)
    with pytest.raises(ReadError, match=message.replace("(", r"\(")) as caught:
        read_module(folder / "bad.py", "bad")
    assert line is None or caught.value.line == line
    assert "\n" not in str(caught.value)


def test_a_file_that_is_gone(folder: Path) -> None:
    with pytest.raises(ReadError, match=r"^cannot be read: No such file or directory$"):
        read_module(folder / "gone.py", "gone")
