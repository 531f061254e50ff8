"""Issuing or filtering a warning splits the graph.

## What it does
Finds calls to `warnings.warn`, `warnings.warn_explicit`, `warnings.simplefilter`, `warnings.filterwarnings` and
`warnings.resetwarnings` in code that Dynamo traces, also in helpers it steps into.

## Why it costs
The machinery of warnings is written in C and Dynamo does not call it (GB0007): the graph ends before the line even if
the warning was shown before or is filtered. Deprecation notes in a helper that every layer calls cost one break per
layer. `with warnings.catch_warnings():` by itself compiles, but a filter set inside it breaks between entering and
leaving, and then the whole function runs uncompiled (GB0092).

## Write instead
Warn in `__init__` or in the caller. Where that cannot be, guard it, or let it run after the graph:

    if not torch.compiler.is_compiling():
        warnings.warn("`scale` is deprecated", DeprecationWarning)

    torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)

## Limits
A warning on a path that is not taken costs nothing, and none is reported on a path that cannot be taken. Measured on
2.13.

## References
torch.compile documentation: "Common Graph Breaks", "Reorderable Logging Functions". GB0007, GB0092.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.flagging.rewrites import guard

HAZARD = "graph-break"
ISSUERS = frozenset({"warnings.warn", "warnings.warn_explicit", "torch._logging.warning_once"})
FILTERS = frozenset({"warnings.simplefilter", "warnings.filterwarnings", "warnings.resetwarnings"})
WATCH = Watch(nodes=(ast.Call,), names=frozenset(name.rpartition(".")[2] for name in ISSUERS | FILTERS))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per warning issued and per filter set."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    if callee in ISSUERS:
        yield Hit(
            node,
            f"`{view.text(node)}` is C code that Dynamo does not call: the graph splits here, shown or not",
            "warn in `__init__` or in the caller, guard with `if not torch.compiler.is_compiling():`, or add "
            "`warnings.warn` to `torch._dynamo.config.reorderable_logging_functions`",
            rewrite=guard(node, view, "does not warn"),
        )
    elif callee in FILTERS:
        yield Hit(
            node,
            f"`{view.text(node)}` changes the process's warning filters: Dynamo does not trace that, the graph splits",
            "set warning filters once, where the program starts",
        )


BAD = (
    Example(
        code="""\
import warnings

import torch
from torch import nn


def check_ratio(ratio):
    if ratio > 1:
        warnings.warn("a ratio above 1 has no effect", stacklevel=2)  # ~


class Mix(nn.Module):
    def __init__(self, ratio=1.5):
        super().__init__()
        self.ratio = ratio

    def forward(self, x):
        check_ratio(self.ratio)
        return torch.lerp(x, x.flip(0), min(self.ratio, 1.0))
""",
        run="(Mix(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import warnings

import torch


@torch.compile
def quiet_norm(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ~
        y = torch.linalg.vector_norm(x)
    return x / y
""",
        run="(quiet_norm, [(torch.ones(4),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import warnings

import torch
from torch import nn


class Mix(nn.Module):
    def __init__(self, ratio=1.5):
        super().__init__()
        if ratio > 1:
            warnings.warn("a ratio above 1 has no effect")
        self.ratio = min(ratio, 1.0)

    def forward(self, x):
        if self.ratio is None:
            warnings.warn("no ratio")
        if not torch.compiler.is_compiling():
            warnings.warn("not compiled")
        return torch.lerp(x, x.flip(0), self.ratio)
""",
        run="(Mix(0.5), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import warnings

import torch


@torch.compile
def norm(x):
    with warnings.catch_warnings():
        y = torch.linalg.vector_norm(x)
    return x / y
""",
        run="(norm, [(torch.ones(4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
