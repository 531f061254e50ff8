"""Turning a tensor into text splits the graph.

## What it does
Reports `str(t)`, `repr(t)`, `ascii(t)`, `map(str, tensors)` and `"..." % t` for tensors, and what is done with an
f-string or `str.format` of one: `len(text)`, `text + "…"`, `text == "…"`, `text.upper()`. Such a text of a module or of
another object of the project is reported as well.

## Why it costs
The text needs every value: Dynamo does not trace `str` (GB0059) or `repr` (GB0569) of a tensor, and for the `%`
operator it gives the whole frame up (GB0208, GB0088). On a GPU the host waits as well. What `format` gives for an
object it cannot work out (GB0088), whatever the class defines.

## Write instead
Drop the text from the compiled part, or guard what is for debugging only:

    if not torch.compiler.is_compiling():
        log.debug("mean %s", x.mean())

## Limits
An f-string or `str.format` of a tensor compiles as long as nobody uses the text inside the region: it may be returned
or kept. What prints or logs it is reported for that. Text of shapes, dtypes and Python values compiles, and so does
`str(obj)` or `f"{obj!s}"` of an object. Text made on the way to a `raise` is not reported. Measured on torch 2.13;
torch 2.14 compiles an f-string of an object.

## References
torch/_dynamo/graph_break_registry.json: GB0059, GB0088, GB0208, GB0569.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.objects import is_object
from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.state import own_nodes
from compilelint.static.facts.tensors import data, mapped, on_error_path
from compilelint.static.values import Const, Scalar, options

HAZARD = "graph-break"
TEXTS = frozenset({"builtins.str", "builtins.repr", "builtins.ascii"})
WATCH = Watch(
    nodes=(ast.Call, ast.BinOp, ast.JoinedStr),
    callees=lambda name: name in TEXTS or name == "builtins.map",
    syntax=lambda node, module: (
        isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod))
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format")
    ),
)
OF_OBJECT = 'make the text in `__init__`, or of the object\'s numbers and texts: `f"{obj.name}"`'
INSTEAD = "drop the text from the compiled part, or guard it with `if not torch.compiler.is_compiling():`"


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per conversion."""
    formatted = _formatted(node, view)
    if formatted is not None:
        yield from _use_of_text(node, *formatted, view)
    elif isinstance(node, ast.Call):
        confidence = None
        if view.callee(node) in TEXTS and node.args:
            confidence = data(view.kind(node.args[0]))
        elif (each := mapped(node, view)) is not None and each[0] in TEXTS:
            confidence = each[1]
        if confidence is not None and not on_error_path(node, view):
            message = f"`{view.text(node)}` needs the tensor's values as text: Dynamo splits the graph here"
            yield Hit(node, message, INSTEAD, confidence)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and is_text(node.left, view):
        values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        found = [confidence for value in values if (confidence := data(view.kind(value)))]
        if found and not on_error_path(node, view):
            message = f"`{view.text(node)}` formats a tensor with `%`: the whole function runs uncompiled"
            yield Hit(node, message, INSTEAD, found[0], "frame-skip")


def _formatted(node: ast.AST, view: View) -> tuple[str, Confidence] | None:
    """What an f-string or `"…".format(…)` shows that Dynamo has no text of, in words, and how sure that is."""
    parts: list[ast.expr] = []
    converted: list[ast.expr] = []
    written = isinstance(node, ast.JoinedStr)
    if isinstance(node, ast.JoinedStr):
        fields = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        parts = [part.value for part in fields]
        converted = [part.value for part in fields if part.conversion != -1]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        parts = list(node.args) if isinstance(node.func.value, ast.Constant) else []
    for part in parts:
        sure = data(view.kind(part))
        if sure is not None:
            return "needs the values of a tensor", sure
        if part not in converted and not (written and view.torch >= (2, 14)) and is_object(view.kind(part), view):
            return f"shows the object `{view.text(part)}`", "likely"
    return None


def _use_of_text(text: ast.AST, shows: str, confidence: Confidence, view: View) -> Iterator[Hit]:
    """The first thing that is done with a text, where it stands or through one variable."""
    parents = list(view.parents(text))
    uses: list[tuple[ast.AST, ast.AST]] = [(parents[0], text)] if parents else []
    target = parents[0].targets[0] if parents and isinstance(parents[0], ast.Assign) else None
    if isinstance(target, ast.Name) and assigned_once(view.function, target.id) is text:
        names = [node for node in own_nodes(view.function) if isinstance(node, ast.Name) and node.id == target.id]
        uses = [(next(iter(view.parents(name))), name) for name in names if isinstance(name.ctx, ast.Load)]
    for use, operand in uses:
        skips = isinstance(use, ast.BinOp) or (
            isinstance(use, ast.Call) and operand in use.args and view.callee(use) == "builtins.len"
        )
        compared = isinstance(use, ast.Compare) and view.torch > (2, 11)
        if not (skips or compared or isinstance(use, ast.Attribute)) or on_error_path(use, view):
            continue
        assert isinstance(use, ast.expr)
        what = "the whole function runs uncompiled" if skips else "Dynamo splits the graph here"
        message = f"`{view.text(use)}` asks about a text that {shows}: {what}"
        instead = INSTEAD if shows.startswith("needs") else OF_OBJECT
        yield Hit(use, message, instead, confidence, "frame-skip" if skips else None)
        return


def is_text(node: ast.expr, view: View) -> bool:
    """Whether `node` is a string."""
    return all(isinstance(kind, (Const, Scalar)) and kind.type == "str" for kind in options(view.kind(node)))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Trace(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        key = str(h.shape) + str(h.mean())  # ~
        return h * len(key)
""",
        run="(Trace(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def describe(x: torch.Tensor):
    text = "mean %s of %d" % (x.mean(), x.dim())  # ~
    return x + 1, text
""",
        run="(describe, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def describe(x: torch.Tensor):
    text = f"mean {x.mean()}"
    return x + len(text)  # ~
""",
        run="(describe, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def marked(x: torch.Tensor):
    y = x * 2
    return y + 1 if "{}".format(x.sum()) == "3" else y  # ~
""",
        run="(marked, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def described(x: torch.Tensor):
    line = ", ".join(map(str, x.mean(0)))  # ~
    return x + 1, line
""",
        run="(described, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Registry(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        key = f"{self.fc}"
        return self.fc(x) * len(key)  # ~
""",
        run="(Registry(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Trace(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, step: int = 3):
        h = self.proj(x)
        if x.dim() != 2:
            raise ValueError("want two dimensions, got %s" % x + str(h))
        label = "%s %d" % (x.shape[0], step) + str(x.dtype) + repr(x.shape) + f"{step % 2}"
        note = f"{h.mean()}"
        label = label + f"{type(self.proj).__name__} {self.proj!s} {self.proj.weight.shape}"
        return h % 2 * len(label)
""",
        run="(Trace(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
