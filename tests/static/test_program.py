"""All files together: what a name means across imports, how classes inherit, and which of them are modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from projects import probe, write

from compilelint.static.project.definitions import ClassRef, FunctionRef, Outside
from compilelint.static.project.index import ModuleIndex
from compilelint.static.project.program import Program

PACKAGE = {
    "pkg/__init__.py": """
        from .layers import Gate as PublicGate
        from .ops import *
        from . import config
        """,
    "pkg/layers.py": """
        import torch.nn as nn
        from torch import nn as nn2
        from .config import SIZE, Config
        from .lists import *
        class Gate(nn.Module):
            class Options: pass
            def forward(self, x): return x
        class Soft(Gate): pass
        """,
    "pkg/ops.py": """
        import math
        from torch.nn import functional as F
        from .layers import Gate
        def relu(x): return x
        _hidden = 1
        """,
    "pkg/config.py": """
        SIZE = 4
        class Config: pass
        """,
    "pkg/lists.py": """
        __all__ = ["listed"]
        listed = 1
        unlisted = 2
        """,
    "pkg/optional.py": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from .layers import Gate
        try:
            from fast_ops import relu
        except ImportError:
            from .ops import relu
        if TYPE_CHECKING:
            import pkg.config as settings
        """,
    "pkg/sub/__init__.py": "",
    "pkg/sub/deep.py": """
        from ..ops import relu as activation
        from .. import layers
        from ...nowhere import gone
        import pkg.config
        """,
    "main.py": """
        import pkg
        import pkg.layers as L
        from pkg import PublicGate, relu, config, layers, F, missing
        from pkg.sub.deep import activation
        from pkg.sub import deep
        """,
}


def program(files: dict[str, str]) -> Program:
    return Program(write(files))


def words(found: object) -> str:
    if isinstance(found, ClassRef):
        return f"class {found.module}:{found.qualname}"
    if isinstance(found, FunctionRef):
        return f"def {found.module}:{found.qualname}"
    if isinstance(found, ModuleIndex):
        return f"module {found.name}"
    if isinstance(found, Outside):
        return f"outside {found.name}"
    return ast.unparse(found) if isinstance(found, ast.expr) else "nothing"


@pytest.mark.parametrize(
    ("module", "name", "meaning"),
    [
        ("pkg.layers", "nn", "outside torch.nn"),
        ("pkg.layers", "nn2.Module", "outside torch.nn.Module"),
        ("pkg.layers", "SIZE", "4"),
        ("pkg.layers", "Config", "class pkg.config:Config"),
        ("pkg.layers", "listed", "1"),
        ("pkg.layers", "Gate.Options", "class pkg.layers:Gate.Options"),
        ("pkg.layers", "Gate.absent", "nothing"),
        ("pkg.layers", "nowhere", "nothing"),
        ("pkg.ops", "math.pi", "outside math.pi"),
        ("pkg.ops", "F.relu", "outside torch.nn.functional.relu"),
        ("pkg", "PublicGate", "class pkg.layers:Gate"),
        ("pkg", "relu", "def pkg.ops:relu"),
        ("pkg", "Gate", "class pkg.layers:Gate"),
        ("pkg", "config.SIZE", "4"),
        ("pkg.optional", "Gate", "class pkg.layers:Gate"),
        ("pkg.optional", "relu", "outside fast_ops.relu"),
        ("pkg.optional", "settings.Config", "class pkg.config:Config"),
        ("pkg.sub.deep", "activation", "def pkg.ops:relu"),
        ("pkg.sub.deep", "layers.Soft", "class pkg.layers:Soft"),
        ("pkg.sub.deep", "gone", "outside nowhere.gone"),
        ("pkg.sub.deep", "pkg.config.SIZE", "4"),
        ("main", "pkg", "module pkg"),
        ("main", "pkg.PublicGate", "class pkg.layers:Gate"),
        ("main", "pkg.ops.relu", "def pkg.ops:relu"),
        ("main", "L.Gate", "class pkg.layers:Gate"),
        ("main", "PublicGate", "class pkg.layers:Gate"),
        ("main", "relu", "def pkg.ops:relu"),
        ("main", "config", "module pkg.config"),
        ("main", "layers", "module pkg.layers"),
        ("main", "F.pad", "outside torch.nn.functional.pad"),
        ("main", "missing", "outside pkg.missing"),
        ("main", "activation", "def pkg.ops:relu"),
        ("main", "deep.layers.Gate", "class pkg.layers:Gate"),
    ],
)
def test_what_a_name_means(module: str, name: str, meaning: str) -> None:
    project = program(PACKAGE)
    index = project.module(module)
    assert index is not None
    assert words(project.dotted(ast.parse(name, mode="eval").body, index)) == meaning


@pytest.mark.parametrize(
    ("text", "name", "bound"),
    [
        ('__all__ = ["a"]\na = 1', "a", True),
        ('__all__: list[str] = ("a",)\na = 1\nb = 2', "a", True),
        ("a = 1", "a", True),
        ("a: int = 1", "a", True),
        ("def a(): pass", "a", True),
        ("async def a(): pass", "a", True),
        ("class a: pass", "a", True),
        ("from m import a", "a", True),
        ("from m import (\n    b,\n    a,\n)", "a", True),
        ("from m import x as a", "a", True),
        ("import a", "a", True),
        ("try:\n    import a\nexcept ImportError:\n    a = None", "a", True),
        ('__all__ = ["b"]\n__all__ += ["a"]\na = 1\nb = 2', "a", True),
        ("from m import *", "a", False),
        ("b = 1", "a", False),
    ],
)
def test_star_imports_find_what_a_file_binds(text: str, name: str, bound: bool) -> None:
    project = program({"source.py": text, "main.py": "from source import *"})
    index = project.module("main")
    assert index is not None
    assert (project.resolve(index, name) is not None) is bound


def test_star_imports_read_only_the_file_that_binds_the_name() -> None:
    write({"huge.py": "def f(: broken", "small.py": "wanted = 1"})
    project = Program(write({"main.py": "from huge import *\nfrom small import *"}))
    index = project.module("main")
    assert index is not None
    assert words(project.resolve(index, "wanted")) == "1"
    assert not project.failures


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": "from b import x", "b.py": "from a import x"},
        {"a.py": "from b import *", "b.py": "from a import *"},
        {"a.py": "from a import x"},
        {"a.py": "from b import *", "b.py": "from c import *", "c.py": "from a import *\nfrom b import *"},
    ],
)
def test_circles_of_imports_end(files: dict[str, str]) -> None:
    project = program(files)
    index = project.module("a")
    assert index is not None
    assert words(project.resolve(index, "x")) in ("nothing", "outside a.x", "outside b.x")


def test_long_chains_of_reexports_end_outside() -> None:
    files = {f"m{i}.py": f"from m{i + 1} import f" for i in range(30)}
    project = program({**files, "m30.py": "def f(): pass"})
    near, far = project.module("m20"), project.module("m0")
    assert near is not None and far is not None
    assert words(project.resolve(near, "f")) == "def m30:f"
    assert words(project.resolve(far, "f")).startswith("outside m")


def test_files_of_one_name_are_kept_apart() -> None:
    project = program({"one/train.py": "SIZE = 1", "two/train.py": "SIZE = 2"})
    assert len(set(project.linted)) == 2
    modules = [project.module(name) for name in project.linted]
    assert [words(project.resolve(module, "SIZE")) for module in modules if module] == ["1", "2"]


def test_two_scripts_of_one_name_are_both_linted() -> None:
    text = """
        import torch
        @torch.compile
        def step(x):
            probe(x)
        """
    seen = probe({"one/train.py": text, "two/train.py": text})
    assert {finding.path for finding in seen.findings} == {"one/train.py", "two/train.py"}


@pytest.mark.parametrize(
    ("name", "found"),
    [("helper", True), ("json", False), ("folder.mod", False), ("no such name", False), ("pkg", False)],
)
def test_what_counts_as_the_project(name: str, found: bool) -> None:
    """Next to a linted script its neighbours do; the standard library, and packages nobody lints, do not."""
    write({"helper.py": "", "json.py": "", "folder/mod.py": "", "pkg/mod.py": ""})
    project = Program(write({"main.py": ""}))
    assert (project.module(name) is not None) is found


def test_the_assigned_expression_belongs_to_the_file_it_stands_in() -> None:
    project = program({"a.py": "from b import x", "b.py": "from c import *", "c.py": "x = make()"})
    index = project.module("a")
    assert index is not None
    found = project.resolve(index, "x")
    assert found is not None
    assert project.home(found, index, "x").name == "c"


CLASSES = """
    import abc, enum
    import torch
    from torch import nn
    from torch.nn import Module
    from lightning import LightningModule
    from transformers import PreTrainedModel
    from typing import Generic, Protocol, TypeVar
    T = TypeVar("T")
    class Plain: pass
    class Base(nn.Module):
        def forward(self, x): return x
        def extra(self): pass
    class Left(Base):
        def forward(self, x): return x
    class Right(Base):
        def extra(self): pass
    class Diamond(Left, Right): pass
    class Mixin:
        def extra(self): pass
    class Mixed(Mixin, Base): pass
    class Typed(Base, Generic[T]): pass
    class Indexed(Typed[int]): pass
    class Short(Module): pass
    class Listed(nn.ModuleList): pass
    class Weight(nn.Parameter): pass
    class Square(torch.autograd.Function):
        def forward(ctx, x): return x
    class Data(torch.utils.data.Dataset):
        def forward(self, x): return x
    class Hugging(PreTrainedModel):
        def forward(self, x): return x
    class Configured(PreTrainedModel): pass
    class Abstract(abc.ABC):
        def forward(self, x): return x
    class Colour(enum.Enum):
        def forward(self, x): return x
    class Speaks(Protocol):
        def forward(self, x): return x
    class Made(make_base()):
        def forward(self, x): return x
    class Loop(Loop): pass
    class Ping(Pong): pass
    class Pong(Ping): pass
    class Crossed(Base, Left): pass
    if True:
        class Conditional(nn.Module): pass
    """


def class_ref(project: Program, name: str) -> ClassRef:
    index = project.module("model")
    assert index is not None
    found = project.resolve(index, name)
    assert isinstance(found, ClassRef)
    return found


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("Plain", "Plain"),
        ("Base", "Base torch.nn.Module"),
        ("Diamond", "Diamond Left Right Base torch.nn.Module"),
        ("Mixed", "Mixed Mixin Base torch.nn.Module"),
        ("Indexed", "Indexed Typed Base torch.nn.Module typing.Generic"),
        ("Made", "Made"),
        ("Loop", "Loop"),
        ("Ping", "Ping Pong"),
        ("Crossed", "Crossed Base Left torch.nn.Module"),
    ],
)
def test_method_resolution_order(name: str, order: str) -> None:
    project = program({"model.py": CLASSES})
    found = project.mro(class_ref(project, name))
    assert " ".join(base if isinstance(base, str) else base.qualname for base in found) == order


@pytest.mark.parametrize(
    ("name", "method", "owner"),
    [
        ("Diamond", "forward", "Left.forward"),
        ("Diamond", "extra", "Right.extra"),
        ("Mixed", "extra", "Mixin.extra"),
        ("Mixed", "forward", "Base.forward"),
        ("Plain", "forward", None),
    ],
)
def test_methods_are_found_along_the_order(name: str, method: str, owner: str | None) -> None:
    project = program({"model.py": CLASSES})
    found = project.method(class_ref(project, name), method)
    assert (found.qualname if isinstance(found, FunctionRef) else None) == owner


def test_super_starts_after_the_class_it_stands_in() -> None:
    project = program({"model.py": CLASSES})
    found = project.method(class_ref(project, "Diamond"), "extra", after=class_ref(project, "Right"))
    assert isinstance(found, FunctionRef) and found.qualname == "Base.extra"


CLASS_NAMES = re.findall(r"class (\w+)", CLASSES)
MODULES = frozenset("Base Left Right Diamond Mixed Typed Indexed Short Listed Hugging Crossed Conditional".split())


@pytest.mark.parametrize("name", CLASS_NAMES)
def test_which_classes_are_modules(name: str) -> None:
    project = program({"model.py": CLASSES})
    assert project.is_module(class_ref(project, name)) is (name in MODULES)


def test_a_module_through_classes_of_other_files() -> None:
    project = program(
        {
            "pkg/__init__.py": "",
            "pkg/base.py": "from torch import nn\nclass Base(nn.Module): pass",
            "pkg/middle.py": "from .base import Base\nclass Middle(Base): pass",
            "model.py": "import pkg.middle as m\nclass Model(m.Middle): pass",
        }
    )
    assert project.is_module(class_ref(project, "Model"))


def test_nothing_is_read_that_nothing_asks_for(folder: Path) -> None:
    write({"pkg/__init__.py": "", "pkg/used.py": "X = 1", "pkg/unused.py": "def broken(:"})
    project = Program((folder / "pkg" / "used.py",))
    assert project.module("pkg.used") is not None
    assert not project.failures


def test_folders_without_init_belong_to_the_package_around_them() -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/models/net.py": """
            import torch
            import side
            from ..ops import in_package
            from .parts.head import relative
            from pkg.models.parts.head import absolute
            class M(torch.nn.Module):
                def forward(self, x):
                    in_package(x), relative(x), absolute(x), side.beside(x)
            """,
        "pkg/models/side.py": "def beside(x): probe(x)",
        "pkg/models/parts/head.py": "def relative(x): probe(x)\ndef absolute(x): probe(x)",
        "pkg/ops.py": "def in_package(x): probe(x)",
    }
    assert probe(files).functions() == {"in_package", "relative", "absolute", "beside"}


@pytest.mark.parametrize("script", [True, False])
def test_scripts_name_each_other_from_the_folder_above(script: bool) -> None:
    files = {
        "models/net.py": """
            import torch
            import models.blocks as blocks
            from layers.deep.ops import run
            class M(torch.nn.Module):
                def forward(self, x):
                    run(x), blocks.block(x)
            """,
        "models/blocks.py": "def block(x): probe(x)",
        "layers/deep/ops.py": "def run(x): probe(x)",
        **({"train.py": "from models.net import M"} if script else {"layers/norm.py": ""}),
    }
    assert probe(files).functions() == {"run", "block"}


OPTIONAL = """
    import importlib
    from importlib import import_module

    def optional_import(module, version="", name=""):
        try:
            found = import_module(module)
            if name:
                found = getattr(found, name)
        except ImportError as error:
            message = str(error)
        else:
            if not version:
                return found, True
        class Missing:
            def __init__(self): raise OptionalImportError(message)
        return Missing(), False

    def lazily(name):
        return importlib.import_module(name)
    """


@pytest.mark.parametrize(
    ("made", "used", "kind"),
    [
        ('ndimage, found = optional_import("scipy.ndimage")', "ndimage.label", "`scipy.ndimage.label`"),
        ('Tree, _ = optional_import("scipy.spatial", name="KDTree")', "Tree", "`scipy.spatial.KDTree`"),
        ('optional_import("scipy")', "optional_import('zlib')[0]", "`zlib`"),
        ('zlib = lazily("zlib")', "zlib.crc32", "`zlib.crc32`"),
        ('ops = lazily("pkg.ops")', "ops.run(x)", "1"),
        ('ops = lazily(".ops")', "ops.run", "unknown"),
        ("[first, second], third = (1, 'a'), None", "third", "None"),
        ("first, *rest = 1, 2, 3", "first", "1"),
        ("*rest, last = 1, 2, 3", "last", "unknown"),
    ],
)
def test_a_module_imported_by_its_name_as_text(made: str, used: str, kind: str) -> None:
    model = f"""
    import torch
    from .optional import lazily, optional_import
    {made}
    class M(torch.nn.Module):
        def forward(self, x):
            probe({used})
    """
    files = {
        "pkg/__init__.py": "",
        "pkg/optional.py": OPTIONAL,
        "pkg/ops.py": "def run(x): return 1",
        "pkg/model.py": model,
    }
    (found,) = probe(files).kinds()
    assert found.partition(" or ")[0] == kind
