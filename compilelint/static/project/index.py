"""One file -> what it defines: imports, functions, classes and their bases, and how it mentions torch.compile.

The index knows neither rules nor other files. It is built from the standard library's `ast`, which parses nine to ten
times faster than libcst (benchmarks/speed), and keeps the nodes of definitions so that the tracer can walk into them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from compilelint.lines import split_lines
from compilelint.record import record
from compilelint.static.project.bodies import Outline, shortened

COMPILE_WORDS = re.compile(r"compile|mark_dynamic|mark_static|cudagraph_mark_step_begin|dynamo\.optimize")
"""A file without any of these says nothing about how it is compiled."""
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@record(frozen=True, slots=True)
class Import:
    """A name bound by an import: the module's dotted name, and the attribute taken from it (`""` for the module)."""

    module: str
    attribute: str = ""


Binding: TypeAlias = Import | FunctionNode | ast.ClassDef | ast.expr


@record(slots=True, eq=False)
class ModuleIndex:
    """What one file defines. `name` is dotted; `bindings` maps each module-level name to what binds it.

    A binding is an Import, a function or class node, or the expression that was assigned. `stars` are the modules of
    `from m import *`, in order.
    """

    path: Path
    name: str
    is_package: bool
    tree: ast.Module
    lines: list[str]
    speaking: list[int] = field(default_factory=list)
    """The 1-based lines that mention compilation, see `COMPILE_WORDS`."""
    bindings: dict[str, Binding] = field(default_factory=dict)
    earlier: dict[str, list[Binding]] = field(default_factory=dict)
    """What a name was bound to, oldest first, before it was bound to something made of itself: `net = net.cuda()`,
    `step = torch.compile(step)`."""
    otherwise: dict[str | ast.expr, ast.Constant] = field(default_factory=dict)
    """What the handler of a `try` binds a name to that its body binds to an import (by name) or to an expression (by
    that): `None` where a library is absent, `False` for a flag that says it is there."""
    stars: list[str] = field(default_factory=list)


def index_source(path: Path, name: str, is_package: bool, source: str, outline: Outline | None = None) -> ModuleIndex:
    """Index one file's text. Raises SyntaxError, and ValueError for text with a null byte.

    With an `outline` what is in the bodies that it names is left out.
    """
    lines = split_lines(source)
    tree = ast.parse(source if outline is None else shortened(lines, outline), filename=str(path))
    module = ModuleIndex(path, name, is_package, tree, lines)
    if COMPILE_WORDS.search(source):
        module.speaking += [number for number, line in enumerate(lines, start=1) if COMPILE_WORDS.search(line)]
    _bind(tree.body, module, nested=False)
    return module


def _bind(body: Iterable[ast.stmt], module: ModuleIndex, *, nested: bool) -> None:
    """Record what the statements bind. Under an `if` or `try` the first binding of a name stands, else the last."""
    for statement in body:
        for name, binding in _bound_by(statement, module):
            if nested and name in module.bindings:
                continue
            if name in module.bindings and isinstance(binding, ast.expr) and _mentions(name, binding):
                module.earlier.setdefault(name, []).append(module.bindings[name])
            else:
                module.earlier.pop(name, None)
            module.bindings[name] = binding
        for block in _blocks(statement):
            _bind(block, module, nested=True)
        if isinstance(statement, ast.Try):
            _note_otherwise(statement, module)


def _note_otherwise(statement: ast.Try, module: ModuleIndex) -> None:
    """Record the constants that stand for what the body binds if it raises; torch itself is there."""
    bound = dict(_bound_in(statement.body, module))
    for name, other in _bound_in((inner for handler in statement.handlers for inner in handler.body), module):
        binding = bound.get(name)
        if not isinstance(other, ast.Constant) or module.bindings.get(name) != binding:
            continue
        if isinstance(binding, ast.expr):
            module.otherwise[binding] = other
        elif isinstance(binding, Import) and binding.module.partition(".")[0] != "torch":
            module.otherwise[name] = other


def _bound_in(body: Iterable[ast.stmt], module: ModuleIndex) -> Iterator[tuple[str, Binding]]:
    """What the statements themselves bind, without those inside of them."""
    for statement in body:
        yield from _bound_by(statement, module)


def _mentions(name: str, binding: ast.expr) -> bool:
    """Whether an expression is made of what a name stands for: `torch.compile(step)`."""
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(binding))


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statement lists inside a module-level compound statement."""
    if isinstance(statement, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
        yield statement.body
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield handler.body
            yield statement.finalbody
        if isinstance(statement, (ast.If, ast.Try, ast.For, ast.While)):
            yield statement.orelse


def _bound_by(statement: ast.stmt, module: ModuleIndex) -> Iterator[tuple[str, Binding]]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name, statement
    elif isinstance(statement, ast.Import):
        yield from imported_modules(statement)
    elif isinstance(statement, ast.ImportFrom):
        origin = absolute_module(statement, module.name, module.is_package)
        for alias in statement.names:
            if alias.name == "*":
                module.stars.append(origin)
            else:
                yield alias.asname or alias.name, Import(origin, alias.name)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
            elif isinstance(target, (ast.Tuple, ast.List)):
                yield from _unpacked(target, statement.value)
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        yield statement.target.id, statement.value


def _unpacked(target: ast.Tuple | ast.List, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """`a, b = pair()` binds `a` to what `pair()[0]` would be."""
    for position, part in enumerate(target.elts):
        if isinstance(part, ast.Starred):
            break
        if isinstance(part, ast.Name):
            item = ast.Subscript(value, ast.copy_location(ast.Constant(position), value), ast.Load())
            yield part.id, ast.copy_location(item, value)


def imported_modules(statement: ast.Import) -> Iterator[tuple[str, Import]]:
    """`import a.b as c` binds c to a.b; `import a.b` binds a."""
    for alias in statement.names:
        if alias.asname:
            yield alias.asname, Import(alias.name)
        else:
            top = alias.name.partition(".")[0]
            yield top, Import(top)


def absolute_module(statement: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The dotted module that a `from … import` names, relative levels resolved against the importing module."""
    if not statement.level:
        return statement.module or ""
    parts = module.split(".")
    if not is_package:
        parts = parts[:-1]
    kept = parts[: len(parts) - (statement.level - 1)]
    return ".".join([*kept, *([statement.module] if statement.module else [])])
