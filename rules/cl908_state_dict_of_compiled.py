"""`state_dict()` of a compiled module has other keys (`_orig_mod.…`) than the model that will load it.

## What it does

Finds `torch.save(net.state_dict(), …)`, also inside a dict, where `net` is what `torch.compile` returned.

## Why it costs

`torch.compile(module)` returns a wrapper that holds the model as `_orig_mod`, and every key gets that prefix
(measured on torch 2.13). Loading the file into the plain model fails on every key, or, with `strict=False`, loads
nothing and says nothing.

## Write instead

Save the model itself: keep a reference to it (`model.state_dict()`), or `net._orig_mod.state_dict()`. Or compile in
place, `model.compile()`, which leaves the keys alone.

## Limits

A file that deals with `_orig_mod` anywhere is taken to know.

## References

PyTorch documentation, `torch.nn.Module.compile`; the wrapper is `torch._dynamo.eval_frame.OptimizedModule`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import names_in, own_nodes, written
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Compiled, options

HAZARD = "placement"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"state_dict"}), regions=frozenset({"host"}))
COPYING = frozenset({"dict", "OrderedDict", "copy", "deepcopy", "items"})
SAVING = frozenset({"save", "save_file", "save_checkpoint", "dump"})


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the state_dict call whose prefixed keys are saved."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    kinds = options(view.kind(node.func.value))
    if not all(isinstance(kind, Compiled) for kind in kinds) or not _is_saved(node, view) or _knows(view.module):
        return
    model = view.text(node.func.value)
    yield Hit(
        node,
        f"`{model}` is a compiled wrapper: the saved keys start with `_orig_mod.` and don't match the plain model",
        f"save the model inside: `{model}._orig_mod.state_dict()`, or compile it in place with `.compile()`",
        confidence="likely",
    )


def _is_saved(call: ast.Call, view: View) -> bool:
    """Whether a state is handed to what saves, as it is or in a variable that is bound to it, or to a dict with it."""
    for parent in view.parents(call):
        if _saves(parent):
            return True
        if isinstance(parent, ast.Assign):
            names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
            if any(names & names_in(value) for name in names for value in _anew(name, parent, view)):
                return False  # `state = {rename(key): value for key, value in state.items()}`
            later = (node for node in own_nodes(view.function) if _saves(node) and node.lineno > parent.lineno)  # type: ignore[attr-defined]
            return any(names & names_in(argument) for node in later for argument in node.args)  # type: ignore[attr-defined]
        if not _keeps_keys(parent):
            return False
    return False


def _anew(name: str, after: ast.Assign, view: View) -> Iterator[ast.expr]:
    """What a variable is set to after a statement."""
    for statement, value in written(ast.Name(name, ast.Load()), view.function):
        if value is not None and statement.lineno > after.lineno:
            yield value


def _keeps_keys(node: ast.AST) -> bool:
    """Whether what is made of a state there has its keys: a copy, a dict or list with it, `{k: v.cpu() for …}`."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in COPYING
    if isinstance(node, ast.DictComp):
        return isinstance(node.key, ast.Name)
    return isinstance(node, (ast.Dict, ast.Tuple, ast.List, ast.keyword, ast.comprehension)) or (
        isinstance(node, ast.Attribute) and node.attr in COPYING
    )


def _saves(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in SAVING


@about_file(False)
def _knows(module: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "_orig_mod")
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and "_orig_mod" in node.value)
        for node in nodes_in(module)
    )


BAD = (
    Example(
        code="""
import torch
from torch import nn


def train(path):
    model = nn.Linear(4, 4)
    model = torch.compile(model)
    torch.save({"step": 1, "model": model.state_dict()}, path)  # ~
    torch.save(model.state_dict(), path)  # ~
""",
    ),
    Example(
        code="""
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = torch.compile(nn.Linear(4, 4))
        self.best = None

    def save(self, path, epoch):
        checkpoint = {
            "model": self.model.state_dict(),  # ~
            "epoch": epoch,
        }
        if epoch:
            torch.save(checkpoint, path)
        weights = self.model.state_dict()  # ~
        torch.save(dict(weights), path)
        torch.save({name: value.cpu() for name, value in self.model.state_dict().items()}, path)  # ~
""",
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


def train(path):
    model = nn.Linear(4, 4)
    compiled = torch.compile(model)
    torch.save(model.state_dict(), path)
    compiled.load_state_dict(compiled.state_dict())
    before = compiled.state_dict()
    state = {"model": model.state_dict()}
    torch.save(state, path)
    compiled.load_state_dict(before)
    count = sum(value.numel() for value in compiled.state_dict().values())
    renamed = compiled.state_dict()
    renamed = {key.split(".", 1)[1]: value for key, value in renamed.items()}
    torch.save({"count": count, "model": renamed}, path)
    model.compile()
    torch.save(model.state_dict(), path)
""",
    ),
)
