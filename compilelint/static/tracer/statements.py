"""Statements: how variables change, and which paths go on."""

from __future__ import annotations

import ast
from collections.abc import Callable

from compilelint.static.project.definitions import ClassRef, function_ref
from compilelint.static.project.index import absolute_module, imported_modules
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer import attributes, effects, noting, overloads, recurring
from compilelint.static.tracer.assignment import parts, side_by_side, store
from compilelint.static.tracer.decoration import decorate
from compilelint.static.tracer.expressions import closure_of, evaluate, iterate
from compilelint.static.tracer.frame import Env, Frame, join_envs
from compilelint.static.tracer.narrowing import narrowed, starts_empty, test
from compilelint.static.tracer.postponed import postpone
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Scalar,
    Sequence,
    Tensor,
    Value,
    join,
)

LOOP_PASSES = 2
"""The second pass over a loop body sees what the first one left in its variables."""


def run_block(body: list[ast.stmt], frame: Frame) -> bool:
    """Walk the statements; False when no path comes out at the end (return, raise, break, continue)."""
    for statement in body:
        handler = _HANDLERS.get(type(statement))
        if frame.mode == "construct" and handler is not None and postpone(statement, handler, frame):
            continue
        if handler is not None and handler(statement, frame) is False:
            return False
    return True


def _expression(node: ast.Expr, frame: Frame) -> None:
    evaluate(node.value, frame)


def _assign(node: ast.Assign, frame: Frame) -> None:
    value = evaluate(node.value, frame)
    noting.note_assignment(node, frame)
    for target in node.targets:
        shares = side_by_side(target, node.value, frame)
        if shares is None:
            store(target, value, frame)
            if isinstance(node.value, ast.IfExp):
                recurring.remember_choice(target, node.value, value, frame)
        for part, share in shares or ():
            store(part, share, frame)


def _annotated(node: ast.AnnAssign, frame: Frame) -> None:
    if node.value is None:
        return
    value = evaluate(node.value, frame)
    if value == UNKNOWN:
        value = frame.tracer.annotation(node.annotation, frame.module)
    store(node.target, value, frame)


def _augmented(node: ast.AugAssign, frame: Frame) -> None:
    current = evaluate(node.target, frame)
    value = overloads.in_place(current, node.op, evaluate(node.value, frame), node, frame)
    frame.kinds[node.target] = current
    store(node.target, value, frame)
    noting.note_assignment(node, frame)


def _return(node: ast.Return, frame: Frame) -> bool:
    frame.give_back(evaluate(node.value, frame) if node.value else NONE)
    return False


def _raise(node: ast.Raise, frame: Frame) -> bool:
    for part in (node.exc, node.cause):
        if part is not None:
            evaluate(part, frame)
    return False


def _leave(node: ast.Break | ast.Continue, frame: Frame) -> bool:
    frame.env.setdefault("", UNKNOWN)
    return False


def _if(node: ast.If, frame: Frame) -> bool:
    truth = test(node.test, frame)
    before = frame.env
    ends: list[Env] = []
    if truth is not False:
        frame.env = narrowed(node.test, frame, True)
        if run_block(node.body, frame):
            ends.append(frame.env)
        else:
            _keep_loop_exit(before, frame.env)
    if truth is not True:
        frame.env = before
        frame.env = narrowed(node.test, frame, False)
        if run_block(node.orelse, frame):
            ends.append(frame.env)
        else:
            _keep_loop_exit(before, frame.env)
    if not ends:
        frame.env = before
        return False
    if len(ends) == 1:
        frame.env = ends[0]
    else:
        frame.env = join_envs(ends[0], ends[1])
        recurring.remember(node.test, ends[0], ends[1], frame.env, frame)
    return True


def _keep_loop_exit(before: Env, after: Env) -> None:
    """A path that leaves through `break` or `continue` still shows its variables to what follows the loop."""
    if "" in after:
        for name, value in after.items():
            if name and "." not in name and before.get(name) is not value:
                before[name] = join(before[name], value) if name in before else value


def _for(node: ast.For | ast.AsyncFor, frame: Frame) -> bool:
    source = evaluate(node.iter, frame)
    if isinstance(source, Sequence) and source.items == () and not starts_empty(source, node.iter):
        return run_block(node.orelse, frame)
    item = iterate(source, frame)
    entry = frame.env
    for _ in range(LOOP_PASSES):
        frame.env = dict(entry)
        store(node.target, item, frame)
        run_block(node.body, frame)
        frame.env.pop("", None)
        entry = join_envs(entry, frame.env)
    frame.env = entry
    return _after_loop(node, frame)


def _while(node: ast.While, frame: Frame) -> bool:
    entry = frame.env
    endless = False
    for _ in range(LOOP_PASSES):
        frame.env = dict(entry)
        truth = test(node.test, frame)
        if truth is False:
            break
        endless = truth is True
        frame.env = narrowed(node.test, frame, True)
        run_block(node.body, frame)
        frame.env.pop("", None)
        entry = join_envs(entry, frame.env)
    frame.env = entry
    if endless and not _breaks(node):
        return False
    return _after_loop(node, frame)


def _after_loop(node: ast.For | ast.AsyncFor | ast.While, frame: Frame) -> bool:
    """The `else` of a loop, which `break` jumps over."""
    left = dict(frame.env)
    falls_through = run_block(node.orelse, frame)
    if not node.orelse or not _breaks(node):
        return falls_through
    frame.env = join_envs(left, frame.env) if falls_through else left
    return True


def _breaks(node: ast.stmt) -> bool:
    return any(isinstance(inner, ast.Break) for inner in nodes_in(node))


def _try(node: ast.Try, frame: Frame) -> bool:
    before = dict(frame.env)
    falls_through = run_block(node.body, frame) and run_block(node.orelse, frame)
    ends = [frame.env] if falls_through else []
    middle = join_envs(before, frame.env)
    for handler in () if _cannot_raise(node.body, frame) else node.handlers:
        frame.env = dict(middle)
        if handler.name:
            frame.env[handler.name] = UNKNOWN
        if run_block(handler.body, frame):
            ends.append(frame.env)
    frame.env = ends[0] if ends else middle
    for env in ends[1:]:
        frame.env = join_envs(frame.env, env)
    return run_block(node.finalbody, frame) and bool(ends)


def _cannot_raise(body: list[ast.stmt], frame: Frame) -> bool:
    """Whether a `try` body only imports torch and returns what is decided: its handlers are for older versions."""
    last = body[-1]
    return (
        isinstance(last, ast.Return)
        and last.value is not None
        and isinstance(frame.kind(last.value), Const)
        and all(
            isinstance(s, ast.Import) and all(alias.name.partition(".")[0] == "torch" for alias in s.names)
            for s in body[:-1]
        )
    )


def _with(node: ast.With | ast.AsyncWith, frame: Frame) -> bool:
    after: list[effects.Effect] = []
    for item in node.items:
        count = len(frame.effects)
        manager = evaluate(item.context_expr, frame)
        after += noting.enter_manager(count, frame)
        if item.optional_vars is not None:
            store(item.optional_vars, _entered(manager, frame), frame)
        elif isinstance(manager, Instance):
            _entered(manager, frame)
    falls_through = run_block(node.body, frame)
    effects.add(after, frame)
    for item in node.items:
        manager = frame.kind(item.context_expr)
        if isinstance(manager, Instance):
            frame.tracer.call(attributes.get(manager, "__exit__", frame), (NONE, NONE, NONE), {}, node, frame)
    return falls_through


def _entered(manager: Value, frame: Frame) -> Value:
    """What `with manager as name` binds; the project's own managers are entered."""
    if isinstance(manager, Sequence) and manager.form == "generator":
        return manager.element
    if isinstance(manager, Instance):
        return frame.tracer.call(attributes.get(manager, "__enter__", frame), (), {}, None, frame)
    # Most managers of libraries give something else than themselves: None, a file, a list of warnings.
    return manager if isinstance(manager, ExternalInstance) and manager.name == "contextlib.ExitStack" else UNKNOWN


def _assert(node: ast.Assert, frame: Frame) -> None:
    test(node.test, frame)
    if node.msg is not None:
        env = frame.env
        frame.env = narrowed(node.test, frame, False)
        evaluate(node.msg, frame)
        frame.env = env
    frame.env = narrowed(node.test, frame, True)


def _define(node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
    ref = function_ref(frame.module.name, f"{frame.ref.qualname}.<locals>", node, frame.ref.owner)
    function: Value = Function(ref, closure=closure_of(node, frame))
    frame.env[node.name] = function
    frame.env[node.name] = decorate(function, node, frame)
    noting.note_definition(frame.env[node.name], frame)


def _class(node: ast.ClassDef, frame: Frame) -> None:
    frame.env[node.name] = Class(ClassRef(frame.module.name, f"{frame.ref.qualname}.<locals>.{node.name}", node))


def _delete(node: ast.Delete, frame: Frame) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            frame.env.pop(target.id, None)
        else:
            evaluate(target, frame)


def _import(node: ast.Import, frame: Frame) -> None:
    for name, binding in imported_modules(node):
        frame.env[name] = frame.tracer.imported(binding.module, "", External(binding.module))


def _import_from(node: ast.ImportFrom, frame: Frame) -> None:
    origin = absolute_module(node, frame.module.name, frame.module.is_package)
    for alias in node.names:
        outside = External(f"{origin}.{alias.name}")
        frame.env[alias.asname or alias.name] = frame.tracer.imported(origin, alias.name, outside)


def _match(node: ast.Match, frame: Frame) -> bool:
    subject = evaluate(node.subject, frame)
    before = frame.env
    ends: list[Env] = []
    caught_all = False
    for case in node.cases:
        frame.env = dict(before)
        _bind_pattern(case.pattern, subject, frame)
        if case.guard is not None:
            test(case.guard, frame)
        elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
            caught_all = True
        if run_block(case.body, frame):
            ends.append(frame.env)
    if not caught_all:
        ends.append(before)
    frame.env = ends[0] if ends else before
    for env in ends[1:]:
        frame.env = join_envs(frame.env, env)
    return bool(ends)


def _bind_pattern(pattern: ast.pattern, subject: Value, frame: Frame) -> None:
    """Bind the names a pattern captures. A literal pattern compares, which is a truth test of its own.

    Its node stands for the comparison, then. No tensor equals a text, which Dynamo knows.
    """
    if isinstance(pattern, ast.MatchValue):
        literal = evaluate(pattern.value, frame)
        if isinstance(subject, Tensor) and not (isinstance(literal, (Const, Scalar)) and literal.type == "str"):
            frame.tests[pattern.value] = frame.kinds[pattern.value] = Tensor("bool", subject.rank, subject.sure)
    elif isinstance(pattern, ast.MatchAs):
        if pattern.pattern is not None:
            _bind_pattern(pattern.pattern, subject, frame)
        if pattern.name:
            frame.env[pattern.name] = subject
    elif isinstance(pattern, ast.MatchSequence):
        star = next((i for i, inner in enumerate(pattern.patterns) if isinstance(inner, ast.MatchStar)), None)
        for inner, part in zip(pattern.patterns, parts(subject, len(pattern.patterns), star, frame), strict=True):
            _bind_pattern(inner, part, frame)
    elif isinstance(pattern, ast.MatchOr):
        for inner in pattern.patterns:
            _bind_pattern(inner, subject, frame)
    elif isinstance(pattern, ast.MatchMapping) and isinstance(subject, Mapping):
        entries = dict(subject.entries)
        for key, inner in zip(pattern.keys, pattern.patterns, strict=True):
            name = key.value if isinstance(key, ast.Constant) else None
            _bind_pattern(inner, entries.get(name, UNKNOWN), frame)
    elif isinstance(pattern, (ast.MatchClass, ast.MatchMapping)):
        inners = [*pattern.patterns, *(pattern.kwd_patterns if isinstance(pattern, ast.MatchClass) else ())]
        for inner in inners:
            _bind_pattern(inner, UNKNOWN, frame)
    elif isinstance(pattern, ast.MatchStar) and pattern.name:
        frame.env[pattern.name] = Sequence("list", None, subject)


_HANDLERS: dict[type[ast.stmt], Callable[..., bool | None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Break: _leave,
    ast.Continue: _leave,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.Try: _try,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Assert: _assert,
    ast.FunctionDef: _define,
    ast.AsyncFunctionDef: _define,
    ast.ClassDef: _class,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Match: _match,
}
if hasattr(ast, "TryStar"):
    _HANDLERS[ast.TryStar] = _try
