"""A break in a method of an object that compiled code made costs the rest of the function that calls it.

## What it does
Finds calls of a method of an object that is made in the same function, directly or by what it calls
(`Solver(x).step()`, `spline = Spline(x)` and `spline.derivative(t)`), where another rule finds a break in that method
or in what it calls that no test decides about.

## Why it costs
After a break in a call, Dynamo has Python make that call and goes on behind it. For that it puts what is called back
on Python's stack, and it cannot make the method of an object that exists only in the graph ("Reconstruction failure",
GB0092). So it ends the graph before that line and leaves the rest of the function to Python, all of it where the object
is made on that line. A module of one's own that is made there is then built by Python, and its `__init__` compiled from
its start, which Dynamo gives up as well (GB0119).

## Write instead
- Mend the break in the method.
- Call the function of the class, which has a name to be found by: `Spline.derivative(spline, t)` in place of
  `spline.derivative(t)`; `__call__` does as well.
- Make the object before the compiled code, and keep it in an attribute or pass it in.

## Limits
Only where this text shows that the object is new: what an attribute keeps may be from an earlier call, and then the
call is only split. Measured on torch 2.11, 2.13 and 2.14 with Python 3.11.

## References
GB0092 and GB0119 in torch's graph-break registry.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import made_here
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Function, Instance, options

HAZARD = "frame-skip"
WATCH = Watch(nodes=(ast.Call,), syntax=lambda node, module: isinstance(getattr(node, "func", None), ast.Attribute))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per method that a new object is called with; it counts where there is a break in it."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    receiver, method = node.func.value, view.kind(node.func)
    if isinstance(view.function, ast.Module) or not (
        isinstance(method, Function) and made_here(view.function, receiver)
    ):
        return
    owners = options(view.kind(receiver))
    if all(isinstance(owner, Instance) and owner.traced for owner in owners) and _is_inlined(method, view):
        name, made = node.func.attr, view.text(receiver)
        by_class = f"{_class_of(owners[0])}.{name}({made}, …)"
        yield Hit(
            node,
            f"`{made}` is made in compiled code, and there is a break in its `{name}`: Dynamo can't keep the method"
            f" across that, so from here on `{view.qualname}` runs uncompiled",
            f"mend the break in `{name}`, or call the function of the class: `{by_class}`",
            "likely",
            if_broken=method,
        )


def _is_inlined(method: Function, view: View) -> bool:
    """Whether Dynamo traces into a method where it is called: no generator, and nothing is around it."""
    definition = view.definition(method)
    if not isinstance(definition, ast.FunctionDef) or method.disabled:
        return False
    plain = all(isinstance(part, ast.Name) and part.id == "staticmethod" for part in definition.decorator_list)
    return plain and not any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in nodes_in(definition))


def _class_of(owner: object) -> str:
    return owner.ref.qualname if isinstance(owner, Instance) else ""


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Spline:
    def __init__(self, knots):
        self.knots = knots

    def at(self, t):
        index = int((self.knots.sum() > t).item())  # ~ CL201
        return self.knots[index] * t


class Interpolated(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        spline = Spline(self.fc(x))
        h = torch.relu(x)
        y = spline.at(0.5)  # ~
        return self.fc(y) + h
""",
        run="(Interpolated(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        # Made by what the function calls, on the line of the call, where nothing of the function is left.
        code="""\
import torch
from torch import nn


class State:
    def __init__(self, values):
        self.values = values

    def settled(self):
        return self.last()

    def last(self):
        print("settled")  # ~ CL401
        return self.values[-1]


def started(values):
    return State(values * 2)


class Solver(nn.Module):
    def forward(self, x):
        return started(x.sin()).settled() + 1  # ~
""",
        run="(Solver(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        # Only split: the object is an input of the helper by then, or an attribute; the class and `__call__` are found;
        # what the method prints hangs on an argument.
        code="""\
import torch
from torch import nn


class Spline:
    def __init__(self, knots):
        self.knots = knots

    def at(self, t):
        print("at")  # ~ CL401
        return self.knots[0] * t

    def __call__(self, t):
        return self.at(t)

    def few(self, many):
        if many:
            print("many")  # ~ CL401
        return self.knots


def read(spline):
    return spline.at(0.5)


class Interpolated(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.kept = Spline(torch.ones(2, 4))

    def forward(self, x, many=False):
        spline = Spline(self.fc(x))
        y = self.kept.at(0.5) + spline.few(many).sum()
        y = y + read(spline)
        y = y + Spline.at(spline, 0.5) + spline(0.5)
        return self.fc(y) + Spline(y).at(1.0)  # ~
""",
        run="(Interpolated(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Spline:
    def __init__(self, knots):
        self.knots = knots

    def at(self, t):
        return self.knots[0] * t


class Interpolated(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        spline = Spline(self.fc(x))
        return self.fc(spline.at(0.5)) + Spline(x).at(1.0)
""",
        run="(Interpolated(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
