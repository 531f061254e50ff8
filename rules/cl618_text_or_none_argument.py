"""A text or None that driving code passes where the next call passes another compiles the function again.

## What it does
Finds, in a compiled function, the first read of a parameter for which the code that calls it passes a text that changes
with each turn of a loop, or None in some calls and a tensor in others (`h = None`, then `h = step(x, h)` in a loop).

## Why it costs
Dynamo makes no symbol of a text: it guards on it, `name == 'layer_3'`, and compiles the function for each, up to the
recompile limit of 8. An argument that was None and then is a tensor compiles a second time, once: a warm-up of two
calls hides it, so this is reported as possible only. Measured on torch 2.13.

## Write instead
Use the text outside of the compiled function and pass what it stands for. Start with a tensor instead of None:

    h = torch.zeros(batch, dim)      # not None
    for x in chunks:
        h = step(x, h)

## Limits
Only calls in the project are seen, and not loops over up to three texts that are written down.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, Passing, View, Watch
from compilelint.static.state import first_read, is_text
from compilelint.static.values import NONE, options, tensor_certainty, without_none

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Name,), entered=True)

BAD = (
    Example(
        code="""\
import torch


@torch.compile
def encode(x, name):
    return x * len(name)  # ~


def serve(x):
    total = 0
    for name in ("depth", "normal", "segment", "caption", "edge"):
        total = total + encode(x, name)
    return total
""",
        run="(serve, [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch


@torch.compile
def encode(x, name, h):
    return (x + h).sum() if name == "sum" else x + h


def serve(x, name="sum"):
    h = torch.zeros(2, 4)
    for _ in range(4):
        h = encode(x, name, h)
    return h
""",
        run="(serve, [(torch.ones(2, 4), 'none')])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of a parameter that gets another text, or None and then a tensor."""
    passed = view.passed(node.id) if isinstance(node, ast.Name) else ()
    if not passed or not isinstance(node, ast.Name) or first_read(node, view) is not node:
        return
    for passing in passed:
        where = view.where(passing.place)
        if passing.varies and all(map(is_text, passing.values)):
            yield Hit(
                node,
                f"`{node.id}` gets another text with each turn at {where}: Dynamo guards on it, so this function"
                " compiles again for each",
                f"use `{node.id}` outside of the compiled function and pass what it stands for",
                "likely",
            )
            return
        if _starts_as_none(passing):
            yield Hit(
                node,
                f"`{node.id}` is None in some calls at {where} and a tensor in others: each of the two compiles this"
                " function once",
                f"pass a tensor in the first call too (`torch.zeros(…)` for `{node.id}`)",
                "possible",
            )
            return


def _starts_as_none(passing: Passing) -> bool:
    kinds = [option for value in passing.values for option in options(value)]
    others = [without_none(value) for value in passing.values if value != NONE]
    return NONE in kinds and any(tensor_certainty(value) == "certain" for value in others)
