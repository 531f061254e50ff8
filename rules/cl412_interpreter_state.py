"""Asking the interpreter about frames, modules or processes splits the graph.

## What it does
Finds looks at the call stack (`sys._getframe`, `inspect.stack`, `inspect.currentframe`, `traceback.print_stack`), at
names (`globals()`, `dir()`), imports and code by name (`importlib.import_module`, `__import__`, `exec`, `compile`),
processes (`os.getpid`, `os.cpu_count`, `subprocess`), and `breakpoint()` in code that Dynamo traces.

## Why it costs
While Dynamo traces, the function is not running: there is no frame to look at and no process to ask. The calls are C
code (GB0007) or builtins it has no answer for (GB0059), and the graph ends there. Code that adapts to its caller's
name also sees other frames when compiled.

## Write instead
Look these things up once, in `__init__` or at import, and keep the result.

## Limits
`typing.get_type_hints` compiles unless annotations are written as texts. `inspect.signature`, `inspect.isclass`,
`vars`, `locals`, `traceback.format_exc`, `importlib.util.find_spec`, `sys.platform`, an `import` statement and `eval`
of a constant compile, and so does `dir` of a dict, list, class or imported module. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0007, GB0059.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import (
    UNKNOWN,
    Class,
    Const,
    External,
    Function,
    Mapping,
    Scalar,
    Sequence,
    Value,
    options,
)

HAZARD = "graph-break"
QUESTIONS = {
    "sys": ("_getframe", "getsizeof", "getrefcount", "settrace", "setprofile"),
    "inspect": ("stack", "currentframe", "getsource", "getframeinfo", "getouterframes", "trace"),
    "traceback": ("print_stack", "format_stack", "extract_stack", "print_exc"),
    "builtins": ("globals", "dir", "exec", "compile", "__import__", "breakpoint", "memoryview", "bytearray"),
    "importlib": ("import_module", "reload"),
    "os": ("getpid", "getppid", "cpu_count", "system", "kill", "popen"),
    "socket": ("gethostname", "socket"),
    "signal": ("signal", "getsignal", "alarm"),
    "atexit": ("register",),
    "pdb": ("set_trace",),
    "typing": ("get_type_hints",),
}
HINTS = "typing.get_type_hints"
DIR_SINCE = (2, 12)
"""Torch 2.11 has no answer for any `dir`; 2.12 was not measured."""
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: asks_interpreter(name))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per question to the interpreter."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    listed = callee == "builtins.dir" and node.args and all(map(_is_listed, options(view.kind(node.args[0]))))
    if listed and view.torch >= DIR_SINCE:
        return
    if asks_interpreter(callee) and not (callee == HINTS and not _evaluates(node, view)):
        yield Hit(
            node,
            f"`{view.text(node)}` asks the interpreter, which Dynamo does not trace: the graph splits here",
            "look it up once in `__init__` or at import, and keep the result",
        )


def _is_listed(value: Value) -> bool:
    """Whether Dynamo answers `dir` of a value itself: not of objects, modules and tensors. Measured on torch 2.13."""
    return isinstance(value, (Class, Const, External, Mapping, Scalar, Sequence))


def _evaluates(call: ast.Call, view: View) -> bool:
    """Whether `get_type_hints` finds annotations written as texts, which it evaluates; others it only collects."""
    asked = view.kind(call.args[0]) if call.args else UNKNOWN
    if not isinstance(asked, (Class, Function)):
        return False
    future = [s for s in view.module.body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    postponed = any(alias.name == "annotations" for statement in future for alias in statement.names)
    annotations = [
        annotation
        for part in ast.walk(view.definition(asked))
        for annotation in (getattr(part, "annotation", None), getattr(part, "returns", None))
        if annotation is not None
    ]
    texts = (isinstance(p, ast.Constant) and isinstance(p.value, str) for a in annotations for p in ast.walk(a))
    return any(texts) or (postponed and annotations != [])


def asks_interpreter(callee: str) -> bool:
    """Whether a function by its dotted name tells about the interpreter itself."""
    owner, _, name = callee.rpartition(".")
    return name in QUESTIONS.get(owner, ()) or owner == "subprocess"


BAD = (
    Example(
        code="""\
import inspect
import sys

import torch
from torch import nn


class Traced(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        caller = sys._getframe(0).f_code.co_name  # ~
        frame = inspect.currentframe()  # ~
        return h * len(caller)
""",
        run="(Traced(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import importlib

import torch


@torch.compile
def activation(x, name="torch.nn.functional"):
    y = x + 1
    functional = importlib.import_module(name)  # ~
    return functional.relu(y)
""",
        run="(activation, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import typing

import torch


def scaled(x: torch.Tensor, factor: "float" = 2.0):
    return x * factor


@torch.compile
def checked(x):
    y = x + 1
    hints = typing.get_type_hints(scaled)  # ~
    return scaled(y) * len(hints)
""",
        run="(checked, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import importlib.util
import inspect
import sys
import typing

import torch
from torch import nn


def scaled(x: torch.Tensor, factor: float = 2.0):
    return x * factor


class Traced(nn.Module):
    def __init__(self):
        super().__init__()
        self.depth = len(inspect.stack())
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        import math

        takes = len(inspect.signature(scaled).parameters) + len(typing.get_type_hints(scaled)) - 2
        if sys.platform == "nowhere" or importlib.util.find_spec("json") is None:
            x = x + 1
        return scaled(self.fc(x), math.sqrt(takes)) / len(dir({"takes": takes}))
""",
        run="(Traced(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
