"""A tensor that stays on the CPU when the module moves is copied over in every call.

## What it does

Finds `self.table.to(x.device)` and `self.table[:n].cuda()` in compiled code, where `__init__` made `self.table` with
a torch function and did not register it as buffer or parameter; the same for a tensor or numpy array of the file
(`MEAN.to(x.device)`), and for random numbers drawn on the CPU (`torch.randn(n).to(x.device)`).

## Why it costs

`module.to("cuda")` moves parameters and buffers only. The plain attribute stays in pageable host memory, so that
every call copies it and waits (measured on an H200 with `torch.cuda.set_sync_debug_mode`, in compiled code too, for all
of these; `torch.arange(n).to(device)` is made on the device by Inductor and is not reported). With
`mode="reduce-overhead"` the copy can't be part of a CUDA graph: the graph is split there ("DeviceCopy ops", measured
on torch 2.11), or skipped in older versions.

## Write instead

- `self.register_buffer("table", table, persistent=False)` in `__init__`, and no `.to()` in `forward`.
- `torch.randn(n, device=x.device)`.

## References

PyTorch documentation, `torch.nn.Module.register_buffer`; "CUDAGraph Trees".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import (
    class_node,
    functions_in,
    is_global,
    is_module,
    own_nodes,
    same_place,
    without_index,
)
from compilelint.static.facts.turns import names_cpu
from compilelint.static.values import Tensor, gives_arrays, options, tensor_certainty

HAZARD = "host-sync"
DRAWS = "draws random numbers on the CPU"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"to", "cuda"}))
DRAWN = frozenset(f"torch.{name}" for name in ("rand", "randn", "randint", "randperm", "normal"))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the call that moves a tensor of the host to the device."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _names_device(node, view)):
        return
    held = without_index(node.func.value)
    why = _on_host(held, view)
    if why is not None:
        yield Hit(
            node,
            f"`{view.text(held)}` {why}: every call copies it to the device and waits, and CUDA graphs are split here",
            "draw them on the device: `device=…` in the call"
            if why == DRAWS
            else f"hold it as a buffer: `self.register_buffer(…, persistent=False)`, and no `.{node.func.attr}()` here",
            confidence="likely",
        )


def _on_host(held: ast.expr, view: View) -> str | None:
    """Why a tensor is on the CPU at each call, in words; None where it need not be."""
    if isinstance(held, ast.Attribute) and is_module(view.kind(held.value)) and _stays_behind(held, view):
        return "is a plain attribute and stays on the CPU when the module moves"
    if isinstance(held, ast.Name) and is_global(held.id, view) and tensor_certainty(view.kind(held)) is not None:
        made = [
            binding.value
            for binding in view.module.body
            if isinstance(binding, ast.Assign) and any(same_place(target, held) for target in binding.targets)
        ]
        return "is a tensor of the file, on the CPU" if len(made) == 1 and _is_factory(made[0]) else None
    if isinstance(held, ast.Call):
        if _is_wrapped_array(held, view):
            return "holds an array of the file, on the CPU"
        if view.callee(held) in DRAWN and not any(keyword.arg == "device" for keyword in held.keywords):
            return DRAWS
    return None


def _is_wrapped_array(call: ast.Call, view: View) -> bool:
    """`torch.from_numpy(W)` of an array that the file makes once."""
    if view.callee(call) not in ("torch.from_numpy", "torch.as_tensor", "torch.tensor") or not call.args:
        return False
    source = call.args[0]
    device = any(keyword.arg == "device" for keyword in call.keywords)
    return (
        not device and isinstance(source, ast.Name) and is_global(source.id, view) and gives_arrays(view.kind(source))
    )


def _names_device(call: ast.Call, view: View) -> bool:
    """Whether the call moves to a device, and not to the host or to a dtype only."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    device = view.argument(call, 0, "device")
    if device is None or names_cpu(view.kind(device)) or any(k.arg == "non_blocking" for k in call.keywords):
        return False
    text = ast.unparse(device)
    return "device" in text or "cuda" in text


def _stays_behind(held: ast.Attribute, view: View) -> bool:
    """Whether `__init__` assigns the attribute a tensor made on the default device, and nothing registers it."""
    owner = class_node(view.kind(held.value), view)
    kind = view.kind(held)
    if owner is None or tensor_certainty(kind) is None or all(o.host for o in options(kind) if isinstance(o, Tensor)):
        return False
    made = False
    for function in functions_in(owner):
        for node in own_nodes(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
                if node.func.attr == "register_buffer" and held.attr in names:
                    return False
            if isinstance(node, ast.Assign) and any(_is_own(target, held.attr) for target in node.targets):
                if function.name != "__init__" or not _is_factory(node.value):
                    return False
                made = True
    return made


def _is_own(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == name and ast.unparse(target.value) == "self"


def _is_factory(value: ast.expr) -> bool:
    """A call of a torch function or of a method on its result, with no device named: `torch.arange(n).float()`."""
    text = ast.unparse(value)
    calls = isinstance(value, (ast.Call, ast.BinOp, ast.Subscript))
    return calls and text.startswith(("torch.", "1 / ", "1.0 / ", "(")) and "device" not in text and "nn." not in text


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, length=16, dim=4):
        super().__init__()
        self.embed = nn.Embedding(length, dim)
        self.scale = torch.linspace(1.0, 0.1, length)

    def forward(self, x):
        scale = self.scale[: x.shape[1], None].to(x.device)  # ~
        return self.embed(torch.arange(x.shape[1], device=x.device)) * scale
""",
        run="Positions(), [(torch.ones(1, 5, 4),) for _ in range(2)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""
import numpy as np
import torch
from torch import nn

MEAN = torch.tensor([0.5, 0.25, 0.125, 0.0])
SCALE = np.linspace(0, 1, 4, dtype="float32")


class Normalise(nn.Module):
    def forward(self, x):
        x = x - MEAN.to(x.device)  # ~
        x = x * torch.from_numpy(SCALE).to(x.device)  # ~
        return x + torch.randn(x.shape).to(x.device)  # ~
""",
        run="Normalise(), [(torch.ones(5, 4),) for _ in range(2)]",
        default="clean",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, length=16, dim=4):
        super().__init__()
        self.embed = nn.Embedding(length, dim)
        self.register_buffer("scale", torch.linspace(1.0, 0.1, length), persistent=False)
        self.shift = nn.Parameter(torch.zeros(length))
        self.weight = torch.ones(length)

    def forward(self, x):
        scale = self.scale[: x.shape[1], None].to(x.device) + self.shift[: x.shape[1], None].to(x.device)
        weight = self.weight.to(x.dtype) + torch.randn(1, device=x.device).to(x.device)
        scale = scale + torch.arange(1).to(x.device)
        return self.embed(torch.arange(x.shape[1], device=x.device)) * scale * weight.shape[0]
""",
        run="Positions(), [(torch.ones(1, 5, 4),) for _ in range(2)]",
        default="clean",
        fullgraph="clean",
    ),
)
