"""`compiled.generate(...)`: every method but the call itself runs on the original module, uncompiled.

## What it does

Finds a method call, `net.generate(ids)` or `net.encode(x)`, on what `torch.compile(module)` returned, where the
method runs the model or a part of it. After `net.compile()` it finds `net.forward(x)`, and methods that run the model
by `self.forward(x)`.

## Why it costs

`torch.compile(module)` compiles calls of the wrapper. Any other attribute is looked up on the original module, where
`self(...)` inside the method is an uncompiled call: measured on torch 2.13, `torch.compile(model).generate(ids)`
compiles no graph, and nothing says so. `net.compile()` compiles what a call of `net` runs; `net.forward` is left as it
was (measured: no graph).

## Write instead

- `model.compile()` compiles the module in place, so that `self(...)` in its methods is compiled (measured).
- Or `model.forward = torch.compile(model.forward)` (measured), the usual way for `generate`.
- Or compile the method itself: `encode = torch.compile(model.encode)`.

## References

PyTorch documentation, `torch.compile` and `torch.nn.Module.compile`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import own_names
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import UNKNOWN, Compiled, Instance, Value, gives_module, options

HAZARD = "placement"
WATCH = Watch(nodes=(ast.Call,), regions=frozenset({"host", "decode-loop"}))
RUNNING = frozenset({"generate", "sample", "predict", "encode", "decode", "training_step", "transcribe"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the method call that goes round the compiled wrapper."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    receivers = options(view.kind(node.func.value))
    yield from _past_compiled(node, node.func, view)
    compiled = [option for option in receivers if isinstance(option, Compiled)]
    if not compiled or not any(_runs_model(option.inner, node.func.attr, view) for option in compiled):
        return
    model, name = view.text(node.func.value), node.func.attr
    yield Hit(
        node,
        f"`{model}` is compiled, but `{name}` is looked up on the module inside it: what it runs is not compiled",
        "compile in place (`model.compile()`, or `model.forward = torch.compile(model.forward)`), or compile the"
        f" method (`torch.compile(model.{name})`)",
        confidence="certain" if len(compiled) == len(receivers) else "likely",
    )


def _past_compiled(call: ast.Call, method: ast.Attribute, view: View) -> Iterator[Hit]:
    """`net.forward(x)` after `net.compile()`, and a method that calls `self.forward(x)`: only `net(x)` is compiled."""
    owners = options(view.kind(method.value))
    if not all(isinstance(owner, Instance) and owner.compiled for owner in owners):
        return
    if not _is_compiled_in_place(ast.unparse(method.value), view):
        return
    model, name = view.text(method.value), method.attr
    if name == "forward":
        yield Hit(
            call,
            f"`{model}` is compiled in place, which compiles calls of it: `{model}.forward` goes past that and runs"
            " uncompiled",
            f"call the module, `{model}(…)`",
            "likely",
        )
    elif _calls_only_forward(name, view.classes(view.kind(method.value))):
        yield Hit(
            call,
            f"`{model}` is compiled in place, which compiles calls of it: `{name}` goes past that with"
            " `self.forward(…)` and runs uncompiled",
            f"write `self(…)` instead of `self.forward(…)` in `{name}`",
            "likely",
        )


def _is_compiled_in_place(model: str, view: View) -> bool:
    """Whether `.compile()` is called on what is spelled like this, and its `forward` is not set.

    A kind does not tell: a class may have many objects, of which one is compiled.
    """
    scope: ast.AST = view.module if "." in model or model not in own_names(view.function) else view.function
    owner = view.qualname.partition(".")[0]
    for part in view.module.body:
        if isinstance(part, ast.ClassDef) and part.name == owner and any(map(_sets(model), nodes_in(part))):
            scope = part
    nodes = nodes_in(scope)
    compiles = any(isinstance(node, ast.Call) and ast.unparse(node.func) == f"{model}.compile" for node in nodes)
    return compiles and not any(map(_sets(f"{model}.forward"), nodes))


def _sets(place: str) -> Callable[[ast.AST], bool]:
    """A question to a node: whether it sets what is spelled like this."""
    return lambda node: isinstance(node, (ast.Attribute, ast.Name)) and _is_store(node) and ast.unparse(node) == place


def _is_store(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _calls_only_forward(name: str, classes: tuple[ast.ClassDef, ...]) -> bool:
    """Whether a method runs its module by `self.forward(x)` and nowhere by `self(x)`."""
    methods = (part for owner in classes for part in owner.body if isinstance(part, ast.FunctionDef))
    method = next((part for part in methods if part.name == name), None)
    if method is None:
        return False
    called = {ast.unparse(node.func) for node in ast.walk(method) if isinstance(node, ast.Call)}
    return "self.forward" in called and not called & {"self", "self.__call__"}


def _runs_model(inner: Value, name: str, view: View) -> bool:
    """Whether a method of the compiled module calls the module, or one of its parts."""
    if not isinstance(inner, Instance):
        return name in RUNNING and not isinstance(inner, Compiled)
    if name == "forward":
        return False
    owner = view.definition(inner)
    for node in owner.body if isinstance(owner, ast.ClassDef) else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return any(_is_own_call(call) or _is_call_of_part(call, inner) for call in ast.walk(node))
    return name in RUNNING and inner.has_outside_base


def _is_own_call(node: ast.AST) -> bool:
    """`self(x)` and `self.forward(x)`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("self", "self.forward", "self.__call__")


def _is_call_of_part(node: ast.AST, model: Instance) -> bool:
    """`self.encoder(x)`, where `encoder` is a module."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "self"
        and gives_module(model.attributes.get(node.func.attr, UNKNOWN))
    )


BAD = (
    Example(
        code="""
import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.embed = nn.Embedding(8, dim)
        self.head = nn.Linear(dim, 8)

    def forward(self, ids):
        return self.head(self.embed(ids))

    def generate(self, ids, steps):
        for _ in range(steps):
            ids = self(ids).argmax(-1)
        return ids

    def features(self, ids):
        return self.embed(ids).mean(1)


def serve(ids):
    model = torch.compile(LM())
    print(model.features(ids))  # ~
    return model.generate(ids, 8)  # ~
""",
    ),
    Example(
        code="""
import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        return self.head(x)

    def rank(self, x):
        return self.forward(x).argsort(0)


class Service:
    def __init__(self):
        self.net = Scorer()
        self.net.compile()

    def __call__(self, x):
        score = self.net.forward(x)  # ~
        return score, self.net.rank(x)  # ~
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        return self.head(x)

    def rank(self, x):
        return self(x).argsort(0)

    def probability(self, x):
        return self.forward(x).sigmoid()


class Service:
    def __init__(self):
        self.net, self.other, self.plain = Scorer(), Scorer(), Scorer()
        self.net.compile()
        self.other.forward = torch.compile(self.other.forward)
        self.wrapped = torch.compile(Scorer())

    def __call__(self, x):
        score = self.net(x) + self.other.forward(x) + self.wrapped.forward(x) + self.plain.forward(x)
        return score, self.net.rank(x), self.other.probability(x), self.plain.probability(x)


class Plain:
    def __init__(self):
        self.net = Scorer()

    def __call__(self, x):
        return self.net.forward(x)
""",
    ),
    Example(
        code="""
import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.embed = nn.Embedding(8, dim)
        self.head = nn.Linear(dim, 8)

    def forward(self, ids):
        return self.head(self.embed(ids))

    def freeze(self):
        for parameter in self.parameters():
            parameter.requires_grad = False

    def generate(self, ids, steps):
        for _ in range(steps):
            ids = self(ids).argmax(-1)
        return ids


def serve(ids):
    model = LM()
    model.forward = torch.compile(model.forward)
    compiled = torch.compile(LM())
    compiled.eval()
    compiled.freeze()
    compiled.load_state_dict(compiled.state_dict())
    return model.generate(ids, 8), compiled(ids)
""",
    ),
)
