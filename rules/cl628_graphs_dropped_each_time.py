"""`torch._dynamo.reset()` in code that runs again and again throws every compiled graph away, to be compiled anew.

## What it does
Finds `torch._dynamo.reset()` and `torch.compiler.reset()` in a loop that calls what was compiled outside of it, and in
a function that works on its arguments with a compiled callable, or a method that such a function calls.

## Why it costs
The reset drops the graphs and guards of all functions in the process, not only of the one at hand. The next call
compiles from scratch, seconds to minutes, on each request, update or epoch. Measured on torch 2.13: three calls of a
method that resets and compiles are three compilations; without the reset they are one.

## Write instead
Compile once, where the model is built, and keep the result. Where stale state was the reason, compile again only when
it has changed:

    if shape != self.compiled_for:
        torch.compiler.reset()
        self.step, self.compiled_for = torch.compile(self.raw_step), shape

## Limits
Tests, benchmarks, set-up code, and resets under a comparison are left out: they have their reason.

## References
PyTorch documentation, `torch.compiler.reset`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import functions_in, own_nodes, parameters
from compilelint.static.project.syntax import nodes_in, statements_in

HAZARD = "recompile"
RESETS = frozenset({"torch._dynamo.reset", "torch.compiler.reset", "torch._dynamo.reset_code_caches"})
WATCH = Watch(nodes=(ast.Call,), callees=RESETS.__contains__, regions=frozenset({"host"}))
ONCE = (
    "test", "main", "bench", "profile", "warm", "check", "demo", "example", "run_once", "measure", "time", "compare",
    "setup", "set_", "configure", "switch", "load", "reload", "clear", "reset", "build", "make", "create", "init",
)  # fmt: skip


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the reset that each turn of a loop, or each call of a function, runs into."""
    function = view.function
    if not isinstance(node, ast.Call) or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    parents = list(view.parents(node))
    loop = next((parent for parent in parents if isinstance(parent, (ast.For, ast.AsyncFor, ast.While))), None)
    if any(not isinstance(parent.test, (ast.Name, ast.Attribute)) for parent in parents if isinstance(parent, ast.If)):
        return
    if loop is not None:
        again = "turn of the loop" if _runs_compiled(loop, view) and not _compiles(loop) else None
    else:
        user = next(_users(function, view), None)
        again = None if user is None else f"call of `{user.name}`"
    if again is not None:
        yield Hit(
            node,
            f"`{view.text(node)}` drops all compiled graphs on every {again}: the next call compiles from scratch",
            "compile once, where the model is built; reset only when something has changed that the graphs keep",
            "likely",
        )


def _users(
    function: ast.FunctionDef | ast.AsyncFunctionDef, view: View
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """What works on its arguments with something compiled: the `function` that resets, or methods that call it."""
    home = next((n for n in statements_in(view.module) if isinstance(n, ast.ClassDef) and function in n.body), None)
    for user in (function, *(functions_in(home) if home is not None else ())):
        given = set(parameters(user)) - {"self", "cls"}
        once = user.name.lower().strip("_").startswith(ONCE)
        own = user is function and _compiles(function)  # it compares what it compiles anew, see CL902
        if (
            given
            and not once
            and not own
            and _runs_compiled(user, view)
            and (user is function or _calls(user, function.name))
        ):
            yield user


def _runs_compiled(scope: ast.AST, view: View) -> bool:
    """Whether a piece of code calls a name to which the file binds what torch.compile returns."""
    calls = (node for node in nodes_in(scope) if isinstance(node, ast.Call))
    return any("torch.compile" in view.makers(last_name(call.func)) for call in calls)


def _compiles(scope: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) and last_name(node.func) == "compile" for node in nodes_in(scope))


def _calls(method: ast.AST, name: str) -> bool:
    """Whether a method calls another one of its object."""
    return any(isinstance(n, ast.Call) and ast.unparse(n.func) == f"self.{name}" for n in own_nodes(method))


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Learner:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.fast = True

    def loss(self, x):
        return self.net(x).pow(2).mean()

    def _fresh(self):
        if self.fast:
            torch._dynamo.reset()  # ~
            self.step = torch.compile(self.loss)  # ~ CL902

    def update(self, x):
        self._fresh()
        return self.step(x)


def train(xs):
    step = torch.compile(nn.Linear(4, 4))
    for x in xs:
        torch.compiler.reset()  # ~
        x = step(x)
    return x


def both(x):
    learner = Learner()
    return [learner.update(x) for _ in range(2)], train([x, x])
""",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Learner:
    def __init__(self):
        torch.compiler.reset()
        self.net = nn.Linear(4, 4)
        self.step = torch.compile(self.loss)
        self.rows = 0

    def loss(self, x):
        return self.net(x).pow(2).mean()

    def set_net(self, net):
        torch.compiler.reset()
        self.net = net
        self.step = torch.compile(self.loss)

    def update(self, x):
        if x.shape[0] != self.rows:
            torch.compiler.reset()
            self.rows = x.shape[0]
        return self.step(x)


def compare(functions, x):
    results = []
    for function in functions:
        torch.compiler.reset()
        fast = torch.compile(function)
        results.append(fast(x))
    return results


def graphs(function, x):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    fast = torch.compile(function, backend=counter)
    fast(x)
    return counter.frame_count
""",
        run="(Learner().update, [(torch.ones(2, 4),) for _ in range(3)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
