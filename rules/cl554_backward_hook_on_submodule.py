"""A submodule with a backward hook splits the graph wherever it is called.

## What it does
Finds, in code that Dynamo traces, calls of a submodule on which the same file registers a backward hook
(`register_full_backward_hook`, `register_full_backward_pre_hook`, `register_backward_hook`): by the name of the
attribute, in a loop over it, or in a loop over `modules()` or `children()`.

## Why it costs
The hook is to see the gradients of what goes in and comes out, and Dynamo traces such a call with compiled autograd
alone (GB0083); for the old `register_backward_hook` it would need the output's `grad_fn` (GB0233). Each call of the
module is a break, under `torch.no_grad()` too. Hooks that watch gradients are often left on every layer, so that each
layer is a graph of its own.

## Write instead
Remove the hook when it has told what it was to tell, or hook the tensor, with a function that only computes:

    x = self.block(x)
    x.register_hook(lambda gradient: gradient.clamp(-1, 1))

or have the backward pass compiled as well, before the first call: `torch._dynamo.config.compiled_autograd = True`.

## Limits
A hook on the module that is compiled itself costs nothing, nor do forward hooks. Nothing is said where the file removes
handles, sets `compiled_autograd`, or registers behind `torch.compile` (CL905). Measured on torch 2.11, 2.13 and 2.14.

## References
torch.compile documentation: "nn.Module hooks support", "Compiled Autograd". GB0083, GB0233.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import FunctionNode, assigned_once, last_name
from compilelint.static.facts.state import functions_in, own_nodes
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in, statements_in
from compilelint.static.values import ExternalInstance, gives_module, options

HAZARD = "graph-break"
REGISTERING = frozenset({"register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook"})
PARTS = frozenset({"modules", "named_modules", "children", "named_children"})
EVERY = "*"
"""What stands for the name of a module, where a loop over all of them hooks each, or each of the class behind it."""


def _may_call_hooked(node: ast.AST, module: ast.Module) -> bool:
    return isinstance(node, ast.Call) and bool(hooked(module))


WATCH = Watch(nodes=(ast.Call,), syntax=_may_call_hooked)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call of a submodule that has a backward hook."""
    if not isinstance(node, ast.Call) or not gives_module(view.kind(node.func)):
        return
    names = {_place(node.func, view.function), EVERY, *_classes(node.func, view)}
    if not names.isdisjoint(view.fact(hooked)):
        yield Hit(
            node,
            f"`{view.text(node.func)}` has a backward hook, and Dynamo does not trace calls of such a module: the graph"
            " splits here",
            "remove the hook before compiling, hook the tensor (`x.register_hook`) with a function that only computes,"
            " or set `torch._dynamo.config.compiled_autograd = True`",
            "likely",
        )


def _classes(function: ast.expr, view: View) -> set[str]:
    """The classes of the module that is called, each as in a loop that hooks those of one class."""
    value = view.kind(function)
    names = {owner.name for owner in view.classes(value)}
    names |= {option.name.rpartition(".")[2] for option in options(value) if isinstance(option, ExternalInstance)}
    return {EVERY + name for name in names}


@about_file(())
def hooked(module: ast.Module) -> tuple[str, ...]:
    """The attributes with modules on which a file leaves backward hooks; `*` for all, `*Linear` for all of a class."""
    found: set[str] = set()
    if not any(map(_registers, statements_in(module))):
        return ()
    for scope in (module, *functions_in(module)):
        nodes = own_nodes(scope)
        sites = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        compiled = [n.lineno for n in sites if last_name(n.func) == "compile"]
        for site in sites:
            if last_name(site.func) in REGISTERING and not any(line < site.lineno for line in compiled):
                found |= _hooked_at(site, scope)
    return () if found and _takes_back(module) else tuple(sorted(found))


def _registers(statement: ast.AST) -> bool:
    """Whether a statement registers a backward hook, or hands the handle on: `handles.append(m.register_…(f))`."""
    value = getattr(statement, "value", None)
    calls = [value, *value.args] if isinstance(value, ast.Call) else []
    return any(isinstance(call, ast.Call) and last_name(call.func) in REGISTERING for call in calls)


def _takes_back(module: ast.Module) -> bool:
    """Whether a file removes handles, or has backward passes compiled."""
    return any(
        (isinstance(node, ast.Call) and last_name(node.func) == "remove" and not node.args)
        or (isinstance(node, ast.Attribute) and node.attr == "compiled_autograd")
        for node in nodes_in(module)
    )


def _hooked_at(site: ast.Call, scope: FunctionNode) -> set[str]:
    """What one registration hooks."""
    receiver = site.func.value if isinstance(site.func, ast.Attribute) else site
    loop = _loop_of(receiver, scope)
    if loop is None or last_name(_callee(loop.iter)) not in PARTS:
        place = _place(receiver, scope)
        return {place} if place else set()
    if any(isinstance(part, ast.Continue) for part in nodes_in(loop)):
        return set()  # some modules are left out
    tests = [n for n in nodes_in(loop) if isinstance(n, ast.If) and site in nodes_in(n)]
    if not tests:
        return {EVERY}
    if len(tests) > 1 or not any(site in nodes_in(statement) for statement in tests[0].body):
        return set()
    return {EVERY + name for name in _kinds_asked(tests[0].test)}


def _kinds_asked(test: ast.expr) -> set[str]:
    """`Linear` of `isinstance(module, nn.Linear)`, each of several; nothing for another test."""
    if not (isinstance(test, ast.Call) and last_name(test.func) == "isinstance" and len(test.args) == 2):
        return set()
    kinds = [test.args[1]]
    for kind in kinds:
        kinds += kind.elts if isinstance(kind, ast.Tuple) else []
        kinds += [kind.left, kind.right] if isinstance(kind, ast.BinOp) else []
    return {last_name(kind) for kind in kinds} - {""}


def _place(module: ast.expr, scope: FunctionNode) -> str:
    """The attribute that holds a module or the list with it: `blocks` of `self.blocks[0]` and of a variable for it."""
    while isinstance(module, ast.Subscript):
        module = module.value
    if isinstance(module, ast.Name):
        loop = _loop_of(module, scope)
        made = loop.iter if loop is not None else assigned_once(scope, module.id)
        while isinstance(made, ast.Subscript) or (isinstance(made, ast.Call) and made.args):
            made = made.value if isinstance(made, ast.Subscript) else made.args[0]
        return made.attr if isinstance(made, ast.Attribute) else ""
    return module.attr if isinstance(module, ast.Attribute) else ""


def _callee(node: ast.expr) -> ast.expr:
    """`net.modules` of `net.modules()` and of `enumerate(net.modules())`."""
    while isinstance(node, ast.Call):
        node = node.args[0] if node.args else node.func
    return node


def _loop_of(module: ast.expr, scope: ast.AST) -> ast.For | None:
    """The loop whose variable a module is."""
    if not isinstance(module, ast.Name):
        return None
    loops = (node for node in own_nodes(scope) if isinstance(node, ast.For))
    return next((loop for loop in loops if any(_is_named(part, module.id) for part in nodes_in(loop.target))), None)


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)
        self.head.register_full_backward_hook(self.watch)
        layer = self.stem
        layer.register_full_backward_pre_hook(lambda module, grad_output: None)

    def watch(self, module, grad_input, grad_output):
        self.seen = grad_output[0]

    def forward(self, x):
        x = self.stem(x + 1)  # ~
        return self.head(x) * 2  # ~
""",
        run="(Encoder(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                module.register_full_backward_hook(lambda m, grad_in, grad_out: None)

    def forward(self, x):
        x = self.norm(x)
        for block in self.blocks:
            x = block(x)  # ~
        return x * 2
""",
        run="(Stack(), [(torch.ones(2, 4),)])",
        default="skip",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)
        self.stem.register_forward_hook(lambda module, args, out: out * 2)
        self.register_full_backward_hook(lambda module, grad_in, grad_out: None)

    def forward(self, x):
        x = self.stem(x)
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient.clamp(-1, 1))
        return self.head(x)
""",
        run="(Encoder(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, kinds=(nn.Conv2d,)):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.fc = nn.Linear(4, 4)
        for module in self.modules():
            if not isinstance(module, nn.Conv2d):
                continue
            module.register_full_backward_hook(lambda m, grad_in, grad_out: None)
        for module in self.modules():
            if isinstance(module, kinds[0]):
                module.register_full_backward_hook(lambda m, grad_in, grad_out: None)
        for module in self.children():
            if isinstance(module, (nn.Linear, nn.LayerNorm)):
                module.weight.requires_grad_(True)
            else:
                module.register_full_backward_hook(lambda m, grad_in, grad_out: None)

    def forward(self, x):
        return self.fc(self.norm(x))
""",
        run="(Stack(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
