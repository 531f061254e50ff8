"""Python's random numbers split the graph, or the branch on them does.

## What it does
Finds calls to module `random`, to `secrets`, `uuid` and `os.urandom` in code that Dynamo traces, and decisions taken
on the two or three functions of `random` that do compile.

## Why it costs
`random.random`, `choice`, `sample`, `shuffle`, `gauss` and the rest are calls that Dynamo does not make (GB0007): the
graph ends there. `random.uniform`, `randint` and `randrange` are different: Dynamo draws before the graph starts and
hands the number in as an input. As a value that costs nothing. But the number is then data, so `if random.uniform(0,
1) < p:` is a data-dependent branch (GB0170), and so is a size, an index, a `range` or an `int()` made from it
(GB0033, GB0124, GB0178). This is the usual layer-drop, and drawing with `random` instead of `torch.rand` does not
repair it.

## Write instead
Draw outside the compiled code and pass the decision in, or keep the draw on the device and multiply by it:

    keep = (torch.rand((), device=x.device) >= self.drop).to(x.dtype)
    x = x + keep * self.layer(x)

## Limits
Torch 2.14 treats `random.random` like `uniform`, and traces `shuffle` and `sample` with the numbers drawn at that
moment: measured, eight calls of compiled code then get one and the same order. They are reported as a stale result.
An own `random.Random` that was made before is drawn from without a break, but only while Dynamo traces: its `random`,
`randint` and `uniform` give the same number at every call, on torch 2.13 and 2.14, and are a stale result too.
An assertion with no message, or a constant one, becomes part of the graph from torch 2.13 on. Arithmetic on these
numbers is CL414. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks", "Data-dependent control flow". GB0007, GB0033, GB0124, GB0170,
GB0178.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.drawn_numbers import is_computed
from compilelint.static.facts.questions import assigned_once, comes_from_outside, is_drawn

HAZARD = "graph-break"
DRAWN_BEFORE = frozenset({"random.uniform", "random.randint", "random.randrange"})
OWN_METHODS = ("random", "randint", "uniform", "randrange")
REACHES_GRAPH = DRAWN_BEFORE | {f"random.Random.{name}" for name in OWN_METHODS}
"""Numbers that Dynamo draws beforehand; the methods are those of an own `random.Random`."""
FROZEN = frozenset({"random.shuffle", "random.sample"})
"""What torch 2.14 traces into: the draw is made then, and never again."""
COMPILES = REACHES_GRAPH | {"random.Random", "random.SystemRandom"}
SIZED = frozenset({"zeros", "ones", "empty", "rand", "randn", "topk", "repeat", "view", "reshape", "expand", "narrow"})
MODULES = ("random.", "secrets.", "uuid.uuid")
NEED_NUMBER = frozenset({f"builtins.{name}" for name in ("range", "int", "round", "float", "bool", "str")})
INSTEAD = "draw and decide outside the compiled code, or multiply by a 0/1 tensor drawn with torch"
WATCH = Watch(
    nodes=(ast.Call,), tests=True, callees=lambda name: name in NEED_NUMBER or name.startswith((*MODULES, "os.urandom"))
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that breaks, and per test that reads a number drawn beforehand."""
    if not isinstance(node, ast.expr):
        return
    if isinstance(node, ast.Call):
        callee = view.callee(node)
        if _is_frozen(node, view):
            yield Hit(
                node,
                f"`{view.text(node)}` draws once, while Dynamo traces: every call of the compiled code gets the same",
                "draw outside the compiled code and pass the result in, or draw with torch (`rand`, `randperm`)",
                hazard="stale-result",
            )
            return
        if (callee.startswith(MODULES) and callee not in _compile(view)) or callee == "os.urandom":
            yield Hit(
                node,
                f"`{view.text(node)}` draws on the host, which Dynamo does not trace: the graph splits here",
                "draw outside the compiled code and pass the result in, or draw with torch on the tensor's device",
            )
            return
    draw = draw_decided_on(node, view)
    if draw is not None:
        yield Hit(
            node,
            f"`{view.text(draw)}` is data in the graph, and "
            + ("its number" if draw is node else f"the outcome of `{view.text(node)}`")
            + " is needed here to go on: the graph splits",
            INSTEAD,
        )
    elif decides_on_drawn(node, view):
        what = "was drawn" if isinstance(node, (ast.Name, ast.Attribute)) else "hangs on a number drawn"
        yield Hit(
            node,
            f"`{view.text(node)}` {what} at random, which is data in the graph, and the outcome is needed to go on: the"
            " graph splits",
            INSTEAD,
            "likely",
        )


def _is_frozen(call: ast.Call, view: View) -> bool:
    """Whether Dynamo keeps what it drew while tracing: from an own `random.Random` that existed before, and FROZEN."""
    owner, _, method = view.callee(call).rpartition(".")
    newer = view.torch >= (2, 14)
    if owner == "random.Random" and isinstance(call.func, ast.Attribute):
        drawn = method in OWN_METHODS or (newer and f"random.{method}" in FROZEN)
        return drawn and comes_from_outside(view, call.func.value)
    return newer and view.callee(call) in FROZEN


def _reach_graph(view: View) -> frozenset[str]:
    """The draws whose number is an input of the graph."""
    return REACHES_GRAPH | {"random.random"} if view.torch >= (2, 14) else REACHES_GRAPH


def _compile(view: View) -> frozenset[str]:
    """What of MODULES does not split the graph."""
    return COMPILES | _reach_graph(view) | ({"random.seed"} if view.torch >= (2, 14) else frozenset())


def draw_decided_on(node: ast.expr, view: View) -> ast.Call | None:
    """The draw whose number Python has to know at `node`: a test, or a count, size or index made from it."""
    if not isinstance(node, ast.Call):
        return None if is_checked(node, view) else draw_in(node, view)
    if view.callee(node) in NEED_NUMBER and node.args:
        return draw_in(node.args[-1], view)
    return node if view.callee(node) in _reach_graph(view) and is_needed(node, view) else None


def decides_on_drawn(node: ast.expr, view: View) -> bool:
    """Whether Python has to know at `node` a number that was drawn further up, or by a caller."""
    if not isinstance(node, ast.Call):
        return is_drawn(view.kind(node)) and not is_checked(node, view)
    return view.callee(node) in NEED_NUMBER and bool(node.args) and is_drawn(view.kind(node.args[-1]))


def is_checked(node: ast.expr, view: View) -> bool:
    """Whether all that hangs on a test is an assertion, which becomes part of the graph from torch 2.13 on."""
    parent = next(iter(view.parents(node)), None)
    if not isinstance(parent, ast.Assert) or parent.test is not node or view.torch < (2, 13):
        return False
    return parent.msg is None or isinstance(parent.msg, ast.Constant)


def draw_in(node: ast.expr, view: View) -> ast.Call | None:
    """The call that drew the number `node` compares or is; that a number is not None, Dynamo knows."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return None
    if is_computed(node, view):
        return None  # CL414: it does not come to that
    for part in (node, *(ast.iter_child_nodes(node) if isinstance(node, (ast.Compare, ast.BinOp)) else ())):
        value = assigned_once(view.function, part.id) if isinstance(part, ast.Name) else part
        if isinstance(value, ast.Call) and view.callee(value) in _reach_graph(view):
            return value
    return None


def is_needed(node: ast.Call, view: View) -> bool:
    """Whether the call is a test, an index, a bound of a slice or a size."""
    parent = next(iter(view.parents(node)), None)
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)):
        return parent.test is node
    if isinstance(parent, ast.Subscript):
        return parent.slice is node
    if isinstance(parent, ast.Call):
        owner, _, name = view.callee(parent).rpartition(".")
        return name in SIZED and owner in ("torch", "torch.Tensor", "?") and node in parent.args
    return isinstance(parent, (ast.Slice, ast.BoolOp)) or (
        isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
    )


BAD = (
    Example(
        code="""\
import random

import torch
from torch import nn


class Augment(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scales = [0.5, 1.0, 2.0]

    def forward(self, x):
        h = self.fc(x)
        return h * random.choice(self.scales)  # ~
""",
        run="(Augment(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import random

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, percent=10):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.percent = percent

    def forward(self, x):
        x = self.first(x)
        if self.training and random.randint(0, 99) < self.percent:  # ~
            return x
        return self.second(x)
""",
        run="(Encoder(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import random

import torch


def crop(x, width=2):
    start = random.randint(0, 2)
    if start == 0:  # ~
        return x[:, :width]
    return x[:, -width:] * 2


def pick(x):
    return (x + 1)[random.randrange(2)]  # ~


@torch.compile
def both(x):
    return crop(x) + pick(x)[:2]
""",
        run="(both, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import random

import torch
from torch import nn


class Permuted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        order = [0, 1, 2, 3]
        random.shuffle(order)  # ~
        for index in order:
            x = self.layers[index](x)
        return x
""",
        run="(Permuted(), [(torch.ones(2, 4),) for _ in range(3)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import random

import torch
from torch import nn


class Jitter(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        self.random = random.Random(seed)

    def forward(self, x):
        return x * self.random.uniform(0.9, 1.1)  # ~
""",
        run="(Jitter(), [(torch.ones(2, 4),) for _ in range(3)])",
        default="stale",
        fullgraph="stale",
    ),
    Example(
        code="""\
import random

import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, levels=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(levels))

    def forward(self, x, depth=None):
        depth = depth or len(self.layers)  # ~
        return self.layers[0](x) * depth


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.quantizer = Quantizer()

    def forward(self, x):
        return self.quantizer(torch.tanh(x), random.randint(1, 4))
""",
        run="(Coder(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import random

import torch
from torch import nn

random.seed(0)


class Jitter(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.offset = random.random()
        self.fc = nn.Linear(width, width)

    def forward(self, x, flip: bool = False):
        gain = random.uniform(0.9, 1.1)
        shift = random.randint(0, 3)
        if flip and shift is not None:
            x = x.flip(-1)
        return self.fc(x) * gain + shift + self.offset
""",
        run="(Jitter(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
