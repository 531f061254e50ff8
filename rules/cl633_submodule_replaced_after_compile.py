"""Putting another module into a model after its compiled version has run compiles the whole model again.

## What it does
Finds, in a function that has called a compiled model by then, or calls it on later turns of the same loop, what puts
another module in its place: `model.head = Head()`, `setattr(model, name, Adapter(child))`, a function of the project
that does so with the model it is given, `SyncBatchNorm.convert_sync_batchnorm(model)`, quantization in place.

## Why it costs
Dynamo guards on the class of every submodule that the graph runs. The graph of the first call, and the minutes that it
took, are thrown away: the next call compiles the whole model again, and so does each further replacement, up to the
recompile limit of 8. What was warmed up is warmed up no more. Measured on torch 2.13.

## Write instead
Put in adapters, convert and quantize first, then compile and call:

    inject_adapters(model)
    fast = torch.compile(model)

What is exchanged in service stays a module of one class, whose parameters are loaded anew (`load_state_dict`), or is
compiled by itself, so that only it compiles again.

## Limits
Which of two methods of a class runs first is not known: both have to be called in one function.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.compiled_pairs import CompiledPair, compiled_pairs, is_reset_after, runs_of
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import own_nodes, parameters
from compilelint.static.project.syntax import statements_in
from compilelint.static.values import ExternalInstance, Function, Instance, Value, options

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.Call, ast.Assign),
    files=lambda module: bool(compiled_pairs(module)),
    regions=frozenset({"host", "decode-loop", "batch-loop"}),
)
CONVERTERS = frozenset(
    "convert_sync_batchnorm quantize_dynamic quantize_ get_peft_model fuse_modules replace_linear".split()
)
"""Functions of libraries that put modules of other classes into the model that they are given."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the statement or call that replaces a module of a model whose compiled version has run."""
    if not isinstance(node, (ast.Call, ast.Assign)):
        return
    for pair in compiled_pairs(view.module):
        if not _replaces(node, {pair.compiled, pair.model}, view):
            continue
        ran = _ran(pair, node, view)
        if ran is not None and not is_reset_after(node.lineno, view.function):
            yield Hit(
                node if isinstance(node, ast.Call) else node.targets[0],
                f"`{view.text(node)}` puts another module into `{pair.compiled}`, which has run (line {ran}): Dynamo"
                " guards on the classes of submodules, so the next call compiles the whole model again",
                f"do it before the first call of `{pair.compiled}`, or compile by itself the part that is replaced",
                "likely",
            )
            return


def _ran(pair: CompiledPair, node: ast.AST, view: View) -> int | None:
    """The line on which the compiled model has run before, earlier in the function or on an earlier turn."""
    line = getattr(node, "lineno", 0)
    loops = [parent for parent in view.parents(node) if isinstance(parent, (ast.For, ast.While))]
    lines = runs_of(pair, view.function, view.module)
    return next((ran for ran in lines if ran < line or any(_has_line(loop, ran) for loop in loops)), None)


def _has_line(loop: ast.For | ast.While, line: int) -> bool:
    return loop.lineno < line <= (loop.end_lineno or loop.lineno)


def _replaces(node: ast.Call | ast.Assign, names: set[str], view: View) -> bool:
    """Whether another module is put into the model of one of these names."""
    if isinstance(node, ast.Assign):
        puts_module = all(map(_is_module, options(view.kind(node.value))))
        return puts_module and any(_is_part(target, names, view.function) for target in node.targets)
    if view.callee(node) == "builtins.setattr" and len(node.args) == 3:
        whole = ast.unparse(node.args[0]) in names or _is_part(node.args[0], names, view.function)
        return whole and all(map(_is_module, options(view.kind(node.args[2]))))
    given = {ast.unparse(argument) for argument in node.args[:1]}
    if last_name(node.func) in CONVERTERS:
        return bool(given & names)
    return any(
        isinstance(option, Function) and _function_replaces(view.definition(option), bool(given & names), names, view)
        for option in options(view.kind(node.func))
    )


def _is_module(value: Value) -> bool:
    """Whether a value is a module of the project or of torch, not a container of what was there before."""
    if isinstance(value, Instance):
        return value.is_module and not value.compiled
    return isinstance(value, ExternalInstance) and value.name.startswith("torch.nn.")


def _is_part(target: ast.expr, names: set[str], function: ast.AST) -> bool:
    """Whether `target` is a part of the model: `net.head`, `net.blocks[0]`, `block.proj` for each block of it."""
    if isinstance(target, ast.Name):
        return False
    spelled = ast.unparse(target)
    if any(spelled.startswith((f"{name}.", f"{name}[")) for name in names):
        return True
    root = target
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if not isinstance(root, ast.Name) or root is target:
        return False
    return any(
        isinstance(loop, ast.For)
        and any(isinstance(part, ast.Name) and part.id == root.id for part in ast.walk(loop.target))
        and any(isinstance(part, ast.expr) and ast.unparse(part) in names for part in ast.walk(loop.iter))
        for loop in own_nodes(function)
    )


def _function_replaces(function: ast.AST, takes_model: bool, names: set[str], view: View) -> bool:
    """Whether a function puts a module of some class into the model that it is given, or into one of `names`."""
    if not isinstance(function, ast.FunctionDef) or function.name.startswith("__"):
        return False
    first = [name for name in parameters(function) if name not in ("self", "cls")][:1]
    inside = {name for name in names if name.startswith("self.")} | (set(first) if takes_model else set())
    for node in own_nodes(function) if inside else ():
        if isinstance(node, ast.Assign) and any(_is_part(target, inside, function) for target in node.targets):
            if _makes_module(node.value, view):
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            whole = ast.unparse(node.args[0]) if node.args else ""
            of_model = whole in inside or (bool(node.args) and _is_part(node.args[0], inside, function))
            if of_model and len(node.args) == 3 and _makes_module(node.args[2], view):
                return True
    return False


def _makes_module(value: ast.expr, view: View) -> bool:
    """Whether an expression calls a class of torch.nn, or one of the file that inherits from Module."""
    if not isinstance(value, ast.Call):
        return False
    if ast.unparse(value.func).startswith(("nn.", "torch.nn.")):
        return last_name(value.func)[:1].isupper() and last_name(value.func) != "Parameter"
    return any(
        isinstance(part, ast.ClassDef)
        and part.name == last_name(value.func)
        and any("Module" in ast.unparse(base) or ast.unparse(base).startswith("nn.") for base in part.bases)
        for part in statements_in(view.module)
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.extra = nn.Linear(4, 4)

    def forward(self, x):
        return self.base(x) + self.extra(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x).relu()
        return self.norm(x)


def inject(model):
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, Adapter(child))
        else:
            inject(child)


class Tuner:
    def __init__(self):
        self.net = Net()
        self.fast = torch.compile(self.net)

    def grow(self, i):
        self.net.blocks[i] = Adapter(self.net.blocks[i])

    def __call__(self, x):
        for i in range(3):
            x = self.fast(x)
            self.grow(i)  # ~
        return self.fast(x)


def late(x):
    net = Net()
    fast = torch.compile(net)
    fast(x)
    inject(net)  # ~
    fast(x)
    nn.SyncBatchNorm.convert_sync_batchnorm(net)  # ~
    net.norm = nn.LayerNorm(4)  # ~
    return fast(x)
""",
        run="(lambda x: (Tuner()(x), late(x)), [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # Before the first call, and before what was compiled is thrown away.
        code="""\
import torch
from torch import nn


class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.scale = 0.5

    def forward(self, x):
        return self.base(x) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.first(x))


def inject(model):
    for name, child in list(model.named_children()):
        setattr(model, name, Adapter(child))


def load(model, state):
    model.load_state_dict(state)


class Service:
    def __init__(self):
        self.net = Net().requires_grad_(False)
        inject(self.net)
        self.fast = torch.compile(self.net)
        self.head = None

    def __call__(self, x):
        y = self.fast(x)
        load(self.net, self.net.state_dict())
        self.head = nn.Linear(4, 4)
        return y + self.fast(x)
""",
        run="(Service(), [(torch.ones(2, 4),) for _ in range(2)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
