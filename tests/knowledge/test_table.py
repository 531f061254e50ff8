"""The reader and the shipped tables: what they say about names whose behaviour is known, without torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compilelint.knowledge.table import Fact, Probe, Table, load, shipped

COMPILES = Probe(None, None)


@pytest.fixture(scope="module")
def table() -> Table:
    return load("2.13.0+cpu")


def fact(table: Table, name: str) -> Fact:
    found = table.fact(name)
    assert found is not None, f"{name} is not in the table"
    return found


def test_reading_imports_neither_torch_nor_numpy() -> None:
    use = "from compilelint.knowledge.table import load; load(None).fact('torch.nonzero')"
    code = f"import sys; {use}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy"} & {name.partition(".")[0] for name in run.stdout.split()}


def test_loading_is_quick(table: Table) -> None:
    best = min(_timed_load() for _ in range(5))
    assert best < 0.05, f"took {best * 1000:.0f} ms of processor time; keep the file small or split it"


def _timed_load() -> float:
    load.cache_clear()
    start = time.process_time()
    load("2.13")
    return time.process_time() - start


@pytest.mark.parametrize(
    ("name", "shape", "outcome"),
    [
        ("torch.Tensor.item", "tensor0d", Probe("GB0124", None)),
        ("torch.nonzero", "tensor", Probe("GB0036", None)),
        ("torch.Tensor.nonzero", "tensor:bool", Probe("GB0036", None)),
        ("torch.where", "tensor:bool", Probe("GB0036", None)),
        ("torch.where", "tensor:bool,tensor,tensor", COMPILES),
        ("torch.repeat_interleave", "tensor,tensor:int", Probe("GB0036", None)),
        ("torch.repeat_interleave", "tensor,int", COMPILES),
        ("torch.nn.functional.one_hot", "tensor:int", Probe("GB0246", "GB0246")),
        ("torch.nn.functional.one_hot", "tensor:int,int", COMPILES),
        ("torch.Tensor.tolist", "tensor", Probe("GB0109", "GB0109")),
        ("torch.Tensor.tolist", "tensor:int", Probe("GB0033", None)),
        ("torch.equal", "tensor,tensor", Probe("GB0033", "GB0033")),
        ("torch.manual_seed", "int", Probe("GB0007", "GB0007")),
        ("torch.Tensor.data", "get", COMPILES),
        ("torch.Tensor.data", "set", Probe("GB0056", "GB0056")),
        ("torch.Tensor.__getitem__", "tensor,tensor:bool", Probe("GB0036", None)),
        ("torch.Tensor.__getitem__", "tensor,int", COMPILES),
        ("torch.Tensor.backward", "loss", Probe("GB0123", "GB0123")),
        ("torch.Tensor.requires_grad_", "tensor", COMPILES),
        ("torch.Tensor.requires_grad_", "tensor@input", Probe("GB0125", "GB0125")),
        ("torch.cond", "tensor0d:bool,callable,callable,list[tensor]", COMPILES),
        ("torch.nn.LSTM", "call", Probe("GB0014", "GB0014")),
        ("torch.nn.Linear", "call", COMPILES),
        ("torch.nn.Linear", "construct", Probe("GB0264", "GB0264")),
        ("torch.nn.ReLU", "construct", COMPILES),
        ("math.sqrt", "tensor0d", Probe("GB0033", "?")),
        ("math.sqrt", "int", COMPILES),
        ("random.random", "none", Probe("GB0007", "GB0007")),
        ("random.randint", "int,int", COMPILES),
        ("random.shuffle", "list", Probe("GB0007", "GB0007")),
        ("copy.deepcopy", "tensor", Probe("GB4198", "GB4198")),
        ("copy.deepcopy", "list", COMPILES),
        ("builtins.print", "str", Probe("GB0059", "GB0059")),
        ("builtins.len", "tensor", COMPILES),
        ("logging.Logger.info", "self,str", Probe("GB0291", "GB0291")),
        ("warnings.warn", "str", Probe("GB0007", "GB0007")),
        ("contextlib.nullcontext", "with", COMPILES),
        ("threading.Lock", "with", Probe("GB0007", "GB0007")),
    ],
)
def test_known_outcomes(table: Table, name: str, shape: str, outcome: Probe) -> None:
    assert fact(table, name).probe(shape) == outcome


@pytest.mark.parametrize(
    ("name", "returns"),
    [
        ("torch.isnan", "tensor:bool"),
        ("torch.argmax", "tensor:int"),
        ("torch.is_tensor", "bool"),
        ("torch.equal", "bool"),
        ("torch.Tensor.is_contiguous", "bool"),
        ("torch.Tensor.dim", "int"),
        ("torch.Tensor.shape", "size"),
        ("torch.Tensor.dtype", "dtype"),
        ("torch.Tensor.is_cuda", "bool"),
        ("torch.Tensor.item", "scalar"),
        ("torch.Tensor.topk", "tuple[tensor:same,tensor:int]"),
        ("torch.Tensor.max", "tensor:same|tuple[tensor:same,tensor:int]"),
        ("torch.Tensor.numpy", "array:same"),
        ("torch.Tensor.split", "list[tensor:same]"),
        ("torch.nn.Linear", "module"),
        ("math.sqrt", "float"),
        ("time.time", "float"),
        ("os.path.exists", "bool"),
        ("datetime.datetime.now", "object:datetime.datetime"),
        ("logging.getLogger", "object:logging.Logger"),
    ],
)
def test_known_returns(table: Table, name: str, returns: str) -> None:
    assert fact(table, name).returns == returns


def test_returns_of_single_shapes(table: Table) -> None:
    assert fact(table, "torch.Tensor.max").returned["tensor,int"] == "tuple[tensor:same,tensor:int]"
    assert fact(table, "torch.Tensor.size").returned == {
        **fact(table, "torch.Tensor.size").returned,
        "tensor,int": "int",
    }


def test_the_use_of_a_result_can_break_where_the_call_does_not(table: Table) -> None:
    randint = fact(table, "random.randint")
    assert randint.probe("int,int", use="value") == COMPILES
    assert randint.probe("int,int", use="test") == Probe("GB0170", "?")
    assert fact(table, "numpy.prod").probe("tuple") == COMPILES
    assert fact(table, "numpy.prod").probe("tuple", use="number") == Probe("GB0033", None)


def test_a_shape_that_was_not_tried_breaks_if_every_other_one_does(table: Table) -> None:
    assert "dict,dict" not in fact(table, "builtins.print").probes
    assert fact(table, "builtins.print").probe("dict,dict") == Probe("GB0059", "GB0059")
    assert fact(table, "math.sqrt").probe("dict,dict") is None


def test_settled_means_that_arguments_do_not_matter(table: Table) -> None:
    assert fact(table, "builtins.print").settled == Probe("GB0059", "GB0059")
    assert fact(table, "math.sqrt").settled is None


def test_tags_come_from_the_operators(table: Table) -> None:
    assert "dynamic_output_shape" in fact(table, "torch.nonzero").tags
    assert "data_dependent_output" in fact(table, "torch.Tensor.item").tags
    assert not fact(table, "torch.sin").tags


def test_unknown_names_have_no_fact(table: Table) -> None:
    assert table.fact("torch.no_such_function") is None
    assert "torch.no_such_function" not in table


@pytest.mark.parametrize(
    ("version", "read"),
    [
        ("1.0", "2.11"),
        ("2.11.1", "2.11"),
        ("2.12.0", "2.13"),
        ("2.13", "2.13"),
        ("2.13.1+cu130", "2.13"),
        ("2.14.1", "2.14"),
        ("2.99.0.dev20270101", "2.14"),
    ],
)
def test_the_oldest_table_at_or_above_is_read_or_the_newest(version: str, read: str) -> None:
    table = load(version)
    assert table.version.startswith(f"{read}.")
    assert table.target == tuple(map(int, version.split(".")[:2]))


def test_without_a_version_the_installed_torch_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    (package / "version.py").write_text("__all__ = ['__version__']\n__version__ = '2.13.0+cpu'\ndebug = False\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert load.__wrapped__(None).target == (2, 13)


def test_without_any_torch_the_newest_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert load.__wrapped__(None).target == shipped()[-1]


def test_a_version_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected something like"):
        load("nightly")
