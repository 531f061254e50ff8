"""Collecting garbage or asking about memory, devices and threads splits the graph.

## What it does
Finds `gc` calls, memory statistics (`torch.cuda.memory_allocated` and its kin), `torch.cuda.device_count`, thread
counts, `torch.backends.mps.is_available` and other questions about the build, settings that torch keeps in C
(`torch._C._is_tracing`), and `Tensor.is_pinned`, `storage_offset` and `share_memory_` in code that Dynamo traces.

## Why it costs
The answers are Python numbers about the process, and an operator that gives no tensor can't stand in a graph
(GB0208); `gc` and `set_num_threads` are C functions that Dynamo does not call (GB0007). What a memory counter shows
between two halves of a split function is not what the compiled function would use either.

## Write instead
Ask before or after the compiled call, or once in `__init__`; for a memory profile use
`torch.cuda.memory._record_memory_history`.

## Limits
`torch.cuda.is_available()`, `torch.cuda.empty_cache()`, `reset_peak_memory_stats`, `element_size`, `nbytes`,
`data_ptr()` and reading or setting `torch.backends` flags compile; from torch 2.14 on `torch.backends.mps.is_available`
and `is_built` too. Measured on torch 2.13, on a build without CUDA.

## References
torch.compile documentation: "Common Graph Breaks". GB0007, GB0208.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
MEMORY = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats")
DEVICE = ("device_count", "mem_get_info", "utilization", "get_device_name")
AVAILABLE = ("mps", "cudnn", "mkldnn", "mkl", "openmp", "opt_einsum", "nnpack", "cusparselt", "kleidiai")
QUERIES = frozenset(
    [f"torch.{kind}.{name}" for kind in ("cuda", "xpu", "mps", "accelerator") for name in MEMORY + DEVICE]
    + [f"torch.{name}" for name in ("get_num_threads", "set_num_threads", "get_num_interop_threads")]
    + [f"gc.{name}" for name in ("collect", "disable", "enable", "freeze", "isenabled", "get_objects", "get_referrers")]
    + [f"torch.backends.{name}.is_available" for name in AVAILABLE]
    + ["torch.backends.cpu.get_cpu_capability", "torch.backends.opt_einsum.get_opt_einsum"]
    + ["torch.backends.mps.is_built", "torch.backends.cuda.is_built", "torch.cuda.is_bf16_supported"]
    + ["psutil.Process", "psutil.virtual_memory", "resource.getrusage", "tracemalloc.get_traced_memory"]
)
ANSWERED_FROM_2_14 = frozenset({"torch.backends.mps.is_available", "torch.backends.mps.is_built"})
TRACED = frozenset(
    f"torch._C.{name}"
    for name in (
        *("_get_tracing_state", "_get_cublas_allow_tf32", "_get_cudnn_sdp_enabled", "_get_flash_sdp_enabled"),
        *("_get_math_sdp_enabled", "_get_mem_efficient_sdp_enabled", "_get_overrideable_sdp_enabled"),
        *("_get_cublas_allow_bf16_reduced_precision_reduction", "_get_cublas_allow_fp16_reduced_precision_reduction"),
        "_get_privateuse1_backend_name",
        *("_get_sm_carveout_experimental", "_is_any_autocast_enabled", "_is_torch_function_all_disabled"),
        *("_is_torch_function_enabled", "_is_torch_function_mode_enabled"),
    )
)
"""The settings under `torch._C` that Dynamo answers; it asks the others as if they were operators."""
OF_TENSOR = frozenset({"is_pinned", "storage_offset", "share_memory_"})
"""Methods that nothing but a tensor has, so that an unknown receiver is taken for one."""


def _asks_of_process(name: str) -> bool:
    is_setting = name.startswith(("torch._C._get_", "torch._C._is_")) and name.count(".") == 2
    return name in QUERIES or (is_setting and name not in TRACED)


def _asks(name: str) -> bool:
    return _asks_of_process(name) or name.rpartition(".")[2] in OF_TENSOR


WATCH = Watch(nodes=(ast.Call,), callees=_asks)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per question about the process."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    owner, _, name = callee.rpartition(".")
    if callee in ANSWERED_FROM_2_14 and view.torch >= (2, 14):
        return
    if not _asks_of_process(callee) and not (name in OF_TENSOR and owner in ("torch.Tensor", "?")):
        return
    yield Hit(
        node,
        f"`{view.text(node)}` is about "
        + ("where a tensor lies, not about its values" if name in OF_TENSOR else "the process, not about tensors")
        + ": Dynamo can't put it in a graph and splits here",
        "call it before or after the compiled code, and pass in what the code needs of it",
        "likely" if owner == "?" else "certain",
    )


BAD = (
    Example(
        code="""\
import gc

import torch
from torch import nn


class Frugal(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 16)
        self.down = nn.Linear(16, 4)

    def forward(self, x):
        h = torch.relu(self.up(x))
        used = torch.cuda.memory_allocated()  # ~
        y = self.down(h)
        gc.collect()  # ~
        traced = torch._C._is_tracing() or torch._C._get_mkldnn_enabled()  # ~
        return y, used, traced
""",
        run="(Frugal(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


@torch.compile
def to_pinned(x):
    y = x + 1
    if y.is_pinned():  # ~
        return y
    return y * 2
""",
        run="(to_pinned, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import gc

import torch
from torch import nn


class Frugal(nn.Module):
    def __init__(self):
        super().__init__()
        gc.collect()
        self.workers = torch.get_num_threads()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        if torch.cuda.is_available() or torch._C._get_tracing_state() or torch.jit.is_tracing():
            x = x + 1
        if torch._C._get_privateuse1_backend_name() == "npu":
            x = x + 2
        size = x.element_size() * x.numel()
        return self.fc(x) / (size * self.workers)
""",
        run="(Frugal(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
