"""The forms of change that a rule can propose. What is made here is data; `compilelint.fix` turns it into edits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from compilelint.model import Rewrite, Safety
from compilelint.rule import View
from compilelint.static.project.answers import about_file
from compilelint.static.project.syntax import nodes_in

_READERS = ("torch.", "builtins.", "str.", "math.", "list.index", "list.count", "dict.get", "dict.keys", "dict.values")
_ACTORS = re.compile(
    r"_$|^builtins\.(next|setattr|delattr|input|exec|eval|open|print|__import__)$"
    r"|\.(rand\w*|normal|bernoulli|multinomial|poisson|manual_seed|seed|set_\w+|use_\w+|dropout\w*|backward)$"
)
"""Calls that do more than read: tensor methods that end in `_`, those that draw random numbers or set a mode."""


def guard(call: ast.Call, view: View, lost: str) -> Rewrite | None:
    """Put the statement that `call` is under `if not torch.compiler.is_compiling():`.

    Unsafe: in compiled code the statement no longer runs; `lost` says what that means to the user. None where the
    call's value is used, where an argument does more than read, or where the module has no `torch` to ask.
    """
    statement = next(iter(view.parents(call)), None)
    if not isinstance(statement, ast.Expr) or not view.fact(_imports_torch):
        return None
    if not all(_only_reads(argument, view) for argument in (*call.args, *(k.value for k in call.keywords))):
        return None
    title = f"guard it with `if not torch.compiler.is_compiling():`; compiled code {lost}"
    return Rewrite("guard", title, "unsafe", view.span(statement))


def replace(
    node: ast.expr, template: str, part: ast.expr, view: View, title: str, safety: Safety = "unsafe"
) -> Rewrite | None:
    """Write `template` for `node`, with the source of `part` where it has `{part}`.

    `safe` is for what gives the same in eager code whoever calls the function, not only on the path that was looked at.
    None where `template` needs a `torch` that the module does not have.
    """
    if template.startswith("torch.") and not view.fact(_imports_torch):
        return None
    return Rewrite("replace", title, safety, view.span(node), template, view.span(part))


def _only_reads(node: ast.expr, view: View) -> bool:
    """Whether nothing is missed when `node` is not evaluated. What is not known may do anything."""
    for part in ast.walk(node):
        if isinstance(part, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)):
            return False
        if isinstance(part, ast.Call):
            callee = view.callee(part)
            if not callee.startswith(_READERS) or _ACTORS.search(callee):
                return False
    return True


@lru_cache(maxsize=64)
def _imports_torch(module: ast.Module) -> bool:
    """Whether `torch` is the package everywhere in the file: imported at its top level, and never anything else."""
    imported = any(name == "torch" for statement in module.body for name in _packages(statement))
    return imported and not _is_something_else(module)


@about_file(False)
def _is_something_else(module: ast.Module) -> bool:
    return any(map(_binds_other, nodes_in(module)))


def _packages(statement: ast.stmt) -> Iterator[str]:
    """The packages that `import a.b` makes known under their own name."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname in (None, alias.name):
                yield alias.name.partition(".")[0]


def _binds_other(node: ast.AST) -> bool:
    """Whether `node` makes the name `torch` mean something else."""
    if isinstance(node, ast.Name):
        return node.id == "torch" and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.arg):
        return node.arg == "torch"
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name == "torch"
    if isinstance(node, ast.ImportFrom):
        return any((alias.asname or alias.name) == "torch" for alias in node.names)
    return isinstance(node, ast.Import) and any(a.asname == "torch" and a.name != "torch" for a in node.names)
