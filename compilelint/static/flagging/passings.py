"""What driving code passes for the parameters of compiled functions, followed to where they are handed on."""

from __future__ import annotations

import ast
from collections import Counter

from compilelint.rule import Passing, Place
from compilelint.static.facts.questions import stored_before, stored_names
from compilelint.static.facts.state import Scope, own_names, parameters, root_of
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer import varying
from compilelint.static.tracer.binding import defaults
from compilelint.static.tracer.effects import Entry
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, Closure, Method, Tensor, Value, join_all, options


def passed(name: str, frame: Frame) -> tuple[Passing, ...]:
    """What driving code passes for a parameter of the function that `frame` runs, or of a caller that hands it on."""
    outermost = handed_from(name, frame)
    if outermost is None:
        return ()
    name, frame = outermost
    stretches = frame.tracer.driven.entries.get(frame.ref, ())
    found = [stretch.entries for stretch in stretches]
    homes = Counter(stretch.home for stretch in stretches)
    for home in homes:
        if home is not None and homes[home] > 1:  # the methods of one class call the same compiled function
            found.append(tuple(entry for stretch in stretches if stretch.home == home for entry in stretch.entries))
    return tuple(passing for entries in found if (passing := _passing(name, entries, frame)) is not None)


def _passing(name: str, entries: tuple[Entry, ...], frame: Frame) -> Passing | None:
    given = [(entry, dict(entry.arguments).get(name)) for entry in entries]
    if all(value is None for _, value in given):
        return None
    node = defaults(frame.ref.node).get(name)
    default = UNKNOWN if node is None else frame.tracer.default(node, frame.module)
    return Passing(
        values=tuple(default if value is None else _without_guess(value) for _, value in given),
        lasting=all(name in entry.lasting for entry in entries),
        varies=any(name in entry.varying for entry in entries),
        grows=any(name in entry.growing for entry in entries),
        carried=tuple(number for entry in entries for number in dict(entry.carried).get(name, ())),
        sizes=frozenset(size for entry in entries for size in dict(entry.sizes).get(name, ())),
        entries=frozenset(key for entry in entries for key in dict(entry.entries).get(name, ())),
        of_model=any(name in entry.parameters_of_model for entry in entries),
        place=Place(entries[0].path, entries[0].line),
    )


def _without_guess(value: Value) -> Value:
    """What is passed, unless that is taken for a tensor, or an attribute of one, for want of anything else."""
    return join_all(UNKNOWN if _is_guess(part) else part for part in options(value))


def _is_guess(value: Value) -> bool:
    of = value.receiver if isinstance(value, Method) else value
    return isinstance(of, Tensor) and not of.sure


def handed_from(name: str, frame: Frame) -> tuple[str, Frame] | None:
    """The parameter of the region's outermost function that is handed on, as it is, to be `name` in `frame`."""
    while name in parameters(frame.ref.node):
        if frame.caller is None or frame.caller.mode != frame.mode:
            return name, frame
        argument = varying.passed(name, frame)
        frame.tracer.program.note(frame.caller.module.name, "body", line=frame.caller.ref.line)
        if not isinstance(argument, ast.Name) or _is_rebound(argument.id, frame.caller.ref.node, frame.site):
            return None
        name, frame = argument.id, frame.caller
    return None


def _is_rebound(name: str, scope: Scope, site: ast.AST | None) -> bool:
    """Whether a variable may be another one at `site` than what its function was given."""
    if name not in stored_names(scope):
        return False
    if site is None or stored_before(name, scope, site):
        return True
    loops = [n for n in nodes_in(scope) if isinstance(n, (ast.For, ast.While)) and site in nodes_in(n)]
    return any(name in stored_names(loop) for loop in loops)


def lasting(name: str, frame: Frame) -> bool:
    """See View; `name` is a variable of the function that `frame` runs."""
    while name in parameters(frame.ref.node):
        if frame.caller is None or frame.caller.mode != frame.mode:
            given = passed(name, frame)
            return any(passing.lasting for passing in given) or (not given and _is_kept_default(name, frame.ref.node))
        is_method = frame.ref.owner is not None and name == "self" and isinstance(frame.site, ast.Call)
        called = frame.site.func if is_method and isinstance(frame.site, ast.Call) else None
        argument = root_of(called) if called is not None else varying.passed(name, frame)
        if not isinstance(argument, ast.Name):
            return argument is None and _takes_nothing_more(frame.site) and _is_kept_default(name, frame.ref.node)
        name, frame = argument.id, frame.caller
    return _is_of_enclosing(name, frame)


def _takes_nothing_more(call: ast.AST | None) -> bool:
    """Whether all that a call passes is written out."""
    return isinstance(call, ast.Call) and not any(
        [isinstance(part, ast.Starred) for part in call.args] + [keyword.arg is None for keyword in call.keywords]
    )


def _is_kept_default(name: str, scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether a parameter has a list, dict or set as its default: all calls that pass nothing share that one."""
    node = defaults(scope).get(name)
    made = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return isinstance(node, (ast.List, ast.Dict, ast.Set)) or made in ("list", "dict", "set", "deque", "defaultdict")


def _is_of_enclosing(name: str, frame: Frame) -> bool:
    """Whether the function with which a region starts sees a variable of a function around it, which ran before."""
    starts = frame.caller is None or frame.caller.mode != frame.mode
    return starts and name not in own_names(frame.ref.node) and _is_bound_in(name, frame.closure)


def _is_bound_in(name: str, closure: Closure | None) -> bool:
    while closure is not None:
        if name in closure.env:
            return True
        closure = closure.outer
    return False
