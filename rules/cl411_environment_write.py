"""Changing the environment inside compiled code splits the graph.

## What it does
Finds writes to `os.environ` (item assignment and deletion, `pop`, `setdefault`, `update`, `clear`) and `os.putenv` in
code that Dynamo traces.

## Why it costs
A write ends in a C call of the operating system's library that Dynamo does not make (GB0007). Mostly it comes too
late as well: what reads the variable did so when it was imported.

## Write instead
Set the environment where the program starts, before torch is imported; inside the model keep settings as attributes.

## Limits
Reading (`os.getenv`, `os.environ[...]`, `os.environ.get`) does not break and is not reported here; what is read may
be frozen into the graph, which is another rule's matter. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0007.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import External

HAZARD = "graph-break"
SETTERS = frozenset({"os.putenv", "os.unsetenv"})
WRITERS = frozenset({"pop", "setdefault", "update", "clear"})
WATCH = Watch(
    nodes=(ast.Call, ast.Assign, ast.AugAssign, ast.Delete),
    callees=SETTERS.__contains__,
    syntax=lambda node, module: bool(written(node)),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per statement or call that changes the environment."""
    if not isinstance(node, (ast.expr, ast.stmt)) or not writes(node, view):
        return
    yield Hit(
        node,
        f"`{view.text(node)}` changes the process's environment, which Dynamo does not trace: the graph splits here",
        "set it where the program starts, before torch is imported, or keep the setting in an attribute",
    )


def writes(node: ast.expr | ast.stmt, view: View) -> bool:
    """Whether `node` changes `os.environ`."""
    called = isinstance(node, ast.Call) and view.callee(node) in SETTERS
    return called or any(is_environ(container, view) for container in written(node))


def written(node: ast.AST) -> list[ast.expr]:
    """What `node` may change if it is a mapping: what a method is called on, what items are stored in."""
    if isinstance(node, ast.Call):
        return [node.func.value] if isinstance(node.func, ast.Attribute) and node.func.attr in WRITERS else []
    targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [getattr(node, "target", None)]
    return [target.value for target in targets if isinstance(target, ast.Subscript)]


def is_environ(node: ast.expr, view: View) -> bool:
    """Whether `node` is `os.environ`, under whatever name it was imported."""
    kind = view.kind(node)
    return ast.unparse(node) == "os.environ" or (isinstance(kind, External) and kind.name == "os.environ")


BAD = (
    Example(
        code="""\
import os

import torch
from torch import nn


class Tuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # ~
        return torch.relu(h)
""",
        run="(Tuned(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import os

import torch
from torch import nn

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class Tuned(nn.Module):
    def __init__(self, options):
        super().__init__()
        os.environ.pop("UNUSED_SETTING", None)
        self.options = dict(options)
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        extra = {"gain": 1.0}
        extra.update(self.options)
        return self.fc(x) * extra.pop("gain")
""",
        run="(Tuned({'gain': 2.0}), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
