"""Looking a tensor up among values, or a value up in a tensor, reads it back.

## What it does
Reports `t in values` and `t not in values` for a tensor `t` where the answer is branched on, `value in t` where `t`
is the tensor or an object whose own `__contains__` gives one, and `index` or `remove` on a list of tensors.

## Why it costs
Python compares item by item and needs a bool for each. A test such as `if t in (1, 2)` ends the graph (GB0170);
`value in t` and `t not in (...)` are read in the middle of an expression, where Dynamo cannot resume, and the whole
frame runs uncompiled (GB0124, GB0033). A GPU is waited for. `fullgraph=True` raises.

## Write instead
    hit = torch.isin(t, torch.tensor([1.0, 2.0], device=t.device))
    x = torch.where(hit, a, b)
    found = (x == value).any()

## Limits
Python values in lists and dict keys compile: a text is only ever looked up among keys, since tensors hold none. So does
`t in values` whose answer is never branched on, and `assert t in values` stays in the graph. Measured on torch 2.13.

## References
torch.compile programming model: "Common Graph Breaks". GB0033, GB0124, GB0170.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.dtypes import is_dtype
from compilelint.static.facts.objects import is_object
from compilelint.static.facts.tensors import data, site_of, tensors_within
from compilelint.static.values import NONE, Const, Mapping, Scalar, Sequence, Value, options

HAZARD = "graph-break"
LOOKUPS = frozenset({"list.index", "list.remove", "tuple.index"})
WATCH = Watch(
    nodes=(ast.Compare, ast.Call),
    callees=lambda name: name in LOOKUPS or name == CONTAINS,
    syntax=lambda node, module: isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)),
)
CONTAINS = "operator.contains"
INSTEAD = "compare on the device: `torch.isin(t, values)`, `(t == value).any()`, and select with `torch.where`"


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per comparison or look-up that asks tensors for their truth."""
    if isinstance(node, ast.Call):
        yield from looked_up(node, view)
        if view.callee(node) == CONTAINS and len(node.args) == 2 and site_of(node, view)[0] is not None:
            asked = ast.copy_location(ast.Compare(node.args[1], [ast.In()], [node.args[0]]), node)
            sure = compared(asked, view)
            if sure is not None:
                message = f"`{view.text(node)}` compares tensors one by one to choose a branch: the graph splits here"
                yield Hit(node, message, INSTEAD, sure)
        return
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return
    container = view.kind(node.comparators[0])
    if is_text(view.kind(node.left)) or any(isinstance(option, Mapping) for option in options(container)):
        return  # a tensor raises for a text, and what may be a dict is asked for its keys
    within = data(container)
    if within is not None:
        yield Hit(
            node,
            f"`{view.text(node)}` searches a tensor and needs a Python answer: the whole function runs uncompiled",
            INSTEAD,
            within,
            "frame-skip",
        )
        return
    own = data(view.handed_back(node))
    confidence = own or compared(node, view)
    if confidence is None:
        return
    site, negated = site_of(node, view)
    if isinstance(node.ops[0], ast.NotIn):
        message = (
            f"`{view.text(node)}` reads tensors back where Dynamo cannot resume: the whole function runs uncompiled"
        )
        yield Hit(node, message, INSTEAD, confidence, "frame-skip")
    elif site is not None and not (isinstance(site, ast.Assert) and not negated):
        how = "asks a tensor, which `__contains__` gives," if own else "compares tensors one by one"
        message = f"`{view.text(node)}` {how} to choose a branch: Dynamo splits the graph here"
        yield Hit(node, message, INSTEAD, confidence)


def members(value: Value) -> tuple[Value, ...]:
    """What a list or tuple holds."""
    if not isinstance(value, Sequence):
        return ()
    return value.items if value.items is not None else (value.element,)


def is_text(value: Value) -> bool:
    """Whether a value can only be a string."""
    return all(
        (isinstance(o, Const) and isinstance(o.value, str)) or (isinstance(o, Scalar) and o.type == "str")
        for o in options(value)
    )


def _is_no_tensor(value: Value, view: View) -> bool:
    """Whether a value is a string, None, one of torch's dtypes or an object: Dynamo knows that no tensor equals it.

    Of an object torch 2.11 does not.
    """
    if value == NONE or is_text(value) or is_dtype(value):
        return True
    return view.torch > (2, 11) and is_object(value, view)


def compared(node: ast.Compare, view: View) -> Confidence | None:
    """How sure it is that a tensor is looked for in a list or tuple; sets and dicts go by identity and compile."""
    values = options(view.kind(node.comparators[0]))
    if not all(isinstance(value, Sequence) and value.form in ("list", "tuple") for value in values):
        return None
    if all(all(_is_no_tensor(member, view) for member in members(value)) for value in values):
        return None  # in an empty list, or among such members, nothing is compared with a tensor
    return data(view.kind(node.left))


def looked_up(node: ast.Call, view: View) -> Iterator[Hit]:
    """`tensors.index(t)`, `tensors.remove(t)`; who looks for a text has a list of texts."""
    if view.callee(node) not in LOOKUPS or not isinstance(node.func, ast.Attribute):
        return
    confidence = tensors_within(view.kind(node.func.value))
    if confidence is not None and not (node.args and is_text(view.kind(node.args[0]))):
        message = f"`{view.text(node)}` compares tensors one by one to find a place: Dynamo splits the graph here"
        yield Hit(
            node,
            message,
            "keep positions in Python, or find them with `(stacked == t).nonzero_static(...)`",
            confidence,
        )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.stops = [1.0, 2.0]

    def forward(self, x: torch.Tensor):
        if x.sum() in self.stops:  # ~
            return x
        return self.proj(x)
""",
        run="(Router(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def finish(ids: torch.Tensor, eos: int = 2):
    done = eos in ids  # ~
    return ids + int(done)
""",
        run="(finish, [(torch.ones(2, 4, dtype=torch.long),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


class Points:
    def __init__(self, x):
        self.x = x

    def __contains__(self, value):
        return (self.x == value).any()


def shifted(x: torch.Tensor):
    y = x * 2
    return y + 1 if 1.0 in Points(x) else y  # ~
""",
        run="(shifted, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


class Points:
    def __init__(self, x):
        self.x = x

    def __contains__(self, value):
        return (self.x == value).any()


def absent(x: torch.Tensor):
    missing = 3.0 not in Points(x)  # ~
    return x * 2, missing
""",
        run="(absent, [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch


class Interval:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def __contains__(self, value):
        return self.low <= value <= self.high

    def where(self, x):
        return (x >= self.low) & (x <= self.high)


def inside(x: torch.Tensor):
    span = Interval(0, 8)
    if x.shape[0] in span and x.dim() not in Interval(3, 4):
        x = torch.where(span.where(x), x, 0)
    return x * 2


def kept(x: torch.Tensor):
    assert x.dim() in Interval(1, 4)
    return inside(x)
""",
        run="(kept, [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.names = {"proj": 1}

    def forward(self, x: torch.Tensor, mode: str = "fast"):
        if mode in ("slow", "exact") or x.shape[0] in [3, 5] or x.dtype in (torch.float16, torch.bfloat16):
            return x
        if "proj" in self.names and mode not in self.names:
            x = self.proj(x)
        kept = [mode, "slow"].index(mode)
        stops = torch.tensor([1.0, 2.0])
        if x in (None, "auto", self.proj):
            return stops
        return torch.where(torch.isin(x.sum(), stops), x, x + kept)
""",
        run="(Router(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # Whoever looks for a word has words.
        code="""\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def place(self, sentence, word):
        return sentence.split(" ").index(word)

    def forward(self, x, sentence, word="b"):
        return self.proj(x) + self.place(sentence, word)
""",
        run="(Encoder(), [(torch.ones(2, 4), 'a b')])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch


@torch.compile
def to_dtype(x, kind):
    if kind in (torch.float8_e4m3fn, torch.float8_e5m2) or kind == torch.float16:
        return x * 2
    return x + 1
""",
        run="(to_dtype, [(torch.ones(2, 4), torch.float16)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, batch: torch.Tensor | dict[str, torch.Tensor]):
        key = "scale"
        x = self.proj(batch["x"])
        if "mask" in batch:
            x = x * batch["mask"]
        return x if key not in batch else x * batch[key]
""",
        run="(Head(), [({'x': torch.ones(2, 4), 'mask': torch.ones(2, 4)},)])",
        default="clean",
        fullgraph="clean",
    ),
)
