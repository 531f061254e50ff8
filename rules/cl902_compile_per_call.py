"""`torch.compile` called again for every request or batch wraps, checks and guards anew instead of compiling once.

## What it does

Finds `torch.compile(...)`, or the call of a function of the project that does nothing but wrap it, inside a loop
whose turns don't change what is compiled. Finds `torch.compile(...)` in a function that compiles something long-lived
(an attribute, a global, a function defined on the spot, which `@torch.compile` may decorate), calls the result on its
own arguments, and drops it; in a handler of requests (`@app.post("/predict")`) also on what it makes of them. Also in a
method that another one calls each time before it calls the result.

## Why it costs

Wrapping alone takes 1 to 15 ms per call (measured on torch 2.13, CPU, by backend and mode; a compiled call of a small
model takes 0.1 ms). The graph is found again only if the code object and all guards match: what a closure captured is
guarded, so a new number or object in it compiles again, up to the recompile limit. The first request also pays for
the whole compilation.

## Write instead

Compile once, where the model is built (`self.net = torch.compile(net)` in `__init__`), or on first use and keep it.
Pass what varies as arguments, not through a closure.

## References

PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.compiling_again import (
    always_calls,
    asks_for,
    bound_in,
    calls_kept,
    gives_compiled,
    handles_requests,
    made_of,
)
from compilelint.static.facts.state import functions_in, names_in, own_names, own_nodes, parameters, root_of
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Compiled, Function, Value, options

HAZARD = "placement"
WATCH = Watch(
    nodes=(ast.Call,),
    callees=frozenset({"torch.compile"}).__contains__,
    syntax=lambda node, module: isinstance(node, ast.Call),
    kinds=lambda kind: _wraps(kind) or isinstance(kind, Compiled),
    regions=frozenset({"host"}),
)
ONCE = ("test", "main", "bench", "profile", "warm", "check", "demo", "example", "run_once", "measure", "time_")


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the torch.compile call that runs again for each request or batch."""
    if not isinstance(node, ast.Call) or not node.args:
        return
    if isinstance(view.kind(node.func), Compiled):
        yield from _decorated_here(node, view)
        return
    direct = view.callee(node) == "torch.compile"
    if not direct and not any(_wraps(option) for option in options(view.kind(node.func))):
        return
    function = view.function
    if isinstance(function, ast.Lambda):
        return
    name = "" if isinstance(function, ast.Module) else function.name
    if _runs_once(name):
        return
    if not _is_dropped(node, view):
        caller = _made_anew_by(node, view) if direct else None
        if caller is not None:
            yield Hit(
                node,
                f"`{view.text(node)}` runs again on every call of `{caller.name}`, which then calls the result: it is"
                " wrapped and guarded anew each time, and compiled anew where `reset` drops the graphs",
                "compile once in `__init__`, or keep the first result (`if self.… is None:`)",
                confidence="likely",
            )
        return
    loop = next((parent for parent in view.parents(node) if isinstance(parent, (ast.For, ast.While))), None)
    if loop is not None:
        repeated = not names_in(node) & bound_in(loop)
        unit = "turn of the loop"
    else:
        repeated = direct and name != "" and _is_long_lived(node.args[0], view) and _is_called_on_argument(node, view)
        unit = f"call of `{name}`"
    if repeated:
        yield Hit(
            node,
            f"`{view.text(node)}` {'runs' if direct else 'calls `torch.compile`'} again on every {unit}: wrapping costs"
            f" milliseconds each time, and {_besides(node.args[0], view)}",
            "compile once, where the model is built, and keep the result; pass what varies as an argument",
            confidence="likely",
        )


def _decorated_here(call: ast.Call, view: View) -> Iterator[Hit]:
    """The decorator of a function that is defined, compiled and called on an argument, all in one call of another."""
    function, name = view.function, getattr(call.func, "id", "")
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or _runs_once(function.name):
        return
    inner = [n for n in own_nodes(function) if isinstance(n, ast.FunctionDef) and n.name == name and n.decorator_list]
    reads = [n for n in nodes_in(function) if isinstance(n, ast.Name) and n.id == name]
    calls = [n for n in own_nodes(function) if isinstance(n, ast.Call) and n.func in reads]
    if len(inner) == 1 and len(calls) == len(reads) and calls[0] is call and names_in(call) & {*parameters(function)}:
        yield Hit(
            next((part for part in inner[0].decorator_list if "compile" in ast.unparse(part)), inner[0]),
            f"`{name}` is compiled again on every call of `{function.name}`: wrapping costs milliseconds each time, and"
            " what the closure captured is guarded, so a new value in it compiles again",
            "compile once, where the model is built, and keep the result; pass what varies as an argument",
            confidence="likely",
        )


def _runs_once(name: str) -> bool:
    return name == "__init__" or name.lower().strip("_").startswith(ONCE)


def _besides(compiled: ast.expr, view: View) -> str:
    """What compiling a function that is written on the spot, or something long-lived, costs besides."""
    names = {n.name for n in own_nodes(view.function) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    if isinstance(compiled, ast.Lambda) or (isinstance(compiled, ast.Name) and compiled.id in names):
        return "what the closure captured is guarded, so a new value in it compiles again"
    return "whoever comes first waits for the compilation"


def _wraps(value: Value) -> bool:
    """Whether a value is a function that only stands around `torch.compile`."""
    return isinstance(value, Function) and gives_compiled(value.ref.node)


def _made_anew_by(call: ast.Call, view: View) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The method that has this one compile anew, at each of its own calls, and then calls the result.

    The result is an attribute of `self` that nothing here asks about first.
    """
    parents = list(view.parents(call))
    assigned = next((parent for parent in parents if isinstance(parent, ast.Assign)), None)
    target = assigned.targets[0] if assigned is not None and assigned.value is call else None
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name) or target.value.id != "self":
        return None
    tests = [parent.test for parent in parents if isinstance(parent, ast.If)]
    if any(asks_for(test, target.attr) for test in tests) or isinstance(view.function, (ast.Module, ast.Lambda)):
        return None
    for cls in (node for node in nodes_in(view.module) if isinstance(node, ast.ClassDef)):
        if view.function not in cls.body:
            continue
        for method in functions_in(cls):
            once = method.name == "__init__" or method.name.lower().strip("_").startswith(ONCE)
            if not once and always_calls(method, view.function.name) and calls_kept(method, target.attr):
                return method
    return None


def _result_name(call: ast.Call, view: View) -> str | None:
    """The local variable the compiled function is bound to."""
    parent = next(iter(view.parents(call)), None)
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else None


def _calls_of_result(call: ast.Call, view: View) -> list[ast.Call]:
    name = _result_name(call, view)
    return [
        node
        for node in own_nodes(view.function)
        if isinstance(node, ast.Call)
        and (node.func is call or (name is not None and isinstance(node.func, ast.Name) and node.func.id == name))
    ]


def _is_dropped(call: ast.Call, view: View) -> bool:
    """Whether the function only calls the result: it does not return, store or hand it on."""
    name = _result_name(call, view)
    calls = _calls_of_result(call, view)
    if name is None:
        return bool(calls)
    reads = [
        node
        for node in nodes_in(view.function)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    return bool(calls) and len(reads) == len(calls)


def _is_called_on_argument(call: ast.Call, view: View) -> bool:
    """Whether the result is called, outside of any loop, on a parameter of the function.

    In a handler of requests, on what depends on a parameter.
    """
    names = set(parameters(view.function)) - {"self"}
    if handles_requests(view.function):
        return all(names_in(use) & made_of(names, view.function) for use in _calls_of_result(call, view))
    return all(
        any(isinstance(argument, ast.Name) and argument.id in names for argument in use.args)
        and not any(isinstance(parent, (ast.For, ast.While)) for parent in view.parents(use))
        for use in _calls_of_result(call, view)
    )


def _is_long_lived(compiled: ast.expr, view: View) -> bool:
    """Whether what is compiled is the same at every call: an attribute, a global, or a function written on the spot."""
    if isinstance(compiled, ast.Lambda):
        return True
    root = root_of(compiled)
    if not isinstance(root, ast.Name):
        return False
    if isinstance(compiled, ast.Attribute) and root.id == "self":
        return True
    if isinstance(compiled, ast.Attribute) and not handles_requests(view.function):
        return False
    nested = {n.name for n in own_nodes(view.function) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return root.id in nested or root.id not in own_names(view.function)


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Service:
    def __init__(self):
        self.net = nn.Linear(4, 4)

    def predict(self, x, threshold):
        def run(batch):
            return self.net(batch) > threshold

        fast = torch.compile(run)  # ~
        return fast(x)


def score(service: Service, batches):
    total = 0
    for batch in batches:
        net = torch.compile(service.net)  # ~
        total = total + net(batch).sum()
    return total


class Learner:
    def __init__(self, net):
        self.net = net
        self.step = None

    def loss(self, x):
        return self.net(x).sum()

    def prepare(self):
        torch.compiler.reset()  # ~ CL628
        self.step = torch.compile(self.loss)  # ~

    def update(self, x):
        self.prepare()
        return self.step(x)


model = nn.Linear(4, 4)
for batch in torch.ones(3, 2, 4):
    step = torch.compile(model)  # ~
    step(batch)
""",
    ),
    Example(
        # Through a function that does nothing but wrap.
        code="""\
import torch
from torch import nn


def accelerate(model, enabled=True):
    if not enabled:
        return model
    return torch.compile(model, fullgraph=True)


class Recipe:
    def __init__(self):
        self.model = nn.Linear(4, 4)
        self.loss = accelerate(nn.MSELoss())

    def evaluate(self, batches):
        total = 0.0
        for x, y in batches:

            def score(inputs, targets):
                return (self.model(inputs) - targets).abs().mean()

            total = total + accelerate(score)(x, y) + self.loss(x, y)  # ~
        return total
""",
    ),
    Example(
        # Handlers that a decorator registers for a path.
        code="""\
import torch
from torch import nn


class App:
    model = nn.Linear(4, 4)

    def post(self, path):
        return lambda handler: handler


app = App()


@app.post("/embed")
async def embed(request):
    x = torch.tensor((await request.json())["x"])
    return torch.compile(app.model)(x).tolist()  # ~
""",
    ),
    Example(
        code="""\
import torch


def infer(x, bias):
    @torch.no_grad()
    @torch.compile  # ~
    def scored(batch):
        return batch * 2 + bias

    return scored(x)
""",
        run="infer, [(torch.ones(2, 4), 1) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class Service:
    def __init__(self):
        self.raw = nn.Linear(4, 4)
        self.net = None

    def predict(self, x):
        if self.net is None:
            self.net = torch.compile(self.raw)
        return self.net(x)

    def prepare(self):
        if self.net is None:
            self.net = torch.compile(self.raw)

    def update(self, x):
        self.prepare()
        return self.net(x)

    def build(self, dynamic):
        net = torch.compile(self.raw, dynamic=dynamic)
        return net


def compare(function, x):
    fast = torch.compile(function)
    return fast(x), function(x)


def speed_up(layers, x):
    for i, layer in enumerate(layers):
        layers[i] = torch.compile(layer)
    net = torch.compile(layers[0])
    for _ in range(3):
        x = net(x)
    return x


def test_model(x):
    return torch.compile(Service().raw)(x)


class App:
    model, fast = nn.Linear(4, 4), None

    def on(self, event):
        return lambda handler: handler


app = App()


@app.on("startup")
def warm_up():
    torch.compile(app.model)(torch.zeros(1, 4))


@app.on("/embed")
def embed(payload: dict):
    if app.fast is None:
        app.fast = torch.compile(app.model)
    return app.fast(torch.tensor(payload["x"])).tolist()


model = nn.Linear(4, 4)
for mode in ("default", "max-autotune"):
    step = torch.compile(model, mode=mode)
    step(torch.ones(2, 4))
""",
    ),
    Example(
        # Each layer is wrapped once, and kept.
        code="""\
import torch
from torch import nn


def accelerate(model):
    return torch.compile(model)


class Recipe:
    def __init__(self, layers: list[nn.Module]):
        self.layers = [accelerate(layer) for layer in layers]
        self.model = accelerate(nn.Linear(4, 4))

    def evaluate(self, batches):
        total = 0.0
        for x in batches:
            total = total + self.model(x).sum()
        return total


def compare(models: list[nn.Module], x):
    for model in models:
        fast = accelerate(model)
        for _ in range(8):
            x = fast(x)
    return x
""",
    ),
)
