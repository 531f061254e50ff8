"""A number read back from a tensor and computed with compiles what follows again when it changes.

## What it does
Reports a comparison or an arithmetic operation whose operand is read back from a tensor there and then,
`scores.max().item() > 0.5`, `hits.sum().item() / n`, `int(lengths.max()) + 1`, and a branch on a variable that holds
such a number: `busiest = counts.max().item()`, later `if busiest > self.capacity`. Of a variable that holds one, also
one of a list (`for n in lengths.tolist()`), the first computation, slice or call of torch that takes it, and where a
model keeps one in an attribute, the first read of that.

## Why it costs
The read-back splits the graph and has a finding of its own. The part behind it starts with the number as an input, and
as soon as it computes with it, Dynamo guards on the value: `___stack0 == 3`. The next value fails the guard and
compiles the rest of the function once more, with the number as a symbol; where a constant is needed (a flag such as
`requires_grad_(score > 0.5)`, a probability, `range(n)`) it compiles for every value. Measured on torch 2.13. A number
that is only returned or stored costs nothing more.

## Write instead
Compute with the tensor, and read the result back in the code that calls the model:

    accuracy = hits.sum() / keep.sum().clamp(min=1)          # stays in the graph
    scale = torch.where(scores.max() > 0.5, 0.5, 1.0)        # instead of a Python comparison

## Limits
In a loop, a `try` or a `with` of the same function no graph is left that could compile again. Under `fullgraph=True`
(torch 2.10 on) the number stays in the graph. Sizes and counts are CL609's.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import islice

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.number_arguments import numbers_of
from compilelint.static.facts.questions import assigned_once, last_name
from compilelint.static.facts.state import is_same_object_next_call, loads, own_nodes, same_place, used_at
from compilelint.static.facts.tensors import data, on_error_path, site_of, written_constant
from compilelint.static.facts.turns import first_call_alone
from compilelint.static.values import Scalar, Sequence, element_of, options

HAZARD = "recompile"
CAPTURED = "numbers"
WATCH = Watch(nodes=(ast.Compare, ast.BinOp, ast.Call), syntax=lambda node, module: _may_read_back(node))
CASTS = frozenset({"builtins.int", "builtins.float"})
READING = frozenset({"item", "tolist", "int", "float"})
NUMBERS = frozenset({"builtins.int", "builtins.float", "builtins.round", "builtins.min"})
"""What makes another number of one. A largest value that is kept is CL604's."""
MANY = 64
"""Of a longer sum only the whole is looked through: a sum of n terms is n - 1 operations in one another."""
INSTEAD = "compute with the tensor, `torch.where` instead of a comparison, and read the result back outside"
_UNCOMPILED = (ast.For, ast.While, ast.Try, ast.With, ast.comprehension, ast.Lambda)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit for each outermost operation with a number that is read back inside it, and for the first use of one that
    is kept in a variable."""
    if isinstance(node, ast.Call):
        yield from _first_uses(node, view)
        return
    if not isinstance(node, (ast.Compare, ast.BinOp)) or _within_operation(node, view) or _left_uncompiled(node, view):
        return
    branched_on = isinstance(node, ast.Compare) and site_of(node, view)[0] is not None
    read = next((part for part in _operands(node) if _reads_back(part, view, branched_on)), None)
    if read is not None and not on_error_path(node, view):
        yield Hit(
            node,
            f"`{view.text(node)}` computes with a number that was read back: Dynamo guards on its value behind the"
            " break, so what follows compiles again when it changes",
            INSTEAD,
            "likely",
        )


def _first_uses(call: ast.Call, view: View) -> Iterator[Hit]:
    """Where the variables that hold what `call` reads back are used first, if the graph depends on them there."""
    if on_error_path(call, view) or not _reads(call, view):
        return
    here = _use_of(call, view)
    if isinstance(here, (ast.Subscript, ast.Call)) and here is not call and not _left_uncompiled(here, view):
        yield Hit(
            here,
            f"`{view.text(here)}` depends on a number that is read back inside it: Dynamo guards on its value behind"
            " the break, so what follows compiles again when it changes",
            INSTEAD,
            "likely",
        )
    for name, use in _used(call, view):
        yield Hit(
            use,
            f"`{name}` was read back (line {call.lineno}) and `{view.text(use)}` depends on it: Dynamo guards on its"
            " value behind the break, so what follows compiles again when it changes",
            INSTEAD,
            "likely",
        )
    place = _kept_at(call, view)
    reads = [] if place is None else [read for read in _reads_of(place, view) if view.reached(read)]
    if place is not None and reads and reads[0].lineno <= call.lineno:
        yield Hit(
            used_at(reads[0], view),
            f"`{view.text(place)}` keeps a number that was read back (line {call.lineno}): Dynamo guards on its value,"
            " so this compiles again once the number has changed, and for each new int that a module keeps",
            "keep the tensor in a buffer (`copy_`) and compute with that, or read it back in the calling code",
            "likely",
        )


def _kept_at(call: ast.Call, view: View) -> ast.Attribute | None:
    """The attribute of an object that lasts in which an assignment keeps what is computed from a read-back."""
    inner: ast.AST = call
    for parent in view.parents(call):
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            place = parent.targets[0]
            if not isinstance(place, ast.Attribute) or not is_same_object_next_call(place, view):
                return None
            never_changes = first_call_alone(parent, view.function, view)
            return None if never_changes or _left_uncompiled(parent, view) else place
        number = isinstance(parent, ast.Call) and view.callee(parent) in NUMBERS
        if not (
            number or isinstance(parent, ast.BinOp) or (isinstance(parent, ast.IfExp) and inner is not parent.test)
        ):
            return None
        inner = parent
    return None


def _reads_of(place: ast.Attribute, view: View) -> list[ast.expr]:
    """Where the function reads an attribute, in order."""
    reads = [
        node
        for node in own_nodes(view.function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and same_place(node, place)
    ]
    return sorted(reads, key=lambda read: (read.lineno, read.col_offset))


def _used(numbers: ast.expr, view: View, *, kept: bool = False) -> Iterator[tuple[str, ast.expr]]:
    """What holds `numbers` or one of them, each with its first use; `kept` where a list is one already.

    Variables, and an attribute that is read behind this alone: measured, what the next call finds in it is not asked.
    """
    for name in _names_for(numbers, view):
        reads = [read for read in filter(view.reached, loads(name, view.function)) if read.lineno >= numbers.lineno]
        reads.sort(key=lambda read: (read.lineno, read.col_offset))
        use = _first_use(reads, view)
        if use is not None:
            yield name, use
        elif reads and not kept:  # `sizes = lengths.tolist()`, and then `for n in sizes`
            yield from _used(reads[0], view, kept=True)
    place = _kept_at(numbers, view) if isinstance(numbers, ast.Call) else None
    behind = [] if place is None else list(filter(view.reached, _reads_of(place, view)))
    if place is not None and behind and behind[0].lineno > numbers.lineno:
        use = _first_use(behind, view) or _branch_on(behind[0], view)
        if use is not None:
            yield view.text(place), use


def _branch_on(read: ast.expr, view: View) -> ast.expr | None:
    """The comparison with what is read, if something is decided by it."""
    parent = next(iter(view.parents(read)), None)
    return parent if isinstance(parent, ast.Compare) and site_of(parent, view)[0] is not None else None


def _first_use(reads: Iterable[ast.expr], view: View) -> ast.expr | None:
    """The first use of what is read, in order, that a graph depends on; None if another finding tells of that."""
    uses = ((read, use) for read in reads if (use := _use_of(read, view)) is not None)
    read, use = next(uses, (None, None))
    return None if use is read else use


def _reads(call: ast.Call, view: View) -> bool:
    """Whether a call makes Python numbers of a tensor, `[…]` of them for `tolist`."""
    if _reads_back(call, view, branched_on=False):
        return True
    name = last_name(call.func)
    lists = (option for option in options(view.kind(call)) if isinstance(option, Sequence))
    return (
        name == "tolist"
        and isinstance(call.func, ast.Attribute)
        and data(view.kind(call.func.value)) is not None
        and not written_constant(call.func.value, view)
        and any(
            isinstance(part, Scalar) and part.origin == "tensor"
            for found in lists
            for part in options(element_of(found))
        )
    )


def _names_for(numbers: ast.expr, view: View) -> Iterator[str]:
    """The variables that hold the numbers, set by an assignment or by a loop that no break leaves uncompiled."""
    inner: ast.AST = numbers
    for parent in view.parents(numbers):
        target: ast.expr | None = None
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and not _left_uncompiled(parent, view):
            target = parent.targets[0] if parent.value is inner else None
        elif isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is inner:
            target = None if _left_uncompiled(parent, view) or _reads_inside(parent, view) else parent.target
        elif isinstance(parent, ast.Call) and last_name(parent.func) in ("enumerate", "zip") and inner in parent.args:
            inner = parent
            continue
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        if isinstance(target, ast.Tuple) and isinstance(inner, ast.Call) and last_name(inner.func) == "enumerate":
            parts = target.elts[1:]
        yield from (part.id for part in parts if isinstance(part, ast.Name) and _is_set_once(part.id, view))
        return


def _reads_inside(loop: ast.For | ast.comprehension, view: View) -> bool:
    """Whether a loop reads something back at each turn, which leaves all of it uncompiled."""
    body = loop.body if isinstance(loop, ast.For) else ()
    inside = (node for statement in body for node in own_nodes(statement))
    return any(isinstance(node, ast.Call) and _reads(node, view) for node in inside)


def _is_set_once(name: str, view: View) -> bool:
    stores = [n for n in own_nodes(view.function) if isinstance(n, ast.Name) and n.id == name]
    return sum(isinstance(node.ctx, ast.Store) for node in stores) == 1


def _use_of(read: ast.expr, view: View) -> ast.expr | None:
    """The operation that makes the graph depend on a number: arithmetic, a slice or index, a call of torch.

    None where it is handed on, kept or returned, `read` itself where another finding tells: a branch on it, a size.
    """
    inner: ast.expr = read
    parent: ast.AST | None = None  # of the body of a lambda there is none
    for parent in view.parents(read):
        if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Slice)) or (
            isinstance(parent, ast.Tuple) and inner is not read
        ):
            inner = parent
        elif isinstance(parent, ast.Subscript) and parent.slice is inner:
            held = options(view.kind(parent.value))
            return parent if data(view.kind(parent.value)) or isinstance(held[0], Sequence) else None
        elif isinstance(parent, ast.Compare):
            return read if site_of(parent, view)[0] is not None else parent
        elif not isinstance(parent, ast.keyword):
            break
    if isinstance(inner, ast.BinOp):
        return inner
    if isinstance(parent, ast.Call) and view.callee(parent).startswith(("torch.", "builtins.range")) and inner is read:
        # One number as a size is CL609's, not a list of them: `x.split(lengths.tolist())`.
        told = not isinstance(view.kind(read), Sequence) and any(part is read for part in numbers_of(parent, view))
        return read if told else parent
    return None


def _may_read_back(node: ast.AST) -> bool:
    """Whether a call may read a number back, an operand is a call or, in a comparison, a variable."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in READING
    sort = (ast.Call, ast.Name) if isinstance(node, ast.Compare) else ast.Call
    first = list(islice(_operands(node), MANY)) if isinstance(node, ast.expr) else []
    return len(first) == MANY or any(isinstance(part, sort) for part in first)


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """The operands of an operation from left to right, those of operations nested in it included."""
    pending = [node]
    while pending:  # generated code adds hundreds of terms: generators in one another would pass each up to the top
        part = pending.pop()
        if isinstance(part, ast.BinOp):
            pending += (part.right, part.left)
        elif isinstance(part, ast.Compare):
            pending += (*reversed(part.comparators), part.left)
        elif isinstance(part, ast.UnaryOp):
            pending.append(part.operand)
        else:
            yield part


def _reads_back(node: ast.expr, view: View, branched_on: bool) -> bool:
    """Whether `node` is a call that makes a Python number of a tensor, or a variable for one that is `branched_on`."""
    value = view.kind(node)
    if isinstance(node, ast.Name) and branched_on:
        node = assigned_once(view.function, node.id) or node
    if not isinstance(node, ast.Call):
        return False
    if not all(isinstance(option, Scalar) and option.origin == "tensor" for option in options(value)):
        return False
    if view.callee(node) in CASTS:
        read = node.args[0] if node.args else None
        return read is not None and data(view.kind(read)) is not None and not written_constant(read, view)
    return isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not written_constant(node, view)


def _within_operation(node: ast.AST, view: View) -> bool:
    return isinstance(next(iter(view.parents(node)), None), (ast.Compare, ast.BinOp, ast.UnaryOp))


def _left_uncompiled(node: ast.AST, view: View) -> bool:
    """Whether the break leaves no graph of this function that could be compiled again."""
    return any(isinstance(parent, _UNCOMPILED) for parent in view.parents(node))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = self.proj(x)
        closed = h.max().item() < 0.5  # ~ CL201  # ~
        return torch.dropout(h, 0.5, closed)
""",
        run="(Gate(), [(torch.full((2, 4), float(n)),) for n in range(3)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


def accuracy(logits, target: torch.Tensor):
    hits = logits.argmax(-1) == target
    return int(hits.sum()) / target.shape[0]  # ~ CL202  # ~


class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, target: torch.Tensor):
        h = self.proj(x)
        return h.sum() * accuracy(h, target)
""",
        run="(Scored(), [(torch.ones(3, 4), torch.tensor([0, 1, n])) for n in range(3)])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, capacity=4):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.capacity = capacity

    def forward(self, x):
        load = (self.proj(x) > 0).sum(0)
        busiest = load.max().item()  # ~ CL201
        if busiest > self.capacity:  # ~
            x = x * 0.5
        return x + load
""",
        run="(Router(), [(torch.ones(n, 4),) for n in (2, 3, 9)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


def pack(x: torch.Tensor, lengths: torch.Tensor):
    x = x * 2
    rows = []
    for row, n in enumerate(lengths.tolist()):  # ~ CL203
        rows.append(x[row, :n])  # ~
    low = x.min().item()  # ~ CL201
    return (torch.cat(rows) - low) / 2  # ~


class Range(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        scaled = x * self.count  # ~
        self.count = int((x > 1).sum())  # ~ CL202
        return scaled
""",
        run="(pack, [(torch.ones(2, 8) * n, torch.tensor([n, 3])) for n in range(1, 4)])",
        default="break",
        fullgraph="clean",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, target: torch.Tensor):
        h = self.proj(x)
        hits = (h.argmax(-1) == target).sum()
        scale = torch.where(h.max() > 0.5, 0.5, 1.0)
        return h.sum() * scale, hits / max(int(x.shape[0]) - 1, 1)
""",
        run="(Scored(), [(torch.ones(3, 4), torch.tensor([0, 1, n])) for n in range(3)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # Handed back and told, but nothing computed with.
        code="""\
import torch


@torch.compiler.disable
def statistics(x: torch.Tensor):
    return x.min().item()


def forward(x: torch.Tensor, sizes=(2, 3)):
    low = float(sizes[0])
    parts = [x[:n] * low for n in sizes]
    return torch.cat(parts)
""",
        run="(forward, [(torch.ones(3, 4) * n,) for n in range(3)])",
        default="clean",
        fullgraph="clean",
    ),
)
