"""What is called, by name, and functions that are handed to something else to call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache

from compilelint.static.tracer.frame import Frame
from compilelint.static.values import (
    UNKNOWN,
    Array,
    Class,
    Compiled,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Method,
    Partial,
    Scalar,
    Sequence,
    Tensor,
    Union,
    Value,
    join_all,
)

_HOST_CALLS = frozenset(
    {
        "builtins.open", "builtins.input", "torch.save", "torch.load", "torch.autograd.backward",
        "torch.Tensor.backward", "torch.onnx.export", "torch.export.export", "torch.jit.trace", "torch.jit.save",
        "torch.jit.load", "numpy.save", "numpy.savez", "numpy.load", "json.load", "json.dump",
        "torchaudio.load", "torchaudio.save", "torchaudio.info", "os.makedirs", "os.mkdir", "os.walk", "os.listdir",
        "os.remove",
    }
)  # fmt: skip
_HOST_PACKAGES = (
    "torch.utils.data.", "torch.optim.", "torch.hub.", "torch.multiprocessing.", "torch.fx.", "subprocess.",
    "argparse.", "threading.", "multiprocessing.", "concurrent.futures.", "socket.", "urllib.", "requests.",
    "shutil.", "tempfile.", "matplotlib.", "onnx.", "onnxruntime.", "tensorrt.", "huggingface_hub.", "datasets.",
    "soundfile.", "wandb.", "cv2.", "PIL.", "pickle.", "importlib.", "glob.", "torch.cuda.CUDAGraph",
    "torch.cuda.Event", "torch.cuda.synchronize", "torch.cuda.graph",
)  # fmt: skip
_HOST_METHODS = frozenset({"from_pretrained", "save_pretrained", "load_state_dict", "zero_grad"})
_PROCESS_SETUP = frozenset({"torch.distributed.init_process_group", "torch.distributed.destroy_process_group"})
_LAYER = re.compile(
    r"(Lazy)?(Linear|Bilinear|Conv\w+|Embedding\w*|Parameter|\w+Norm\w*|LSTM|GRU|RNN|MultiheadAttention|Transformer\w*"
    r"|ModuleList|ModuleDict|Sequential)"
)
"""Layers with weights: who makes one builds a model. `nn.Softmax(-1)(x)` is made where it is used."""


@cache
def is_host_call(callee: str) -> bool:
    """Whether a function is called by code around a model: it trains, loads, stores, exports or makes layers."""
    if callee in _HOST_CALLS or callee.startswith(_HOST_PACKAGES) or callee.rpartition(".")[2] in _HOST_METHODS:
        return True
    return makes_layer(callee)


def makes_layer(callee: str) -> bool:
    """Whether a call makes a layer with weights."""
    return callee.startswith("torch.nn.") and _LAYER.fullmatch(callee.rpartition(".")[2]) is not None


def handles_models(callee: str) -> bool:
    """Whether a function is called by code that no model calls, however deep: it loads weights, or joins processes."""
    return callee.rpartition(".")[2] in _HOST_METHODS or callee in _PROCESS_SETUP


def callee_name(function: Value, node: ast.expr) -> str:
    """The dotted name of what is called; see `compilelint.rule.View.callee`."""
    if not isinstance(function, Union):
        name = _callee(function)
        return name or (f"?.{node.attr}" if isinstance(node, ast.Attribute) else "?")
    names = [name for option in function.options if (name := _callee(option))]
    for name in names if len(names) > 1 else ():
        if name.startswith(("torch.", "builtins.", "numpy.")):
            return name
    if names:
        return names[0]
    return f"?.{node.attr}" if isinstance(node, ast.Attribute) else "?"


def _callee(function: Value) -> str:
    if isinstance(function, External):
        return function.name
    if isinstance(function, Function):
        return f"{function.ref.module}.{function.ref.qualname}"
    if isinstance(function, Class):
        return f"{function.ref.module}.{function.ref.qualname}"
    if isinstance(function, Instance):
        return f"{function.ref.module}.{function.ref.qualname}.__call__"
    if isinstance(function, ExternalInstance):
        return f"{function.name}.__call__"
    if isinstance(function, Partial):
        return _callee(function.function)
    if isinstance(function, Compiled):
        return _callee(function.inner)
    if isinstance(function, Method):
        owner = type_name(function.receiver)
        return f"{owner}.{function.name}" if owner else f"?.{function.name}"
    return ""


def type_name(value: Value) -> str:
    """The dotted name of a value's class, for the methods of things that are not project objects."""
    if isinstance(value, Tensor):
        return "torch.Tensor"
    if isinstance(value, Array):
        return "numpy.ndarray"
    if isinstance(value, Sequence):
        return "torch.Size" if value.form == "size" else value.form
    if isinstance(value, Mapping):
        return "dict"
    if isinstance(value, (Const, Scalar)):
        return value.type if value.type not in ("object", "number", "NoneType") else ""
    if isinstance(value, ExternalInstance):
        return value.name
    if isinstance(value, Instance):
        return "torch.nn.Module" if value.is_module else f"{value.ref.module}.{value.ref.qualname}"
    return ""


def call_back(handed: Iterable[Value], args: tuple[Value, ...], node: ast.AST | None, frame: Frame) -> Value:
    """Functions handed to something unknown are taken to be called with the arguments that follow them."""
    if frame.mode == "construct":
        return UNKNOWN
    results: list[Value] = []
    for value in handed:
        if isinstance(value, (Function, Partial)) and node is not None:
            following = args[args.index(value) + 1 :] if value in args else ()
            results.append(frame.tracer.call(value, following, {"*": UNKNOWN, "**": UNKNOWN}, node, frame))
    return join_all(results)
