"""Units in which no walk starts, as a hook is handed them most often.

That is told from their syntax, without the tracer, the rules and the knowledge table, which take longer to load.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

from compilelint.model import Failure
from compilelint.static.project import contents
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.project.index import ModuleIndex
from compilelint.static.project.program import Program
from compilelint.static.regions import link
from compilelint.static.regions.decode_loops import decode_loops
from compilelint.static.regions.public import public_functions
from compilelint.static.units.work import Outcome, Task

_PLAIN = frozenset({"property", "staticmethod", "classmethod", "abstractmethod", "setter", "overload", "override"})
"""Decorators that compile nothing."""


def outcome_of_idle(task: Task, program: Program, shown: Callable[[Path], str], *, kept: bool) -> Outcome | None:
    """What a task gives in which no walk starts; None for any other. `kept` as for `walk.Walk`."""
    if task.entry_points or task.public is not None:
        return None
    program.begin(task.modules)
    modules = [module for name in task.modules if (module := program.module(name))]
    if any(_starts_walk(program, module) for module in modules):
        return None
    read = {}
    if kept:
        from compilelint.static.units.reading import readings

        read = readings(program, task, (), shown, lambda asked, function, module: "")  # no rule has looked at anything
    return Outcome(
        unread=tuple(Failure(shown(path), str(error), error.line) for path, error in sorted(program.unread().items())),
        read=read,
        absent=frozenset(path.as_posix() for path in program.absent),
    )


def _starts_walk(program: Program, module: ModuleIndex) -> bool:
    """Whether anything in a file makes a `Walk` look into a function."""
    return (
        contents.speaks_of_compile(module)
        or any(map(_may_be_compiled, contents.functions(module)))
        or any(True for _ in link.module_roots(program, module))
        or (not contents.only_tests(module) and any(decode_loops(ref, module) for ref in contents.functions(module)))
        or any(True for _ in public_functions(program, module))
    )


def _may_be_compiled(ref: FunctionRef) -> bool:
    """Whether a decorator, whatever it is called here, may be one that compiles."""
    return any(_last_name(decorator) not in _PLAIN for decorator in getattr(ref.node, "decorator_list", ()))


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
