"""Registering a module hook, keeping a gradient, or a tensor hook that writes elsewhere splits the graph.

## What it does
Finds `register_forward_hook` and the other hooks of modules, their global forms, and `Tensor.retain_grad()` in code
that Dynamo traces. Of `register_hook` on a tensor that the code made, those whose function writes to an attribute, a
list or a dict around it, as `self.gradient = gradient` does, and those whose handle is kept or returned.

## Why it costs
A module hook is a change to the module while it is being compiled: Dynamo can't make the handle (GB0467) and, where
the handle is kept, gives up the function (GB0013). Backward hooks of modules are not traced either (GB0083).
`retain_grad()` has no meaning for a tensor inside a graph (GB0108). The function of a tensor's hook becomes part of the
backward graph, which can't write anywhere (GB0067), and the handle of such a hook can't be made again where the graph
ends: the whole function is left to Python (GB0092, GB0100). A hook that is registered after the first compile
may be ignored by the compiled code.

## Write instead
Register hooks before compiling, or return the intermediate values from `forward`. For the gradient of an intermediate
value return it and call `torch.autograd.grad` outside, or `register_hook` on it behind the compiled call:

    features, out = compiled(x)
    features.register_hook(model.keep)

## Limits
`Tensor.register_hook(fn)` with a function that only computes, or writes to a buffer in place, compiles; only removing
its handle in the same function fails. On an input of the region or a parameter any function and a kept handle compile
as well. Measured on 2.13.

## References
torch.compile documentation: "Common Graph Breaks"; "nn.Module hooks support". GB0013, GB0067, GB0083, GB0092, GB0100,
GB0108, GB0467.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import stored_names
from compilelint.static.facts.state import own_nodes, parameters
from compilelint.static.values import Function, options, tensor_certainty

HAZARD = "graph-break"
MODULE_HOOKS = frozenset(
    [
        f"register_{scope}{name}"
        for scope in ("", "module_")
        for name in (
            "forward_hook",
            "forward_pre_hook",
            "full_backward_hook",
            "full_backward_pre_hook",
            "backward_hook",
        )
    ]
)
WATCH = Watch(nodes=(ast.Call,), names=MODULE_HOOKS | {"retain_grad", "register_hook"})
WRITING = frozenset("append appendleft extend insert add update setdefault pop clear remove".split())
"""Methods that change a list, dict or set."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per hook that is registered and per gradient that is kept."""
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in MODULE_HOOKS:
        yield Hit(
            node,
            f"`{view.text(node)}` changes a module while it is compiled: Dynamo splits the graph here",
            "register hooks before compiling, or return the values that the hook collects",
        )
    elif name == "retain_grad":
        yield Hit(
            node,
            f"`{view.text(node)}` can't be in a graph: Dynamo splits the graph here",
            "return the tensor and ask for its gradient outside: `torch.autograd.grad(loss, tensor)`",
            "certain" if view.callee(node) == "torch.Tensor.retain_grad" else "likely",
        )
    elif name == "register_hook" and isinstance(node.func, ast.Attribute) and _made_here(node.func.value, view):
        written = next(_written_by_hook(node, view), None)
        end = _end_of_kept_handle(node, view)
        if written is not None:
            yield Hit(
                node,
                f"the hook writes `{written}`, which the backward graph that it becomes part of can't hold: Dynamo"
                " splits the graph here",
                "return the tensor, and register the hook on it outside, or have the hook only compute",
                "likely",
            )
        elif end is not None:
            yield Hit(
                end,
                f"the handle of `{view.text(node)}` is kept, and Dynamo can't make one where the graph ends: all of the"
                " function is left to Python",
                "let go of the handle, or return the tensor and register the hook on it outside",
                "likely",
            )


def _made_here(tensor: ast.expr, view: View) -> bool:
    """Whether a tensor is one that the region computes, and no input or parameter of it."""
    if tensor_certainty(view.kind(tensor)) is None or not isinstance(tensor, ast.Name):
        return False
    stored = not isinstance(view.function, ast.Module) and tensor.id in stored_names(view.function)
    return stored or (tensor.id in parameters(view.function) and not view.entry and not view.handed_in(tensor.id))


def _written_by_hook(call: ast.Call, view: View) -> Iterator[str]:
    """What the function of a hook writes to outside of itself, as written."""
    given = view.argument(call, 0, "hook")
    for hook in options(view.kind(given)) if given is not None else ():
        definition = view.definition(hook) if isinstance(hook, Function) else None
        if isinstance(definition, (ast.FunctionDef, ast.Lambda)):
            nodes = own_nodes(definition)
            around = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
            own = (stored_names(definition) | (set(parameters(definition)) - {"self", "cls"})) - around
            for node in nodes:
                place = _place_written(node, around)
                if place is not None and _root(place) not in own:
                    yield ast.unparse(place)


def _place_written(node: ast.AST, around: set[str]) -> ast.expr | None:
    """The attribute, entry, variable or collection that a statement or call changes, if any."""
    if isinstance(node, ast.Call):
        changes = isinstance(node.func, ast.Attribute) and node.func.attr in WRITING
        if changes and isinstance(node.func, ast.Attribute):
            return node.func.value
        return node.args[0] if isinstance(node.func, ast.Name) and node.func.id == "setattr" and node.args else None
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
        return None if isinstance(node, ast.Subscript) and _is_of_tensor(node.slice) else node
    return node if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in around else None


def _is_of_tensor(index: ast.expr) -> bool:
    """Whether an index is more likely one of a tensor, which may be written to, than of a list or dict: `0`, `:, 1`."""
    of_number = isinstance(index, ast.Constant) and isinstance(index.value, int)
    return of_number or isinstance(index, (ast.Slice, ast.Tuple))


def _root(place: ast.expr) -> str:
    while isinstance(place, (ast.Attribute, ast.Subscript)):
        place = place.value
    return place.id if isinstance(place, ast.Name) else ""


def _end_of_kept_handle(call: ast.Call, view: View) -> ast.stmt | None:
    """Where the graph of this function ends, if the handle that `call` gives outlives it."""
    around = next(view.parents(call), None)
    returns = [node for node in own_nodes(view.function) if isinstance(node, ast.Return)]
    kept: list[ast.expr] = [call]
    if isinstance(around, ast.Assign):
        kept = around.targets
        names = {target.id for target in kept if isinstance(target, ast.Name)}
        declared = {n for node in own_nodes(view.function) if isinstance(node, ast.Global) for n in node.names}
        if names & declared:
            return around
    names = {target.id for target in kept if isinstance(target, ast.Name)}
    lasts = any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in kept) or (
        isinstance(around, ast.Call) and isinstance(around.func, ast.Attribute) and around.func.attr in WRITING
    )
    for end in returns:
        given = {part.id for part in ast.walk(end) if isinstance(part, ast.Name)}
        if end.lineno >= call.lineno and (lasts or names & given or call in ast.walk(end)):
            return end
    return None


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Collector(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.kept = {}

    def keep(self, module, args, output):
        self.kept["fc"] = output

    def forward(self, x):
        handle = self.fc.register_forward_hook(self.keep)  # ~
        y = self.fc(x)
        handle.remove()
        return y
""",
        run="(Collector(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn

layer = nn.Linear(4, 4)


@torch.compile
def saliency(x):
    h = torch.relu(layer(x))
    h.retain_grad()  # ~
    return h.sum(), h
""",
        run="(saliency, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class GradCam(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)
        self.gradient = None

    def keep(self, gradient):
        self.gradient = gradient

    def forward(self, x):
        features = self.fc(x)
        features.register_hook(self.keep)  # ~
        return self.head(features)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.cam = GradCam()
        self.handle = None

    def forward(self, x):
        y = self.cam(x) * 2
        self.handle = y.register_hook(lambda gradient: gradient * 0.5)
        return y  # ~
""",
        run="(Scaled(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Collector(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.fc.register_forward_hook(self.double)

    def double(self, module, args, output):
        return output * 2

    def forward(self, x):
        y = torch.relu(self.fc(x))
        y.register_hook(lambda gradient: gradient * 2)
        return y


class Clipped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Collector()
        self.seen = None
        self.handle = None
        self.register_buffer("sums", torch.zeros(4))

    def keep(self, gradient):
        self.seen = gradient

    def forward(self, x):
        self.handle = x.register_hook(self.keep)
        y = self.inner(x) * 2

        def clip(gradient):
            parts = {"all": gradient.clamp(-1, 1)}
            parts["half"] = parts["all"] / 2
            self.sums[0] = gradient.sum()
            return parts["half"]

        y.register_hook(clip)
        return y
""",
        run="(Clipped(), [(torch.ones(2, 4, requires_grad=True),)])",
        default="clean",
        fullgraph="clean",
    ),
)
