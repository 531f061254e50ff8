"""Questions about state that outlives a call: attributes, globals, and what else the file does with them.

Shared by the rules on recompiles, CUDA graphs and stale results. Everything here reads syntax and value kinds only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeAlias

from compilelint.rule import View
from compilelint.static.project.answers import about_file
from compilelint.static.project.bodies import WithoutBody
from compilelint.static.project.syntax import children, inner_statements, nodes_in, statements_in
from compilelint.static.values import (
    UNKNOWN,
    Class,
    Const,
    Function,
    Instance,
    Mapping,
    Partial,
    Scalar,
    Union,
    Value,
    element_of,
    join_all,
    options,
)

Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
_NESTED = frozenset((ast.FunctionDef, WithoutBody, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))


@lru_cache(maxsize=2048)
def own_nodes(scope: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes of a function's own body in source order, without those of functions and classes nested in it."""
    return _in_order(scope, children)


@lru_cache(maxsize=4096)
def own_statements(scope: ast.AST) -> tuple[ast.AST, ...]:
    """The statements among `own_nodes(scope)`, with handlers and cases: a tenth of the nodes."""
    return _in_order(scope, inner_statements)


def _in_order(scope: ast.AST, inner: Callable[[ast.AST], list[ast.AST]]) -> tuple[ast.AST, ...]:
    found: list[ast.AST] = []
    pending = inner(scope)[::-1]
    while pending:
        node = pending.pop()
        found.append(node)
        if node.__class__ not in _NESTED:
            pending += inner(node)[::-1]
    return tuple(found)


@lru_cache(maxsize=512)
def own_names(scope: Scope) -> frozenset[str]:
    """The local names of a function: parameters and what it binds, without its `global` and `nonlocal` names."""
    names: set[str] = set(parameters(scope))
    outer: set[str] = set()
    for node in own_nodes(scope):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                names.add(node.id)
        elif isinstance(node, ast.expr):
            continue
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            outer.update(node.names)
    return frozenset(names - outer)


def parameters(scope: Scope) -> tuple[str, ...]:
    """The parameter names of a function, the receiver included; none for a module."""
    if isinstance(scope, ast.Module):
        return ()
    arguments = scope.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
    return tuple(argument.arg for argument in every)


def arguments_by_parameter(call: ast.Call, function: Scope) -> dict[str, ast.expr]:
    """What a call passes for each parameter of a function, its receiver left out, as far as it is written down."""
    taken = [parameter for parameter in parameters(function) if parameter not in ("self", "cls")]
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    return dict(zip(taken, call.args, strict=False)) | named


def names_in(node: ast.AST) -> set[str]:
    """The variables that stand in `node`, whether it reads or sets them."""
    return {part.id for part in nodes_in(node) if isinstance(part, ast.Name)}


def root_of(node: ast.expr) -> ast.expr:
    """What a chain of attributes and subscripts starts from: `self` for `self.cache["k"].rows`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node


def without_index(node: ast.expr) -> ast.expr:
    """What subscripts are taken of: `x` for `x[0][:, 1]`, any other node as it is."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def without_alias(node: ast.expr, view: View) -> ast.expr:
    """`self.rows` for `rows` after the only binding `rows = self.rows`; any other node as it is."""
    if not isinstance(node, ast.Name) or node.id not in own_names(view.function):
        return node
    values = _values_by_variable(view.function).get(node.id, ())
    return values[0] if len(values) == 1 and isinstance(values[0], (ast.Attribute, ast.Subscript, ast.Name)) else node


@lru_cache(maxsize=512)
def _values_by_variable(scope: Scope) -> dict[str, list[ast.expr]]:
    """What a function's own assignments bind each variable to: asked for at each of them."""
    found: dict[str, list[ast.expr]] = {}
    for binding in own_statements(scope):
        if isinstance(binding, ast.Assign):
            for name in {target.id for target in binding.targets if isinstance(target, ast.Name)}:
                found.setdefault(name, []).append(binding.value)
    return found


def same_place(first: ast.expr, second: ast.expr) -> bool:
    """Whether two expressions spell the same variable, attribute or entry, read or written."""
    if isinstance(first, ast.Name):
        return isinstance(second, ast.Name) and first.id == second.id
    if isinstance(first, ast.Attribute):
        alike = isinstance(second, ast.Attribute) and first.attr == second.attr
        return alike and same_place(first.value, second.value)  # type: ignore[attr-defined]
    return type(first) is type(second) and ast.unparse(first) == ast.unparse(second)


def outlives_call(node: ast.expr, view: View) -> bool:
    """Whether what `node` names outlives the call: an attribute of a parameter, or a name from outside."""
    root = root_of(node)
    if not isinstance(root, ast.Name):
        return False
    if root.id not in own_names(view.function):
        return True
    inner = node
    while isinstance(inner, (ast.Attribute, ast.Subscript)) and inner.value is not root:
        inner = inner.value
    return isinstance(inner, ast.Attribute) and root.id in parameters(view.function)


def is_global(name: str, view: View) -> bool:
    """Whether `name`, used in this function, is bound at module level of the file, not in an enclosing function."""
    return name not in own_names(view.function) and name in own_names(view.module)


def is_same_object_next_call(node: ast.expr, view: View) -> bool:
    """Whether what `node` names hangs off a module, a global, or an object that lasts (see `View.same_self`).

    An attribute of any other parameter may belong to a fresh object each time, so the answer is no.
    """
    root = root_of(node)
    if not isinstance(root, ast.Name):
        return False
    if root.id not in own_names(view.function):
        return is_global(root.id, view) or view.lasting(root.id)
    if view.lasting(root.id) and not any(True for _ in written(root, view.function)):
        return True
    if not outlives_call(node, view):
        return False
    return is_module(view.kind(root)) or (view.same_self and root.id == "self")


def of_module_or_global(node: ast.expr, view: View) -> bool:
    """Whether `node` hangs off a torch.nn.Module or a global, also by way of a plain object (see `View.of_module`).

    Dynamo keeps an int it finds there as a constant (config `allow_unspec_int_on_nn_module`, off by default), while an
    int on a plain object or in a closure becomes dynamic after one recompile. Measured on torch 2.13.
    """
    root = root_of(node)
    if not isinstance(root, ast.Name):
        return False
    if root.id in own_names(view.function) or not is_global(root.id, view):
        return is_module(view.kind(root)) or (root.id == "self" and view.of_module)
    return True


def is_module(value: Value) -> bool:
    """Whether every alternative of `value` is an object of a project class that inherits from torch.nn.Module."""
    return all(isinstance(option, Instance) and option.is_module for option in options(value))


def held(node: ast.expr, view: View) -> Value:
    """What is kept at an attribute, entry or variable over all calls, whatever this function has just stored there."""
    if isinstance(node, ast.Attribute):
        owners = [option for option in options(view.kind(node.value)) if isinstance(option, Instance)]
        found = [owner.attributes[node.attr] for owner in owners if node.attr in owner.attributes]
        return join_all(found) if found else view.kind(node)
    if isinstance(node, ast.Subscript):
        container = held(node.value, view)
        if isinstance(container, Mapping) and isinstance(node.slice, ast.Constant):
            return dict(container.entries).get(node.slice.value, container.element)
        return element_of(container)
    if isinstance(node, ast.Name) and view.kind(node) == UNKNOWN and is_global(node.id, view):
        first = [value for _, value in written(node, view.module)]
        return Const(first[0].value) if first and isinstance(first[0], ast.Constant) else UNKNOWN
    value = view.kind(node)
    if isinstance(node, ast.Name) and isinstance(value, Union) and view.lasting(node.id):
        return join_all(option for option in options(value) if option != UNKNOWN)  # a default, which is what is kept
    return value


def is_integer(value: Value) -> bool:
    """Whether a value is a Python int and nothing else; bools, which take two values only, are not counted."""
    return value != UNKNOWN and all(
        (isinstance(option, Const) and option.type == "int") or (isinstance(option, Scalar) and option.type == "int")
        for option in options(value)
    )


def is_text(value: Value) -> bool:
    """Whether a value is a str and nothing else."""
    return value != UNKNOWN and all(
        isinstance(option, (Const, Scalar)) and option.type == "str" for option in options(value)
    )


def first_read(node: ast.expr, view: View) -> ast.expr:
    """Where this function first reads what `node` names; `node` itself if nowhere. For the guard, see `used_at`."""
    reads = [
        read
        for read in own_nodes(view.function)
        if isinstance(read, (ast.Attribute, ast.Subscript, ast.Name))
        and isinstance(read.ctx, ast.Load)
        and same_place(read, node)
    ]
    return min([*reads, node], key=lambda read: (read.lineno, read.col_offset))


def used_at(read: ast.expr, view: View) -> ast.expr:
    """Where what is read at `read` is first used: `offset` of `x + offset` behind `offset = self.offset`.

    Dynamo makes a guard for a value where it is used, not where it is put under another name. `read` itself if nothing
    uses that.
    """
    inner: ast.AST = read
    for parent in view.parents(read):
        if isinstance(parent, ast.Assign) and parent.value is inner and isinstance(parent.targets[0], ast.Name):
            name, line = parent.targets[0].id, parent.lineno
            uses = [use for use in loads(name, view.function) if use.lineno > line]
            return min(uses, key=lambda use: (use.lineno, use.col_offset), default=read)
        if not isinstance(parent, ast.IfExp) or parent.test is inner:
            break
        inner = parent
    return read


def read_before(place: ast.expr, change: ast.AST, view: View) -> ast.expr | None:
    """Where this function uses what `place` names before `change`, whenever that runs: the guard is made there."""
    around = set(_arms(change, view))
    for read in own_nodes(view.function):
        if isinstance(read, (ast.Attribute, ast.Name)) and isinstance(read.ctx, ast.Load) and same_place(read, place):
            used = used_at(read, view)
            if used.lineno >= change.lineno:  # type: ignore[attr-defined]
                return None
            if _runs_with(used, around, view):
                return used
    return None


def _runs_with(node: ast.AST, around: set[tuple[ast.AST, str]], view: View) -> bool:
    """Whether no branch or loop but those in `around` decides whether `node` runs."""
    return all(arm in around for arm in _arms(node, view))


def _arms(node: ast.AST, view: View) -> Iterator[tuple[ast.AST, str]]:
    """What around `node` decides whether it runs, each with the part that `node` is in."""
    inner = node
    for parent in view.parents(node):
        decides = isinstance(parent, (ast.If, ast.While, ast.IfExp)) and inner is not parent.test
        decides = decides or (isinstance(parent, (ast.For, ast.comprehension)) and inner is not parent.iter)
        if decides or isinstance(parent, (ast.Try, ast.ExceptHandler, ast.BoolOp)):
            other = getattr(parent, "orelse", None)
            yield parent, "orelse" if inner is other or (isinstance(other, list) and inner in other) else "body"
        inner = parent


def loads(name: str, scope: ast.AST) -> Iterator[ast.Name]:
    """Where a function reads a variable."""
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield node


def first_use(node: ast.Name, view: View) -> ast.expr | None:
    """Where this function first does something with a variable; None if it hands it on before it does.

    What a function of the project is given as an argument, Dynamo looks at where that function uses it.
    """
    reads = filter(view.reached, loads(node.id, view.function))
    first = min(reads, key=lambda read: (read.lineno, read.col_offset), default=None)
    return None if first is None or _handed_on(first, view) else first


def _handed_on(node: ast.Name, view: View) -> bool:
    """Whether `node` is an argument of a call whose callee Dynamo traces."""
    around = view.parents(node)
    parent = next(around, None)
    if isinstance(parent, ast.keyword):
        parent = next(around, None)
    if not isinstance(parent, ast.Call) or parent.func is node:
        return False
    return any(isinstance(callee, (Class, Function, Instance, Partial)) for callee in options(view.kind(parent.func)))


def written(node: ast.expr, scope: ast.AST) -> Iterator[tuple[ast.stmt, ast.expr | None]]:
    """The statements in `scope` that bind `node`'s place, each with the value it gets (None for `del`)."""
    for statement in own_statements(scope):
        if isinstance(statement, (ast.Assign, ast.Delete)):
            targets = statement.targets
        elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
            targets = [statement.target]
        else:
            continue
        if any(same_place(target, node) for target in targets):
            yield statement, None if isinstance(statement, ast.Delete) else statement.value


def mentions(node: ast.AST, place: ast.expr) -> bool:
    """Whether `place` is spelled anywhere inside `node`."""
    return any(isinstance(inner, type(place)) and same_place(inner, place) for inner in ast.walk(node))


def class_node(value: Value, view: View) -> ast.ClassDef | None:
    """The class definition of an instance of exactly one project class."""
    found = view.definition(value) if isinstance(value, Instance) else None
    return found if isinstance(found, ast.ClassDef) else None


@lru_cache(maxsize=256)
def functions_in(tree: ast.AST) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    """Every function and method in a tree, nested ones included."""
    return tuple(node for node in statements_in(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


@about_file({})
def globals_set(module: ast.Module) -> dict[str, list[tuple[int, ast.AST]]]:
    """Names and dict entries of the file that functions count on or set to something not constant, by their spelling.

    Each with the line and the function.

    `__init__` is left out: it sets them while the model is built, before anything is compiled.
    """
    found: dict[str, list[tuple[int, ast.AST]]] = {}
    names = own_names(module)
    for function in functions_in(module):
        for node in own_statements(function) if getattr(function, "name", "") != "__init__" else ():
            counts = isinstance(node, ast.AugAssign)
            if not counts and (not isinstance(node, ast.Assign) or isinstance(node.value, ast.Constant)):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:  # type: ignore[attr-defined]
                name = entry_of(target)
                if name in names and name not in own_names(function):
                    found.setdefault(ast.unparse(target), []).append((target.lineno, function))
    return found


GROWING = frozenset({"append", "appendleft", "extend", "extendleft", "insert", "add"})
SHRINKING = frozenset({"clear", "pop", "popleft", "remove"})
"""The methods by which lists, deques and sets get longer, and those by which they get shorter."""


@about_file(frozenset())
def names_grown(module: ast.Module) -> frozenset[str]:
    """The names that `globals_grown` tells of."""
    return frozenset(globals_grown(module))


@about_file({})
def globals_grown(module: ast.Module) -> dict[str, list[tuple[int, ast.AST]]]:
    """Names of the file that functions add something to and none takes from: spelling -> line, function."""
    found: dict[str, list[tuple[int, ast.AST]]] = {}
    shrunk: set[str] = set()
    for function in functions_in(module):
        for node in own_nodes(function):
            called = node.func if isinstance(node, ast.Call) else None
            if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
                continue
            name = called.value.id
            if name in own_names(module) and name not in own_names(function):
                shrunk |= {name} if called.attr in SHRINKING else set()
                if called.attr in GROWING:
                    found.setdefault(name, []).append((called.lineno, function))
    return {name: growth for name, growth in found.items() if name not in shrunk}


def runs_once(qualname: str) -> bool:
    """Whether a function is called what is called once, to set something up."""
    return qualname.rpartition(".")[2].lstrip("_").startswith(("register", "init", "setup", "build", "reset", "load"))


def entry_of(target: ast.expr) -> str | None:
    """The name that a target sets, or an entry of which it sets under a constant key."""
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None
