"""Making a layer or a parameter inside compiled code splits the graph.

## What it does
Finds modules of `torch.nn` that have parameters, `nn.Parameter`s and `nn.Buffer` attributes that are made in code
that Dynamo traces, where they are made: in the `__init__` of a class of one's own that is called there, too. There
`super().__init__()` is reported as well, and `nn.Module.__init__(self)` whatever the module is made of.

## Why it costs
Dynamo does not make parameters inside a graph (GB0264): it ends the graph, lets Python build the module and goes on.
In an `__init__` the half-built module then stops the rest as well: called anew from Python, the function is given up
at `super().__init__()` (GB0119), and so are those of the classes around it. Any other break in such an `__init__`, or
in what it calls, does the same. The layer is new on each call, so it never learns.

## Write instead
Build it in the `__init__` of the compiled module. For a fixed operation use the function: `F.layer_norm(x, (n,))`
instead of `nn.LayerNorm(n)(x)`. A plain tensor does where no optimizer needs to see it.

## Limits
Modules without parameters compile (`nn.ReLU()(x)`, `nn.CrossEntropyLoss(weight=w)(...)`, `nn.LayerNorm(n,
elementwise_affine=False)`), own modules of such modules too, and so does `nn.Parameter(x)` of a tensor that came in
from outside: none is reported. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0116, GB0119, GB0264 (since 2.9).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import made_here
from compilelint.static.facts.state import own_nodes
from compilelint.static.values import ExternalInstance, Instance, Value, options

HAZARD = "graph-break"
DIMENSIONS = ("1d", "2d", "3d")
ALWAYS = frozenset(
    [f"{lazy}{kind}{d}" for lazy in ("", "Lazy") for kind in ("Conv", "ConvTranspose") for d in DIMENSIONS]
    + ["Linear", "LazyLinear", "Bilinear", "Embedding", "EmbeddingBag", "PReLU", "MultiheadAttention"]
    + ["Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer", "LSTM", "GRU", "RNN"]
    + ["LSTMCell", "GRUCell", "RNNCell", "AdaptiveLogSoftmaxWithLoss"]
)
UNLESS_FALSE = {
    "LayerNorm": "elementwise_affine",
    "RMSNorm": "elementwise_affine",
    "GroupNorm": "affine",
    "SyncBatchNorm": "affine",
    **{f"BatchNorm{d}": "affine" for d in DIMENSIONS},
}
"""Modules that have parameters unless this argument switches them off."""
DEPTH = 4
"""Modules nested deeper than this are not looked at."""
PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name.startswith("torch.nn."))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per parameter, or module with parameters, that is made."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    if callee == "torch.nn.Module.__init__":
        yield from _begun(node, view)
    elif has_parameters(node, callee, view) or makes_parameter(node, callee, view):
        yield Hit(
            node,
            f"`{view.text(node)}` makes parameters, which Dynamo does not trace in compiled code: it splits the graph",
            "make it in the `__init__` of the compiled module, or use the function of `torch.nn.functional`",
        )


def _begun(node: ast.Call, view: View) -> Iterator[Hit]:
    """One hit where a module begins that Dynamo cannot make, or that a break in its `__init__` leaves half-built."""
    by_name = not (isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call))
    cannot = by_name or any(_makes_parameters(part, view) for part in own_nodes(view.function))
    why = "does not trace by this name: call `super().__init__()`" if by_name else "cannot make"
    yield Hit(
        node,
        f"`{view.text(node)}` begins a module in compiled code that Dynamo "
        + (why if cannot else "does not go on with after the break in its `__init__`")
        + f": `{view.qualname}` runs uncompiled",
        "make the module in the `__init__` of the compiled one",
        "certain" if cannot else "likely",
        hazard="frame-skip",
        if_begun_anew=not cannot,
    )


def _makes_parameters(node: ast.AST, view: View) -> bool:
    if not isinstance(node, ast.Call):
        return False
    callee = view.callee(node)
    return makes_parameter(node, callee, view) or has_parameters(node, callee, view) or _has_some(view.kind(node))


def _has_some(value: Value, depth: int = 0) -> bool:
    """Whether a module, or one in it, has parameters of its own."""
    for option in options(value) if depth < DEPTH else ():
        inner = tuple(option.attributes.values()) if isinstance(option, Instance) and option.is_module else ()
        if isinstance(option, ExternalInstance):
            if option.name.startswith("torch.nn.") and option.name.rpartition(".")[2] in ALWAYS:
                return True
            inner = option.items
        if any(_has_some(part, depth + 1) for part in inner):
            return True
    return False


def has_parameters(node: ast.Call, callee: str, view: View) -> bool:
    """Whether the call builds a module of torch.nn that has parameters."""
    package, _, name = callee.rpartition(".")
    if not (package == "torch.nn" or package.startswith("torch.nn.modules")):
        return False
    switch = view.argument(node, 99, UNLESS_FALSE[name]) if name in UNLESS_FALSE else None
    off = switch is not None and not (isinstance(switch, ast.Constant) and switch.value is True)
    return name in ALWAYS or (name in UNLESS_FALSE and not off)


def makes_parameter(node: ast.Call, callee: str, view: View) -> bool:
    """Whether the call makes a parameter of a tensor that was computed here, or a buffer that becomes an attribute."""
    data = view.argument(node, 0, "data")
    if callee in PARAMETERS:
        return data is not None and made_here(view.function, data)
    parent = next(iter(view.parents(node)), None)
    return (
        callee == "torch.nn.Buffer"
        and isinstance(parent, ast.Assign)
        and any(isinstance(target, ast.Attribute) for target in parent.targets)
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        h = self.fc(x)
        norm = nn.LayerNorm(h.shape[-1])  # ~
        return norm(h)
""",
        run="(Head(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


@torch.compile
def with_bias(x):
    bias = nn.Parameter(torch.zeros(x.shape[-1]), requires_grad=False)  # ~
    return torch.tanh(x) + bias
""",
        run="(with_bias, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()  # ~
        self.weight = nn.Parameter(torch.ones(width))  # ~
        self.fc = nn.Linear(width, width)  # ~

    def forward(self, x):
        return x * self.weight * self.fc(x).sigmoid()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()  # ~
        self.gate = Gate(width)

    def forward(self, x):
        return torch.relu(self.gate(x))


@torch.compile
def gated(x):
    return Block(x.shape[-1])(x)
""",
        run="(gated, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
    Example(
        # Any break does, in what the `__init__` calls as well.
        code="""\
import torch
from torch import nn


def checked(knots):
    if knots.min() < 0:  # ~ CL101
        raise ValueError("a negative knot")
    return knots


class Spline(nn.Module):
    def __init__(self, knots, **options):
        super(Spline, self).__init__(**options)  # ~
        self.register_buffer("knots", checked(knots))

    def forward(self, x):
        return torch.bucketize(x, self.knots)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, knots: torch.Tensor):
        return self.proj(x) * Spline(knots)(x)
""",
        run="(Flow(), [(torch.ones(2, 4), torch.arange(3.0))])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.register_buffer("factor", torch.tensor(factor))
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(x) * self.factor


class Head(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x, target):
        h = Scale(2.0)(nn.Dropout(0.0)(self.fc(x)))
        h = nn.LayerNorm(4, elementwise_affine=False)(h)
        h = nn.Sequential(nn.GELU(), nn.Tanh())(h)
        loss = nn.CrossEntropyLoss(weight=torch.ones(4))
        return loss(h, target) + nn.Parameter(x).sum()
""",
        run="(Head(), [(torch.ones(2, 4), torch.tensor([0, 1]))])",
        default="clean",
        fullgraph="clean",
    ),
)
