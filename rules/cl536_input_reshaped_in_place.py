"""Changing the shape of an input in place splits the graph.

## What it does
Finds, in code that Dynamo traces, in-place methods that change what a tensor looks like and not what it holds
(`unsqueeze_`, `squeeze_`, `transpose_`, `t_`, `swapaxes_`, `as_strided_`, `resize_`, `set_`, `detach_`), on an argument
of the compiled function, also where a helper is handed it, and on a parameter or buffer, by its name or in a loop over
all of them.

## Why it costs
An input belongs to the caller, and a graph that changes its shape would leave the caller's tensor as it was. Dynamo
ends the graph there (GB0148), lets Python make the call and starts another graph behind it.

## Write instead
The same method without the underscore, which makes a view and costs nothing: `x = x.unsqueeze(1)`. What `resize_` and
`set_` do has no such form: do it before the compiled code runs.

## Limits
The same on what the function computed itself compiles, and so does writing into an input's values (`x.zero_()`). A
tensor that comes across another graph break is an input of what follows it, and is not reported. Measured on torch
2.11, 2.13 and 2.14.

## References
GB0148 in torch's graph-break registry.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once, assigned_to, stored_before, stored_names
from compilelint.static.values import Instance, tensor_certainty

HAZARD = "graph-break"
RESHAPING = frozenset(
    "unsqueeze_ squeeze_ transpose_ t_ swapaxes_ swapdims_ as_strided_ resize_ resize_as_ set_ detach_".split()
)
WITHOUT_VIEW = frozenset({"resize_", "resize_as_", "set_"})
"""Those that put other memory there."""
OF_MODULE = frozenset({"parameters", "named_parameters", "buffers", "named_buffers"})
"""Methods of a module that go through its tensors."""
WATCH = Watch(nodes=(ast.Call,), names=RESHAPING)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call on an input."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RESHAPING):
        return
    receiver = node.func.value
    if tensor_certainty(view.kind(receiver)) is not None and _is_input(receiver, view):
        does = "detaches" if node.func.attr == "detach_" else "changes the shape of"
        name = view.text(receiver)
        yield Hit(
            node,
            f"`{view.text(node)}` {does} a tensor that compiled code was given: the graph splits here",
            "give it that shape before the compiled code runs, or use a tensor made here"
            if node.func.attr in WITHOUT_VIEW
            else f"make a view instead: `{name} = {name}.{node.func.attr.rstrip('_')}(…)`",
            "likely",
        )


def _is_input(node: ast.expr, view: View) -> bool:
    """Whether an expression is an argument of the region, by that name or by one more, or a tensor of the module's."""
    if isinstance(node, ast.Attribute):
        owner = view.kind(node.value)
        of_module = isinstance(owner, Instance) and owner.is_module and view.same_self
        return of_module and not _is_set_before(node, view)
    if not isinstance(node, ast.Name):
        return False
    if not stored_before(node.id, view.function, node):
        return view.handed_in(node.id)
    if (loop := _loop_over(node, view)) is not None:
        return _goes_through_inputs(loop, view)
    made = None if isinstance(view.function, ast.Module) else assigned_once(view.function, node.id)
    return isinstance(made, ast.Name) and not stored_before(made.id, view.function, made) and view.handed_in(made.id)


def _loop_over(name: ast.Name, view: View) -> ast.For | None:
    """The loop around a variable that alone gives it what it is."""
    if assigned_to(view.function, name.id):
        return None
    loops = (parent for parent in view.parents(name) if isinstance(parent, ast.For))
    return next((loop for loop in loops if any(_is_named(part, name.id) for part in ast.walk(loop.target))), None)


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _goes_through_inputs(loop: ast.For, view: View) -> bool:
    """Whether a loop takes the parameters or buffers of a module that was not made here, or inputs written in a row."""
    if isinstance(loop.iter, (ast.List, ast.Tuple)):
        return isinstance(loop.target, ast.Name) and all(_is_input(part, view) for part in loop.iter.elts)
    called = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    if not (isinstance(called, ast.Attribute) and called.attr in OF_MODULE):
        return False
    owner: ast.expr = called.value
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id not in _stored(view)


def _stored(view: View) -> frozenset[str]:
    return frozenset() if isinstance(view.function, ast.Module) else stored_names(view.function)


def _is_set_before(place: ast.Attribute, view: View) -> bool:
    """Whether the function has given the attribute a tensor of its own above."""
    return any(
        isinstance(part, ast.Attribute)
        and part.attr == place.attr
        and isinstance(part.ctx, ast.Store)
        and part.lineno < place.lineno
        for part in ast.walk(view.function)
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


def to_heads(h):
    h.unsqueeze_(1)  # ~
    return h


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        out = self.proj(x)
        mask.transpose_(0, 1)  # ~
        return to_heads(x) * out + mask
""",
        run="(Mixer(), [(torch.ones(2, 4), torch.ones(4, 2))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(4, 2))

    def forward(self, x: torch.Tensor):
        h = x * 2
        self.table.t_()  # ~
        same = x
        same.squeeze_(0)  # ~
        self.table.detach_()  # ~
        return h + self.table.sum() + same
""",
        run="(Table(), [(torch.ones(1, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Spiking(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("potential", torch.zeros(2, 4))
        self.register_buffer("current", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor):
        for name, state in self.named_buffers():
            if name != "current":
                state.detach_()  # ~
        for state in (self.potential, self.current):
            state.detach_()  # ~
        return x + self.potential * self.current
""",
        run="(Spiking(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Leaky(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("mem", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor, skip: torch.Tensor):
        x.squeeze_(1)  # ~
        x = self.proj(x)
        self.mem.detach_()  # ~
        self.mem = self.mem * 0.9 + x
        for _ in range(2):
            skip.squeeze_(1)  # ~
            skip = self.proj(skip).unsqueeze(1)
        return self.mem + skip[:, 0]
""",
        run="(Leaky(), [(torch.ones(2, 1, 4), torch.ones(2, 1, 4))])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


def to_heads(h):
    h.unsqueeze_(1)
    return h


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        out = self.proj(x)
        out.unsqueeze_(0)
        mask.zero_()
        x = x.clone()
        x.t_()
        first = mask[0]
        first.unsqueeze_(0)
        for part in (out * 2, out + 1):
            part.detach_()
            out = out + part
        return to_heads(x * 2).sum() + out + mask.transpose(0, 1).sum() + first.sum()
""",
        run="(Mixer(), [(torch.ones(2, 4), torch.ones(4, 2))])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Leaky(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("mem", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor):
        rows = [x.squeeze_(1) for x in (x * 2).split(1)]
        x = self.proj(torch.cat(rows))
        x.unsqueeze_(1)
        self.mem = self.mem * 0.9 + x.sum(1)
        self.mem.detach_()
        return self.mem
""",
        run="(Leaky(), [(torch.ones(2, 1, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
