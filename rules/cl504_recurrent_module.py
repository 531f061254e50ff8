"""Dynamo does not look into nn.LSTM, nn.GRU and nn.RNN.

## What it does
Finds uses of a recurrent module in code that Dynamo traces: calling it, but also reading one of its attributes, and
the functions that pack and unpack sequences for it.

## Why it costs
Dynamo refuses the object itself (GB0014), so even `self.lstm.num_layers` breaks, and what is left of the function
after the break needs the module again and is refused as well: mostly the whole function runs uncompiled.
`pack_padded_sequence` and `pad_packed_sequence` are marked as not traced (GB0007).

## Write instead
`torch._dynamo.config.allow_rnn = True` lets Dynamo trace it (the loop over time is then one operator call). Or
compile the modules around it one by one and leave the recurrent one eager. `nn.LSTMCell`, `nn.GRUCell` and
`nn.RNNCell` compile.

## Limits
An own class that derives from one of the three is known only if its base says so by name. A module that is stored but
not used on the path costs nothing. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks"; configuration option `allow_rnn`. GB0014.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import called_by
from compilelint.static.values import ExternalInstance, Instance, Value, options

HAZARD = "graph-break"
RECURRENT = ("LSTM", "GRU", "RNN", "RNNBase")
PACKED = frozenset(
    f"torch.nn.utils.rnn.{name}" for name in ("pack_padded_sequence", "pad_packed_sequence", "pack_sequence")
)
FLATTEN = "?.flatten_parameters"
"""Of a module that is not known, `getattr(nn, kind)(8, 8)`: no others have such a method."""
WATCH = Watch(
    nodes=(ast.Name, ast.Attribute, ast.Subscript, ast.Call),
    callees=(PACKED | {FLATTEN}).__contains__,
    syntax=lambda node, module: isinstance(getattr(node, "ctx", None), ast.Load),
    kinds=lambda kind: is_recurrent(kind),
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per statement that touches a recurrent module, at the first touch, and per packed sequence."""
    if isinstance(node, ast.Call) and view.callee(node) in PACKED:
        yield Hit(
            node,
            f"`{view.text(node)}` packs sequences, which Dynamo does not trace: the graph splits here",
            "keep the padded tensor and a mask, or pack and unpack outside the compiled code",
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and view.callee(node) == FLATTEN:
        yield refused(node, node.func.value, view, "likely")
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return
    kinds = options(view.kind(node))
    if not any(map(is_recurrent, kinds)) or not is_first(node, view):
        return
    certain = all(map(is_recurrent, kinds))
    yield refused(called_by(node, view.parents(node)) or node, node, view, "certain" if certain else "likely")


def refused(place: ast.expr, module: ast.expr, view: View, confidence: Confidence) -> Hit:
    """The hit for a recurrent module that is touched at `place`."""
    return Hit(
        place,
        f"`{view.text(module)}` is a recurrent module, which Dynamo refuses: the graph splits here",
        "set `torch._dynamo.config.allow_rnn = True`, or compile the modules around it and leave this one eager",
        confidence,
    )


def is_recurrent(kind: Value) -> bool:
    """Whether `kind` is an instance of one of the three, or of an own class that names one as its base."""
    if isinstance(kind, ExternalInstance) and kind.name == "torch.nn.Sequential":
        return any(map(is_recurrent, kind.items))
    if isinstance(kind, ExternalInstance):
        return kind.name.startswith("torch.nn.") and kind.name.rpartition(".")[2] in RECURRENT
    return isinstance(kind, Instance) and _derives(kind.ref.node)


@cache
def _derives(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).removeprefix("torch.") in (f"nn.{n}" for n in RECURRENT) for base in node.bases)


def is_first(node: ast.expr, view: View) -> bool:
    """Whether no earlier expression of the same statement touches a recurrent module."""
    statement = next((parent for parent in view.parents(node) if isinstance(parent, ast.stmt)), None)
    if statement is None:
        return True
    before = (
        other
        for other in ast.walk(statement)
        if isinstance(other, type(node)) and (other.lineno, other.col_offset) < (node.lineno, node.col_offset)
    )
    return not any(ast.dump(other) == ast.dump(node) for other in before)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = getattr(nn, kind)(4, 4, batch_first=True)

    def forward(self, x):
        x = torch.relu(x)
        self.rnn.flatten_parameters()  # ~
        return self.rnn(x)[0]
""",
        run="(Encoder('LSTM'), [(torch.ones(1, 2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x):
        h = torch.relu(self.embed(x))
        out, _ = self.lstm(h)  # ~
        return out
""",
        run="(Tagger(), [(torch.ones(1, 2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 4)

    def start(self, x):
        return x.new_zeros(self.rnn.num_layers, x.shape[0], 4)  # ~

    def forward(self, x):
        return torch.tanh(x) + self.start(x).sum(0)
""",
        run="(Pooler(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Stepper(nn.Module):
    def __init__(self, recurrent=False):
        super().__init__()
        self.cell = nn.LSTMCell(4, 4)
        self.lstm = nn.LSTM(4, 4)

    def forward(self, x):
        h, c = self.cell(x)
        return h + c
""",
        run="(Stepper(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
