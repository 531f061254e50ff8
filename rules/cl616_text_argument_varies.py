"""A text that is put together for each call of a compiled function compiles it again for each text.

## What it does
Finds calls of what `torch.compile` returned with an argument that is a new string each time: an f-string or `format`
with a variable in it, `str(…)` of one, a sum of strings with one.

## Why it costs
Dynamo cannot make a symbol of a string as it does of a number. It guards on the text, `name == 'layer_3'`, and another
another one compiles the function again: measured on torch 2.13, 8 compilations for 10 names, then the recompile limit
is hit and the function runs uncompiled. That the text is only used for a key or a log line makes no difference.

## Write instead
Use the text outside, and pass what it stands for: the entry instead of the key, or an index of a stacked tensor.

    out[f"layer_{i}"] = compiled(x)             # not compiled(x, f"layer_{i}")

## Limits
A text from a fixed set of a few (`"mean"`, `"max"`) costs one compilation each and is fine; so a variable that holds a
string is not reported.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import Compiled, Const

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.Call,), kinds=lambda kind: isinstance(kind, Compiled), regions=frozenset({"host", "decode-loop"})
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per argument whose text is put together in the call."""
    if not isinstance(node, ast.Call):
        return
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        if _is_put_together(argument, view):
            yield Hit(
                argument,
                f"`{view.text(argument)}` is a new text at each call: Dynamo guards on it, so"
                f" `{view.text(node.func)}` compiles again for each",
                "use the text outside the compiled function and pass what it stands for",
                "likely",
            )


def _is_put_together(node: ast.expr, view: View) -> bool:
    """Whether a string is made here of something that may vary."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        return any(not isinstance(view.kind(part), Const) for part in parts)
    if isinstance(node, ast.Call):
        of_text = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant)
        made = view.callee(node) == "builtins.str" or (of_text and ast.unparse(node.func).endswith(".format"))
        return made and any(not isinstance(view.kind(part), Const) for part in node.args)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        text = any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right))
        return text and not isinstance(view.kind(node), Const)
    return False


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, name):
        return {name: self.proj(x)}  # ~ CL618


def run(x):
    block = torch.compile(Block())
    outs = {}
    for i in range(4):
        outs |= block(x, f"layer_{i}")  # ~
    return outs
""",
        run="(run, [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, how):
        return self.proj(x).sum() if how == "sum" else self.proj(x)


def run(x, how="sum"):
    block = torch.compile(Block())
    outs = {}
    for i in range(4):
        outs[f"layer_{i}"] = block(x, how)
    return outs
""",
        run="(run, [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
