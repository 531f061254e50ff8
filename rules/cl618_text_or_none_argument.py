"""A text or None that driving code passes where the next call passes another compiles the function again.

## What it does
Finds, in a compiled function, the first read of a parameter for which the code that calls it passes a text, or a member
of an enumeration, that changes with each turn of a loop, or None in some calls and a tensor in others (`h = None`, then
`h = step(x, h)` in a loop).

## Why it costs
Dynamo makes no symbol of a text: it guards on it, `name == 'layer_3'`, and compiles the function for each, up to the
recompile limit of 8; so it does with a member of an enumeration. An argument that was None and then is a tensor
compiles a second time, once: a warm-up of two calls hides it, so this is reported as possible only. Measured on torch
2.13.

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
from compilelint.static.facts.enumerations import count, enumeration_of
from compilelint.static.facts.state import first_use, is_text
from compilelint.static.facts.texts import used_as_text
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Const,
    options,
    tensor_certainty,
    without_none,
)

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Name,), entered=True)
MANY = 8


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first use of a parameter that gets another text, or None and then a tensor."""
    passed = view.passed(node.id) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ()
    if not passed or not isinstance(node, ast.Name) or first_use(node, view) is not node:
        return
    for passing in sorted(passed, key=lambda passing: -_texts(passing, node, view)):
        where = view.where(passing.place)
        texts = _texts(passing, node, view)
        if texts > 1:
            enumeration = enumeration_of(passing.values, node, view)
            thing = "text" if enumeration is None else f"`{enumeration.name}`"
            yield Hit(
                node,
                f"`{node.id}` gets another {thing} in other calls ({where}): Dynamo guards on it, so this function"
                " compiles again for each",
                f"use `{node.id}` outside of the compiled function and pass what it stands for",
                "likely" if texts > 2 else "possible",
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


def _texts(passing: Passing, node: ast.Name, view: View) -> int:
    """How many texts, or members of an enumeration, the calls pass: those that are written down, or all that there may
    be if it is another one each time."""
    given = {value for value in passing.values if value != UNKNOWN}
    enumeration = enumeration_of(passing.values, node, view) if passing.varies else None
    if enumeration is not None:
        return count(enumeration)
    if not given:
        return MANY if passing.varies and (is_text(view.kind(node)) or used_as_text(node, view)) else 0
    if not all(map(is_text, given)):
        return 0
    kinds = {option for value in given for option in options(value)}
    written_down = len({kind for kind in kinds if isinstance(kind, Const)})
    return MANY if passing.varies and (written_down < len(kinds) or len(kinds) == 1) else written_down


def _starts_as_none(passing: Passing) -> bool:
    kinds = [option for value in passing.values for option in options(value)]
    others = [without_none(value) for value in passing.values if value != NONE]
    return NONE in kinds and any(tensor_certainty(value) == "certain" for value in others)


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
