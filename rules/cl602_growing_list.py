"""A list, tuple or set that outlives the call and grows in compiled code recompiles every time.

## What it does

Finds `self.kept.append(h)`, `self.rows += [x]`, `self.rows = self.rows + (x,)` and `SEEN.add(name)` in compiled code,
where the container lives on a module, in a global, in the function around the compiled one, or is the default of a
parameter that no caller passes.

## Why it costs

Dynamo guards on the length of a list it touches (and on the members of a set). The call makes it longer, so the next
call fails the guard: measured on torch 2.13, one entry per call compiles 8 times in 10 calls, then the recompile
limit is hit and the function runs uncompiled.

## Write instead

- Return what should be kept, and let the caller append it.
- Write into a buffer of fixed size: `self.kept.index_copy_(0, self.position, h)`, with `position` a buffer too.

## Limits

A container that the function also clears, rebinds or pops from keeps its length and is not reported, nor is one that
`__exit__` makes as short as it was before `__enter__`; nor is a `deque(maxlen=…)`, which stops growing, nor a constant
that is added to a set, nor what is filled on the first call alone (`if self.new: …; self.new = False`).
Where a method that the class calls empties it, inherited or not, this is possible only.

## References

PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.model import CONFIDENCES, Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.emptying import called_beside, called_methods, emptied_by, is_taken_back, methods
from compilelint.static.facts.state import (
    GROWING,
    SHRINKING,
    class_node,
    held,
    is_same_object_next_call,
    own_nodes,
    read_before,
    runs_once,
    same_place,
    without_alias,
    written,
)
from compilelint.static.facts.turns import first_call_alone
from compilelint.static.values import UNKNOWN, Const, ExternalInstance, Mapping, Sequence, Value, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Call, ast.Assign, ast.AugAssign), syntax=lambda node, module: _grown(node) is not None)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the statement or call by which a list that outlives the call gets longer."""
    grown = _grown(node)
    if grown is None or runs_once(view.qualname):
        return
    place = without_alias(grown, view)
    if not is_same_object_next_call(place, view) or not _is_list(place, view) or _shrinks(grown, place, node, view):
        return
    if _on_the_first_call(node, place, view) or is_taken_back(place, view):
        return
    of_set = isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".add")
    if of_set and isinstance(node, ast.Call) and all(isinstance(view.kind(entry), Const) for entry in node.args):
        return
    if isinstance(node, ast.Assign):
        node = node.targets[0]
    assert isinstance(node, (ast.expr, ast.stmt))
    read = read_before(place, node, view)
    with_each = f"{'new entry' if of_set else 'call'}{f' (line {node.lineno})' if read is not None else ''}"
    yield Hit(
        read or node,
        f"`{view.text(place)}` gets longer with every {with_each} and Dynamo guards on what is in it: each compiles"
        " again until the recompile limit, then the function runs uncompiled",
        "return the value and append it in the calling code, or write into a buffer of fixed size",
        confidence=max(_confidence(place, view), "likely" if of_set else "certain", key=CONFIDENCES.index),
    )


def _on_the_first_call(growth: ast.AST, place: ast.expr, view: View) -> bool:
    """Whether it grows under a test that is turned round then: here, or around each call of this method."""
    if first_call_alone(growth, view.function, view):
        return True
    name = view.qualname.rpartition(".")[2]
    calls = [(method, call) for method in methods(place, view) for call in _calls_of(name, method)]
    return bool(calls) and all(first_call_alone(call, method, view) for method, call in calls)


def _calls_of(name: str, method: ast.AST) -> Iterator[ast.Call]:
    for node in own_nodes(method):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"self.{name}":
            yield node


def _confidence(place: ast.expr, view: View) -> Confidence:
    emptying = set(emptied_by(place, view))
    called = called_methods(place, view) | called_beside(view)
    if view.assumed or _asked_first(place, view) or emptying & called:
        return "possible"
    return "likely" if emptying else "certain"


def _asked_first(place: ast.expr, view: View) -> bool:
    """Whether the function looks in `place` for what it adds (`if key in SEEN: return`): it grows by new keys only."""
    return any(
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], (ast.In, ast.NotIn))
        and same_place(without_alias(node.comparators[0], view), place)
        for node in own_nodes(view.function)
    )


def _grown(node: ast.AST) -> ast.expr | None:
    """The container that `c.append(x)`, `c += [x]` or `c = c + [x]` makes longer."""
    if isinstance(node, ast.Call):
        return node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in GROWING else None
    if isinstance(node, ast.AugAssign):
        return node.target if isinstance(node.op, ast.Add) and isinstance(node.value, (ast.List, ast.Tuple)) else None
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add)):
        return None
    is_longer = same_place(node.value.left, node.targets[0]) and isinstance(node.value.right, (ast.List, ast.Tuple))
    return node.targets[0] if is_longer else None


def _is_list(place: ast.expr, view: View) -> bool:
    """Whether a Python list, tuple, set or unbounded deque is kept at `place`."""
    value = held(place, view)
    if value == UNKNOWN and isinstance(place, ast.Subscript):
        # `defaultdict(list)[key]`, or a list in a dict that starts empty.
        return all(_is_dict(option) for option in options(held(place.value, view)))
    return all(
        (isinstance(option, Sequence) and option.form in ("list", "tuple", "set"))
        or (isinstance(option, ExternalInstance) and option.name == "collections.deque" and not _bounded(place, view))
        for option in options(value)
    )


def _is_dict(value: Value) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, ExternalInstance) and value.name in ("collections.defaultdict", "collections.OrderedDict")
    )


def _bounded(place: ast.expr, view: View) -> bool:
    """Whether the class gives the deque a `maxlen`."""
    owner = class_node(view.kind(place.value), view) if isinstance(place, ast.Attribute) else view.module
    return any(isinstance(node, ast.keyword) and node.arg == "maxlen" for node in ast.walk(owner or view.module))


def _shrinks(grown: ast.expr, place: ast.expr, growth: ast.AST, view: View) -> bool:
    """Whether the same function also rebinds the container or takes something out."""
    if any(statement is not growth for statement, _ in written(place, view.function)):
        return True
    deleted = [part for node in own_nodes(view.function) if isinstance(node, ast.Delete) for part in node.targets]
    if any(isinstance(part, ast.Subscript) and same_place(part.value, place) for part in deleted):
        return True
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in SHRINKING
        and (same_place(node.func.value, grown) or same_place(node.func.value, place))
        for node in own_nodes(view.function)
    )


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Extractor(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.kept = []

    def remember(self, h):
        self.kept.append(h.detach())  # ~

    def forward(self, x):
        h = torch.relu(self.proj(x))
        self.remember(h)
        return h
""",
        run="Extractor(), [(torch.ones(2, 4),) for _ in range(4)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        code="""
import torch
from torch import nn

NORMS = []


class Tracked(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.history = ()

    def forward(self, x):
        h = self.proj(x)
        norms = NORMS
        norms.append(h.norm())  # ~
        self.history = self.history + (h.mean(),)  # ~
        return h
""",
        run="Tracked(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        # One branch reads the list before the other makes it longer: the second does not wait for the first.
        code="""\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = []
        self.names = []

    def forward(self, x, flag: bool):
        if flag:
            self.kept.append(x.mean())  # ~
        else:
            self.kept.append(x.sum())  # ~
        count = len(self.names) if flag else 0
        self.names.append("step")  # ~
        return x + count
""",
        run="(Model(), [(torch.ones(2), False) for _ in range(3)])",
        default="recompile",
        fullgraph="recompile",
    ),
    Example(
        # A default is made once, and so is what the function around sets.
        code="""\
import torch


def losses():
    history = []

    def contrast(query: torch.Tensor, key: torch.Tensor, bank=[]):
        logits = query @ key.T
        if bank:  # ~
            logits = logits + query @ bank[-1].T
        bank.append(key.detach())
        history.append(logits.mean())  # ~
        return logits

    return torch.compile(contrast)
""",
        run="losses(), [(torch.ones(2, 4), torch.ones(2, 4)) for _ in range(3)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # A list of this call's own, whoever adds to it.
        code="""\
import torch


def collect(x, rows=[]):
    rows.append(x)
    return x


def forward(x: torch.Tensor, seen=None):
    rows = []
    seen = [] if seen is None else seen

    def note(t):
        seen.append(t)
        return t

    return collect(x, rows) + note(x) + len(rows)
""",
        run="(forward, [(torch.ones(2, 4),) for _ in range(3)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""
import torch
from torch import nn


SCOPES = []


class Scope:
    def __enter__(self):
        SCOPES.append(1)

    def __exit__(self, *error):
        SCOPES.pop()


class Extractor(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))
        self.kept = []
        self.seen = {"first"}

    def forward(self, x):
        with Scope():
            self.kept = []
        self.seen.add("first")
        states = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            states.append(x)
            self.kept.append(x.detach())
        return torch.stack(states)
""",
        run="Extractor(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # A list made in the call, handed to a helper object: it does not outlive the call.
        code="""
import torch
from torch import nn


class Collector:
    def __init__(self):
        self.states = []

    def add(self, h):
        self.states.append(h)


class Encoder(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))
        self.open = []

    def forward(self, x):
        out = Collector()
        for layer in self.layers:
            self.open.append(x)
            x = layer(x)
            out.add(x)
            self.open.pop()
        return torch.stack(out.states)
""",
        run="Encoder(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # Filled on the first call alone: the second compiles again, as the flag is another then, and later ones do not.
        code="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.order = []
        self.unordered = True

    def put_in_order(self, names):
        for name in names:
            self.order.append(name)

    def forward(self, x):
        if self.unordered:
            self.put_in_order(("a", "b"))
            self.unordered = False
        return self.proj(x) * len(self.order)
""",
    ),
    Example(
        # Seen once, it is not added again: the second call compiles again, later ones do not.
        code="""
import torch
from torch import nn

SEEN = set()


class Encoder(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        if "proj" not in SEEN:
            SEEN.add("proj")
        return self.proj(x)
""",
    ),
)
