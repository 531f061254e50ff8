"""The table against the torch that is installed: what was recorded is what happens."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys

import pytest

from compilelint.knowledge import returns
from compilelint.knowledge.arguments import realizations, shapes
from compilelint.knowledge.returns import Seen
from compilelint.knowledge.table import load

NAMES = [
    "builtins.print",
    "copy.deepcopy",
    "datetime.datetime.now",
    "logging.Logger.info",
    "math.sqrt",
    "numpy.can_cast",
    "numpy.fromiter",
    "numpy.isdtype",
    "os.path.exists",
    "random.randint",
    "torch.Tensor.__getitem__",
    "torch.Tensor.data",
    "torch.Tensor.item",
    "torch.Tensor.max",
    "torch.no_grad",
    "torch.nn.LSTM",
    "torch.nonzero",
    "torch.repeat_interleave",
    "torch.where",
]


def test_a_new_probe_says_what_the_table_says() -> None:
    try:
        installed = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("torch is not installed")
    if not hasattr(os, "fork"):
        pytest.skip("probing needs os.fork")
    table = load(installed)
    if installed.split(".")[:2] != table.version.split(".")[:2]:
        pytest.skip(f"no table for torch {installed}; the nearest is for {table.version}")
    command = [sys.executable, "-m", "compilelint.knowledge.generate", "--only", *NAMES]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    seen = json.loads(run.stdout)["facts"]
    assert set(seen) == set(NAMES)
    for name in NAMES:
        fact = table.fact(name)
        assert fact is not None
        outcomes = dict(*seen[name][3:4])
        probed = {shape: text for text, listed in outcomes.items() for shape in listed.split()}
        recorded = {shape: f"{p.default or '-'} {p.fullgraph or '-'}" for shape, p in fact.probes.items()}
        assert probed == recorded, name
        assert seen[name][0] == fact.returns, name


def test_realizations_of_a_shape_spell_its_kinds() -> None:
    first = next(iter(realizations("tensor,int,tensor:int")))
    assert first.values == ("a0", "1", "a2")
    assert first.inputs == (("a0", "tensor2"), ("a2", "tensor:int2"))
    assert [made.values for made in realizations("none")] == [()]


def test_a_method_of_an_object_begins_with_its_receiver() -> None:
    assert all(shape == "self" or shape.startswith("self,") for shape in shapes("self"))


@pytest.mark.parametrize(
    ("runs", "whole"),
    [
        ([(("float",), "tensor:bool"), (("int",), "tensor:bool")], "tensor:bool"),
        ([(("float",), "tensor:float"), (("int",), "tensor:int")], "tensor:same"),
        ([(("float",), "tensor:float"), (("int",), "tensor:float")], "tensor:float"),
        ([(("bool", "float", "float"), "tensor:float"), (("bool", "int", "int"), "tensor:int")], "tensor:promoted"),
        ([(("float",), "int"), (("int",), "float")], "scalar"),
        ([(("float",), "tensor:float"), (("float",), "int")], "int|tensor:float"),
        ([], "unknown"),
    ],
)
def test_runs_are_combined(runs: list[tuple[tuple[str, ...], str]], whole: str) -> None:
    seen = [Seen(str(number), elements, returned) for number, (elements, returned) in enumerate(runs)]
    assert returns.combine(seen, (), takes_dtype=False)[0] == whole


def test_a_dtype_argument_leaves_the_element_type_open() -> None:
    seen = [Seen("int", (), "tensor:float")]
    assert returns.combine(seen, (), takes_dtype=True)[0] == "tensor"


def test_stubs_add_the_forms_that_were_not_run() -> None:
    seen = [Seen("tensor", ("float",), "tensor:float")]
    assert (
        returns.combine(seen, ("tensor", "tuple[tensor,tensor]"), takes_dtype=False)[0]
        == "tensor:float|tuple[tensor,tensor]"
    )
