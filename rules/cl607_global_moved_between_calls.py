"""A global that compiled code reads and other functions set recompiles whenever it has changed.

## What it does

Finds the first read, in compiled code, of a module-level name or of an entry of a module-level dict that another
function of the file counts on or sets to a value that is not constant: `SETTINGS["theta"] = theta`, or `global SCALE;
SCALE = scale`. Where that function calls nothing but to check or convert what it sets, and nobody in the file calls it,
it may be called once: then the finding is `possible`. The same goes for a module-level list or set that another
function adds to (`BANNED.append(token)`), if none takes anything out, and for a number or text of an object that a
context manager puts into a global: `_context = ForwardContext(num_tokens)`. In a script it is also what a loop outside
of its functions sets in the turns in which it calls what the file compiles.

## Why it costs

Dynamo bakes a global into the graph and guards on its value. Measured on torch 2.13: an int or a string compiles
again for every new value until the recompile limit, a float once, and so does each new entry of a list or set. And the
guard is only as good as the path: what was derived from the global earlier (in a cached helper, in `__init__`) keeps
the old value.

## Write instead

Pass the value as an argument, where a number becomes dynamic, or keep it in a buffer.

## References

PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.script_loops import globals_set_in_loops
from compilelint.static.facts.state import (
    first_read,
    functions_in,
    globals_grown,
    globals_set,
    is_global,
    names_grown,
    own_nodes,
    runs_once,
    used_at,
)
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import UNKNOWN, Const, Scalar, Sequence, Value, options

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.Name, ast.Subscript, ast.Attribute),
    syntax=lambda node, module: (
        isinstance(node, ast.Attribute) or bool(_setters(node, module) or _growers(node, module))
    ),
)
CHECKING = frozenset(
    "int float bool str len isinstance issubclass hasattr type tuple list set lower upper strip".split()
)
"""What a function calls to check or convert a setting."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first read of a global that some other function sets."""
    if isinstance(node, ast.Attribute):
        yield from _of_context(node, view)
    if not isinstance(node, (ast.Name, ast.Subscript)):
        return
    yield from _grown(node, view)
    setters = [(line, function) for line, function in _setters(node, view.module) if function is not view.function]
    root = node.id if isinstance(node, ast.Name) else ast.unparse(node.value)
    if not setters or not is_global(root, view) or first_read(node, view) is not node:
        return
    if not all(_is_setting(option) for option in options(view.kind(node))):
        return
    yield Hit(
        used_at(node, view),
        f"`{view.text(node)}` is a global that line {setters[0][0]} sets between calls: Dynamo guards on its value,"
        " so a new one compiles again",
        "pass it as an argument, where a number becomes dynamic, or keep it in a buffer",
        confidence="likely" if any(_is_used(function, view.module) for _, function in setters) else "possible",
    )


def _of_context(node: ast.Attribute, view: View) -> Iterator[Hit]:
    """The first read of what each object holds that a context manager puts into a global."""
    place = view.put_in_global(node) if isinstance(node.ctx, ast.Load) else None
    if place is None or first_read(node, view) is not node:
        return
    kinds = [kind for kind in options(view.kind(node)) if kind != UNKNOWN]
    if all(map(_is_setting, kinds)) and (kinds or _declared(node, view) in ("int", "str")):
        yield Hit(
            used_at(node, view),
            f"`{view.text(node)}` is read of a global object that {view.where(place)} makes anew: Dynamo guards on the"
            " value, so a new one compiles again",
            "pass it as an argument, where a number becomes dynamic, or keep it in a buffer",
            confidence="likely",
        )


def _declared(node: ast.Attribute, view: View) -> str:
    """The annotation of a field, as written."""
    fields = (
        statement
        for owner in view.classes(view.kind(node.value))
        for statement in owner.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    )
    return next((ast.unparse(f.annotation) for f in fields if f.target.id == node.attr), "")  # type: ignore[union-attr]


def _grown(node: ast.Name | ast.Subscript, view: View) -> Iterator[Hit]:
    """The first read of a list or set that some other function makes longer."""
    growers = [(line, function) for line, function in _growers(node, view.module) if function is not view.function]
    if not growers or not isinstance(node, ast.Name) or not is_global(node.id, view):
        return
    kinds = options(view.kind(node))
    if first_read(node, view) is node and all(isinstance(k, Sequence) and k.form in ("list", "set") for k in kinds):
        yield Hit(
            node,
            f"`{node.id}` is a global that line {growers[0][0]} makes longer between calls: Dynamo guards on what is in"
            " it, so each new entry compiles again",
            "pass a tensor of fixed size instead, or fill it before the first compiled call",
            confidence="likely" if any(_is_called(function, view.module) for _, function in growers) else "possible",
        )


def _is_called(function: ast.AST, module: ast.Module) -> bool:
    """Whether another function of the file calls this one: what only the file's own statements call fills a table."""
    name = getattr(function, "name", "")
    return not runs_once(name) and any(
        isinstance(node, ast.Call) and last_name(node.func) == name
        for other in functions_in(module)
        if other is not function
        for node in own_nodes(other)
    )


def _growers(node: ast.AST, module: ast.Module) -> list[tuple[int, ast.AST]]:
    """The lines, and their functions, that make longer what is read at `node`."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node.id not in names_grown(module):
        return []
    return globals_grown(module)[node.id]


def _is_used(function: ast.AST, module: ast.Module) -> bool:
    """Whether a function that sets the global does something with it as well, or is called in its file.

    What a file only offers to others (`set_backend(name)`) is mostly called once, when a program starts.
    """
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return True
    refused = {part for node in own_nodes(function) if isinstance(node, ast.Raise) for part in nodes_in(node)}
    calls = (node for node in own_nodes(function) if isinstance(node, ast.Call) and node not in refused)
    if any(last_name(call.func) not in CHECKING for call in calls):
        return True
    return any(isinstance(node, ast.Call) and last_name(node.func) == function.name for node in nodes_in(module))


def _setters(node: ast.AST, module: ast.Module) -> list[tuple[int, ast.AST]]:
    """The lines, and their functions, that set what is read at `node`."""
    if not (isinstance(node, (ast.Name, ast.Subscript)) and isinstance(node.ctx, ast.Load)):
        return []
    changing = globals_set(module)
    set_in_loop = globals_set_in_loops(module).get(node.id) if isinstance(node, ast.Name) else None
    setters = changing.get(node.id if isinstance(node, ast.Name) else ast.unparse(node), [])
    return setters if set_in_loop is None else [*setters, (set_in_loop, module)]


def _is_setting(value: Value) -> bool:
    """A number or a string. A flag takes two values only, and a cached object is set once."""
    return isinstance(value, (Const, Scalar)) and value.type in ("int", "float", "str", "number")


BAD = (
    Example(
        code="""
import torch
from torch import nn

SETTINGS = {"level": 1}


class Layer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        return self.proj(x) * SETTINGS["level"]  # ~


class App:
    def __init__(self):
        self.net = torch.compile(Layer())

    def __call__(self, x, level):
        SETTINGS["level"] = level
        return self.net(x)
""",
        run="App(), [(torch.ones(2, 4), level) for level in range(4)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""
import torch

WINDOW = 2


def set_window(size):
    global WINDOW
    WINDOW = size


def attend(x):
    keep = torch.arange(x.shape[0]) < WINDOW  # ~
    return x * keep[:, None]


def make():
    compiled = torch.compile(attend)

    def serve(x, window):
        set_window(window)
        return compiled(x)

    return serve
""",
        run="make(), [(torch.ones(4, 4), window) for window in range(4)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""
import torch

BANNED = []
CALLS = {"count": 0}


def ban(token):
    BANNED.append(token)


@torch.compile
def scores(logits: torch.Tensor):
    for token in BANNED:  # ~
        logits = logits.index_fill(-1, torch.tensor([token]), -1e4)
    return logits - logits.mean() if CALLS["count"] > 2 else logits  # ~


def decode(logits, token):
    ban(token)
    CALLS["count"] += 1
    return scores(logits)
""",
        run="decode, [(torch.ones(2, 8), token) for token in range(4)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""
import contextlib
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ForwardContext:
    num_tokens: int


_context = None


@contextlib.contextmanager
def forward_context(num_tokens):
    global _context
    before = _context
    _context = ForwardContext(num_tokens)
    try:
        yield
    finally:
        _context = before


def current():
    assert _context is not None
    return _context


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        context = current()
        return self.proj(x)[: context.num_tokens]  # ~


class Runner:
    def __init__(self):
        self.model = torch.compile(Layer())

    def __call__(self, x, num_tokens):
        with forward_context(num_tokens):
            return self.model(x)
""",
        run="Runner(), [(torch.ones(8, 4), n) for n in range(2, 6)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # A table that is filled while the file is imported.
        code="""
import torch

STEPS = []


def step(function):
    STEPS.append(function)
    return function


@step
def double(x):
    return x * 2


def run(x):
    for function in STEPS:
        x = function(x)
    return x
""",
        run="(run, [(torch.ones(2, 4),) for _ in range(3)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""
import torch
from torch import nn

SETTINGS = {"level": 2}
SCALES = [0.5, 0.25]
READY = False
WORLD_SIZE = 1


def prepare():
    global READY
    READY = True


class Layer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        global WORLD_SIZE
        WORLD_SIZE = dim // 2
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        return self.proj(x) * SETTINGS["level"] * SCALES[0] / WORLD_SIZE if READY else x
""",
        run="(prepare(), Layer())[1], [(torch.ones(2, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        # What a file offers to others is mostly called once.
        code="""
import torch
from torch import nn

LIMIT = 2


def set_limit(limit):
    \"\"\"For all layers, before the first call.\"\"\"
    global LIMIT
    if not isinstance(limit, (int, float)):
        raise TypeError(f"a number is needed, got {type(limit)}")
    LIMIT = float(limit)


class Clipped(nn.Module):
    def forward(self, x):
        return x.clamp(max=LIMIT)
""",
        run="Clipped(), [(torch.ones(2, 4),) for _ in range(3)]",
        default="clean",
        fullgraph="clean",
    ),
)
