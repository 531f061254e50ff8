"""With which options a region is compiled, and whether Dynamo makes symbols there of sizes and numbers that change."""

from __future__ import annotations

from collections.abc import Mapping

from compilelint.rule import Varying
from compilelint.static.project.dynamo_settings import set_by
from compilelint.static.project.index import ModuleIndex
from compilelint.static.values import Const, Value

_SPECIALIZED: dict[Varying, str] = {"int": "specialize_int", "float": "specialize_float"}
"""Settings of `torch._dynamo.config` under which numbers of one type stay constants."""


def compile_options(keywords: Mapping[str, Value], module: ModuleIndex) -> dict[str, object]:
    """The constant keywords of a call of torch.compile, and what its file's settings of Dynamo come to.

    Without `automatic_dynamic_shapes` a region behaves as under `dynamic=False`: measured on torch 2.13 for arguments,
    attributes, captured variables, entries of lists and dicts, and sizes.
    """
    options = {key: value.value for key, value in keywords.items() if isinstance(value, Const)}
    if options.get("dynamic") is None and set_by(module, "automatic_dynamic_shapes") is False:
        options["dynamic"] = False
    return options | {name: True for name in _SPECIALIZED.values() if set_by(module, name) is True}


def keeps(what: Varying, options: Mapping[str, object]) -> bool:
    """Whether each new value of this type compiles again; else the second one makes it a symbol."""
    return options.get("dynamic") is False or options.get(_SPECIALIZED.get(what, "")) is True
