"""Taking a jagged nested tensor apart into its sequences reads their lengths back and splits the graph.

## What it does
Finds `unbind`, `chunk` along the sequences, `list(…)`, an index and a loop over a nested tensor of the jagged layout
that the function makes, by `torch.nested.nested_tensor_from_jagged` or with `layout=torch.jagged`, in code that Dynamo
traces.

## Why it costs
Where one sequence ends and the next begins stands in a tensor of offsets. To make tensors of single sequences their
lengths have to be Python numbers: the offsets are read back (GB0033), and the graph splits; in a loop the whole
function stays uncompiled.

## Write instead
Compute on the nested tensor as a whole, which compiles, on `values()` and `offsets()`, or on the padded tensor:

    nested.values(), nested.offsets()
    nested.to_padded_tensor(0.0)[0]

and take it apart behind the compiled function.

## Limits
`chunk` along another dimension, as of queries, keys and values that one layer made, compiles. Nested tensors that come
in from outside are not told from others. Measured on torch 2.11, 2.13 and 2.14.

## References
torch documentation: "torch.nested". GB0033.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_to, last_name
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Const, External, Scalar, constant

HAZARD = "graph-break"
FROM_JAGGED = "torch.nested.nested_tensor_from_jagged"
MAKERS = frozenset({"torch.nested.nested_tensor", "torch.nested.as_nested_tensor"})
JAGGED = External("torch.jagged")
APART = frozenset({"unbind", "chunk", "list", "tuple"})
MOST_STEPS = 4
"""How many variables and sums an expression is followed through."""
_LOOPS = (ast.For, ast.comprehension)


@about_file(False)
def speaks_of_nested(module: ast.Module) -> bool:
    """Whether a file names `torch.nested`, or imports from it."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "nested")
        or (isinstance(node, ast.ImportFrom) and node.module == "torch.nested")
        or (isinstance(node, ast.alias) and node.name in ("nested", "torch.nested"))
        for node in nodes_in(module)
    )


def may_take_apart(node: ast.AST, module: ast.Module) -> bool:
    """Whether a node, if it is a call, is one of a name that takes something apart."""
    return not isinstance(node, ast.Call) or last_name(node.func) in APART


WATCH = Watch(nodes=(ast.Call, ast.Subscript, *_LOOPS), files=speaks_of_nested, syntax=may_take_apart)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per place where a nested tensor is taken apart."""
    taken = _taken_apart(node, view)
    if taken is not None and is_jagged(taken, view):
        yield Hit(
            node if isinstance(node, ast.expr) else taken,
            f"`{view.text(taken)}` is a jagged nested tensor: to take it apart its lengths are read back, and the graph"
            " splits",
            "compute on the whole, on `values()` and `offsets()`, or on `to_padded_tensor(0.0)`",
        )


def _taken_apart(node: ast.AST, view: View) -> ast.expr | None:
    """What a call, an index or a loop makes single tensors of."""
    if isinstance(node, _LOOPS):
        counted = isinstance(node.iter, ast.Call) and view.callee(node.iter) == "builtins.enumerate"
        return node.iter.args[0] if counted and isinstance(node.iter, ast.Call) and node.iter.args else node.iter
    if isinstance(node, ast.Subscript):
        index = view.kind(node.slice)
        return node.value if isinstance(index, (Const, Scalar)) and index.type == "int" else None
    if not isinstance(node, ast.Call):
        return None
    of_module = view.callee(node) in ("torch.unbind", "torch.chunk", "builtins.list", "builtins.tuple")
    if not _is_along_sequences(node, view, int(of_module)):
        return None
    if of_module:
        return node.args[0] if node.args else None
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def _is_along_sequences(call: ast.Call, view: View, first: int) -> bool:
    """Whether a call takes apart the dimension of the sequences, and not one that all of them have alike."""
    position = first + (1 if last_name(call.func) == "chunk" else 0)
    dimension = view.argument(call, position, "dim")
    return dimension is None or view.kind(dimension) == constant(0)


def is_jagged(node: ast.expr, view: View, steps: int = MOST_STEPS) -> bool:
    """Whether an expression is a nested tensor that the function makes, or computes from one."""
    if steps == 0:
        return False
    if isinstance(node, ast.Call):
        layout = next((keyword.value for keyword in node.keywords if keyword.arg == "layout"), None)
        made = view.callee(node) in MAKERS and layout is not None and view.kind(layout) == JAGGED
        return made or view.callee(node) == FROM_JAGGED
    if isinstance(node, ast.BinOp):
        return any(is_jagged(side, view, steps - 1) for side in (node.left, node.right))
    makers = assigned_to(view.function, node.id) if isinstance(node, ast.Name) else ()
    return bool(makers) and all(is_jagged(maker, view, steps - 1) for maker in makers)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff = nn.Linear(4, 4)

    def forward(self, values, offsets):
        nested = torch.nested.nested_tensor_from_jagged(self.ff(values), offsets)
        doubled = nested * 2
        first = nested[0]  # ~
        rows = doubled.unbind()  # ~
        return first.sum() + rows[1].sum()
""",
        run="(Pool(), [(torch.ones(5, 4), torch.tensor([0, 2, 5]))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


@torch.compile
def means(a, b):
    nested = torch.nested.nested_tensor([a, b], layout=torch.jagged)
    total = 0
    for row in nested:  # ~
        total = total + row.mean()
    for count, row in enumerate(nested):  # ~
        total = total + row.mean() * count
    return total
""",
        run="(means, [(torch.ones(2, 4), torch.ones(3, 4))])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff = nn.Linear(4, 4)

    def forward(self, values, offsets):
        nested = torch.nested.nested_tensor_from_jagged(self.ff(values), offsets)
        lengths = nested.offsets().diff()
        padded = (nested * 2).to_padded_tensor(0.0)
        rows = padded.unbind()
        left, right = nested.chunk(2, dim=-1)
        both = (left + right).values().sum()
        return both + padded[0].sum() + rows[1].sum() + lengths[0] + nested[..., 0].values().sum() + len(nested)
""",
        run="(Pool(), [(torch.ones(5, 4), torch.tensor([0, 2, 5]))])",
        default="clean",
        fullgraph="clean",
    ),
)
