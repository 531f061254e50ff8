"""Questions that several rules ask about the code around a node: mostly syntax, little about kinds."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from compilelint.static.project.definitions import FunctionRef, assignments, class_members
from compilelint.static.project.syntax import nodes_in, statements_in
from compilelint.static.values import Instance, Scalar, Value, options

if TYPE_CHECKING:
    from compilelint.rule import View

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module


def assigned_once(function: FunctionNode, name: str) -> ast.expr | None:
    """The expression assigned to the local variable `name`, or None unless `function` assigns it exactly one."""
    values = _assignments(function).get(name, ())
    return values[0] if len(values) == 1 else None


def assigned_to(function: FunctionNode, name: str) -> tuple[ast.expr, ...]:
    """All expressions that `function` assigns to the local variable `name`."""
    return _assignments(function).get(name, ())


@lru_cache(maxsize=1024)
def _assignments(function: FunctionNode) -> dict[str, tuple[ast.expr, ...]]:
    """By variable, what a function assigns to it; found once per function, since rules ask at every call."""
    found: dict[str, tuple[ast.expr, ...]] = {}
    for statement in statements_in(function):
        if isinstance(statement, ast.Assign):
            for target, value in assignments(statement):
                if isinstance(target, ast.Name):
                    found[target.id] = (*found.get(target.id, ()), value)
    return found


def made_here(function: FunctionNode, node: ast.expr) -> bool:
    """Whether `node` is computed in `function`: an operation, or a variable that is assigned an operation once.

    False for what comes from outside: a parameter, an attribute, an item, a global.
    """
    made = assigned_once(function, node.id) if isinstance(node, ast.Name) else node
    return isinstance(made, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare))


def called_by(node: ast.expr, parents: Iterable[ast.AST]) -> ast.Call | None:
    """The call whose callee `node` is, or is the receiver of: `f` in `f(x)`, `m` in `m.run(x)`."""
    inner: ast.AST = node
    for parent in parents:
        if isinstance(parent, ast.Call):
            return parent if parent.func is inner else None
        if not isinstance(parent, ast.Attribute):
            return None
        inner = parent
    return None


def last_name(node: ast.expr) -> str:
    """The name an expression ends in: `rnn` of `self.rnn`, `x` of `x`; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@cache
def last_decorator_names(function: ast.AST) -> frozenset[str]:
    """The last part of the name of each decorator that is a plain name: `allow_in_graph`."""
    return frozenset(ast.unparse(part).rpartition(".")[2] for part in getattr(function, "decorator_list", ()))


def comes_from_outside(view: View, node: ast.expr) -> bool:
    """Whether `node` existed before the region was entered: an attribute, a global, or an input of the region.

    A variable that a function of the region binds is not from outside, also where a nested function reads it; nor is
    what a property makes anew, or an object that was made in the region holds.
    """
    if isinstance(node, ast.Attribute):
        owners = [option for option in options(view.kind(node.value)) if isinstance(option, Instance)]
        members = (class_members(owner.ref).get(node.attr) for owner in owners)
        return not any(owner.traced for owner in owners) and not any(isinstance(m, FunctionRef) for m in members)
    if not isinstance(node, ast.Name) or node.id in stored_names(view.function):
        return False
    if node.id in {argument.arg for argument in nodes_in(view.function) if isinstance(argument, ast.arg)}:
        return view.entry
    return node.id in view.fact(_module_variables)


@lru_cache(maxsize=256)
def _module_variables(module: ast.Module) -> tuple[str, ...]:
    """The names that are assigned outside of the functions and classes of a file."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tuple(
        sorted({name for part in module.body if not isinstance(part, definitions) for name in stored_names(part)})
    )


@lru_cache(maxsize=1024)
def stored_names(scope: ast.AST) -> frozenset[str]:
    """The names that are assigned anywhere in `scope`."""
    return frozenset(n.id for n in nodes_in(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def stored_before(name: str, scope: ast.AST, site: ast.AST) -> bool:
    """Whether a variable may be another one at `site` than what its function was given: one set above, or a loop's."""
    return name in stored_names(scope) and any(
        (isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) and n.lineno < site.lineno)  # type: ignore[attr-defined]
        or (isinstance(n, _COMPREHENSIONS) and _goes_through(n, name) and site in nodes_in(n))
        for n in nodes_in(scope)
    )


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _goes_through(comprehension: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, name: str) -> bool:
    return any(name in stored_names(generator.target) for generator in comprehension.generators)


def folded(message: ast.expr) -> bool:
    """Whether Python's compiler makes one constant of the message."""
    if isinstance(message, ast.JoinedStr):
        return not any(isinstance(part, ast.FormattedValue) for part in message.values)
    if isinstance(message, ast.BinOp):
        return folded(message.left) and folded(message.right)
    return isinstance(message, ast.Constant)


def is_drawn(value: Value) -> bool:
    """Whether a value is a number that Dynamo drew before the graph started, or the outcome of comparing one."""
    return all(isinstance(option, Scalar) and option.origin == "drawn" for option in options(value))
