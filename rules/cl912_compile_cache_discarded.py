"""A compile cache that is switched off or put into a temporary folder makes every start compile anew.

## What it does
Finds, in files that compile, `TORCHINDUCTOR_CACHE_DIR` set to a folder that `tempfile` has just made,
`TORCHINDUCTOR_FORCE_DISABLE_CACHES` or vLLM's `VLLM_DISABLE_COMPILE_CACHE` set to `"1"`, and
`torch._inductor.config.force_disable_caches = True` or `fx_graph_cache = False`.

## Why it costs
Inductor keeps what it has compiled on disk, by default under the system's temporary folder, and a second start of the
same program takes it from there: seconds instead of minutes for a large model. With the cache off or in a fresh folder
each start, each worker and each restart after a crash compiles everything again. Measured on torch 2.13 (CPU): the
second start of a function of three operations finds its graph in a kept folder (`fxgraph_cache_hit`, 1.5 s instead of
9.4), in a fresh one it does not, and with caches disabled nothing is looked up.

## Write instead
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/var/cache/myservice/inductor")

In a container give it a mounted volume, or ship the artifacts: `torch.compiler.save_cache_artifacts()`.

## Limits
Benchmarks and tests, by the name of their file or folder, may switch the cache off: they measure a cold start.

## References
PyTorch documentation "Compile Time Caching in torch.compile".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once

HAZARD = "placement"
WATCH = Watch(nodes=(ast.Assign,), regions=frozenset({"host"}))
SWITCHES = frozenset({"TORCHINDUCTOR_FORCE_DISABLE_CACHES", "VLLM_DISABLE_COMPILE_CACHE"})
FRESH = ("tempfile.mkdtemp", "mkdtemp", "tempfile.TemporaryDirectory", "tempfile.gettempprefix")


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the assignment by which compiled code is not found again at the next start."""
    if not isinstance(node, ast.Assign):
        return
    target = node.targets[0]
    off = _switches_off(target, node.value) and not view.measures
    if off or _is_fresh_folder(target, node.value, view):
        yield Hit(
            target,
            f"`{view.text(node)}` throws compiled code away when the program ends: every start compiles everything"
            " again",
            "leave the cache on, and switch it off by hand where a cold start is to be measured"
            if off
            else 'keep it in a folder that lasts: `os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/var/cache/…")`',
            "likely",
        )


def _variable(target: ast.expr) -> str:
    """The name of the environment variable that `os.environ["NAME"]` stores to; empty for another target."""
    if isinstance(target, ast.Subscript) and ast.unparse(target.value).endswith("environ"):
        name = target.slice.value if isinstance(target.slice, ast.Constant) else ""
        return name if isinstance(name, str) else ""
    return ""


def _switches_off(target: ast.expr, value: ast.expr) -> bool:
    if not isinstance(value, ast.Constant):
        return False
    if _variable(target) in SWITCHES:
        return value.value == "1"
    owner, _, name = ast.unparse(target).rpartition(".")
    if not owner.endswith("inductor.config"):
        return False
    return (name == "force_disable_caches" and value.value is True) or (
        name == "fx_graph_cache" and value.value is False
    )


def _is_fresh_folder(target: ast.expr, value: ast.expr, view: View) -> bool:
    if _variable(target) != "TORCHINDUCTOR_CACHE_DIR":
        return False
    made = assigned_once(view.function, value.id) if isinstance(value, ast.Name) else value
    while isinstance(made, ast.Attribute):
        made = made.value
    return isinstance(made, ast.Call) and ast.unparse(made.func) in FRESH


BAD = (
    Example(
        code="""\
import os
import tempfile

import torch
from torch import nn

os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # ~
torch._inductor.config.force_disable_caches = True  # ~

compiled = torch.compile(nn.Linear(4, 4))
""",
    ),
)

GOOD = (
    Example(
        code="""\
import os
import tempfile

import torch
from torch import nn

os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/var/cache/model/inductor"
os.environ["MODEL_SCRATCH"] = tempfile.mkdtemp()
torch._inductor.config.fx_graph_cache = True

compiled = torch.compile(nn.Linear(4, 4))
""",
    ),
)
