"""Expressions -> value kinds."""

from __future__ import annotations

import ast
from collections.abc import Callable

from compilelint.static.project.definitions import function_ref
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer import attributes, calls, noting, overloads, subscripts
from compilelint.static.tracer.binding import defaults
from compilelint.static.tracer.frame import Frame, path_of
from compilelint.static.tracer.narrowing import narrowed, test
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Closure,
    Const,
    Function,
    Mapping,
    Scalar,
    Sequence,
    Tensor,
    Union,
    Value,
    constant,
    element_of,
    join_all,
    options,
)

MAX_KNOWN_ITEMS = 32
"""Longer displays are known by the join of their items only."""


def evaluate(node: ast.expr, frame: Frame) -> Value:
    """The kind of `node` in `frame`, recorded there for the rules."""
    handler = _HANDLERS.get(type(node))
    value = handler(node, frame) if handler is not None else UNKNOWN
    frame.kinds[node] = value
    return value


def _constant(node: ast.Constant, frame: Frame) -> Value:
    return constant(node.value)


def _name(node: ast.Name, frame: Frame) -> Value:
    found = frame.look_up(node.id)
    return found if found is not None else frame.tracer.global_value(frame.module, node.id)


def _attribute(node: ast.Attribute, frame: Frame) -> Value:
    owner = evaluate(node.value, frame)
    key = path_of(node)
    if key is not None and key in frame.env:
        return frame.env[key]
    return attributes.get(owner, node.attr, frame)


def _call(node: ast.Call, frame: Frame) -> Value:
    return calls.call_node(node, frame)


def _binary(node: ast.BinOp, frame: Frame) -> Value:
    return overloads.binary(evaluate(node.left, frame), node.op, evaluate(node.right, frame), node, frame)


def _unary(node: ast.UnaryOp, frame: Frame) -> Value:
    if isinstance(node.op, ast.Not):
        truth = test(node.operand, frame)
        return Scalar("bool") if truth is None else Const(not truth)
    return overloads.unary(node.op, evaluate(node.operand, frame), node, frame)


def _boolean(node: ast.BoolOp, frame: Frame) -> Value:
    """`a and b`, `a or b` as a value: every operand but the last is asked for its truth."""
    wants = isinstance(node.op, ast.And)
    results: list[Value] = []
    env = frame.env
    for position, operand in enumerate(node.values):
        if position == len(node.values) - 1:
            results.append(evaluate(operand, frame))
            break
        truth = test(operand, frame)
        if not wants and isinstance(node.values[-1], (ast.Dict, ast.List)):
            _not_a_tensor(operand, frame)
        value = frame.kind(operand)
        if truth is None or truth is not wants:
            kept = [option for option in options(value) if not (not wants and option == NONE)]
            results.append(join_all(kept) if kept else value)
        if truth is not None and truth is not wants:
            break
        frame.env = narrowed(operand, frame, wants)
    frame.env = env
    return join_all(results)


def _not_a_tensor(operand: ast.expr, frame: Frame) -> None:
    """`cache or {}` says that `cache` is a dict where it is anything, whatever its annotation says."""
    value = frame.kind(operand)
    kept = [option for option in options(value) if not (isinstance(option, Tensor) and not option.sure)]
    if len(kept) < len(options(value)):
        frame.kinds[operand] = frame.tests[operand] = join_all([*kept, UNKNOWN])


def _conditional(node: ast.IfExp, frame: Frame) -> Value:
    truth = test(node.test, frame)
    results: list[Value] = []
    env = frame.env
    if truth is not False:
        frame.env = narrowed(node.test, frame, True)
        results.append(evaluate(node.body, frame))
    if truth is not True:
        frame.env = env
        frame.env = narrowed(node.test, frame, False)
        results.append(evaluate(node.orelse, frame))
    frame.env = env
    return join_all(results)


def _compare(node: ast.Compare, frame: Frame) -> Value:
    left = evaluate(node.left, frame)
    result: Value = UNKNOWN
    for position, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = evaluate(right_node, frame)
        result = overloads.compare(left, op, right, node, frame)
        if position < len(node.ops) - 1:
            frame.tests[node] = result  # `a < b < c` asks for the truth of `a < b`
        left = right
    return result


def _display(node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Value:
    form = {ast.List: "list", ast.Tuple: "tuple", ast.Set: "set"}[type(node)]
    items: list[Value] = []
    loose: list[Value] = []
    for item in node.elts:
        if isinstance(item, ast.Starred):
            value = evaluate(item.value, frame)
            if isinstance(value, Sequence) and value.items is not None:
                items.extend(value.items)
            else:
                loose.append(iterate(value, frame))
        else:
            items.append(evaluate(item, frame))
    if loose or len(items) > MAX_KNOWN_ITEMS or form == "set":
        return Sequence(form, None, join_all([*items, *loose]))  # type: ignore[arg-type]
    return Sequence(form, tuple(items))  # type: ignore[arg-type]


def _dict(node: ast.Dict, frame: Frame) -> Value:
    entries: dict[object, Value] = {}
    loose: list[Value] = []
    for key, value_node in zip(node.keys, node.values, strict=True):
        value = evaluate(value_node, frame)
        if key is None:
            if isinstance(value, Mapping):
                entries.update(value.entries)
                loose.append(value.element)
            continue
        key_value = evaluate(key, frame)
        if isinstance(key_value, Const) and len(entries) < 64:
            entries[key_value.value] = value
        else:
            loose.append(value)
    return Mapping(tuple(entries.items()), join_all(loose), empty=not node.keys)


def _lambda(node: ast.Lambda, frame: Frame) -> Value:
    ref = function_ref(frame.module.name, frame.ref.qualname, node, frame.ref.owner)
    function = Function(ref, closure=closure_of(node, frame))
    noting.note_definition(function, frame)
    return function


def closure_of(node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> Closure:
    """What a function that is made here keeps: the variables around it, and its defaults as they are now."""
    given = {name: evaluate(default, frame) for name, default in defaults(node).items()}
    return Closure(frame.env, frame.closure, given)


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame) -> Value:
    outer = frame.env
    frame.env = dict(outer)
    known: tuple[Value, ...] | None = None
    for generator in node.generators:
        source = evaluate(generator.iter, frame)
        if isinstance(source, Sequence) and source.items is not None and len(node.generators) == 1:
            known = source.items
        frame.tracer.assign(generator.target, iterate(source, frame), frame)
        for condition in generator.ifs:
            known = None
            test(condition, frame)
            frame.env = narrowed(condition, frame, True)
    if isinstance(node, ast.DictComp):
        evaluate(node.key, frame)
        result: Value = Mapping((), evaluate(node.value, frame))
    else:
        element = evaluate(node.elt, frame)
        form = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "generator"}[type(node)]
        if known is not None and form == "list" and len(known) <= MAX_KNOWN_ITEMS:
            result = Sequence("list", (element,) * len(known))
        else:
            result = Sequence(form, None, element)  # type: ignore[arg-type]
    bound = {name: value for name, value in frame.env.items() if name not in outer and _walrus(node, name)}
    frame.env = {**outer, **bound} if bound else outer
    return result


def _walrus(node: ast.AST, name: str) -> bool:
    return any(isinstance(inner, ast.NamedExpr) and inner.target.id == name for inner in nodes_in(node))


def iterate(value: Value, frame: Frame) -> Value:
    """What `for item in value` binds."""
    if not isinstance(value, Union):
        return attributes.iterate(value, frame)
    return join_all(attributes.iterate(option, frame) for option in value.options)


def _formatted(node: ast.JoinedStr, frame: Frame) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            evaluate(part.value, frame)
    return Scalar("str")


def _walrus_value(node: ast.NamedExpr, frame: Frame) -> Value:
    value = evaluate(node.value, frame)
    frame.tracer.assign(node.target, value, frame)
    return value


def _starred(node: ast.Starred, frame: Frame) -> Value:
    return evaluate(node.value, frame)


def _yield(node: ast.Yield, frame: Frame) -> Value:
    frame.give_out(evaluate(node.value, frame) if node.value else NONE)
    noting.note_yield(frame)
    return UNKNOWN


def _yield_from(node: ast.YieldFrom, frame: Frame) -> Value:
    frame.give_out(element_of(evaluate(node.value, frame)))
    return UNKNOWN


def _await(node: ast.Await, frame: Frame) -> Value:
    return evaluate(node.value, frame)


def _slice(node: ast.Slice, frame: Frame) -> Value:
    for part in (node.lower, node.upper, node.step):
        if part is not None:
            evaluate(part, frame)
    return UNKNOWN


def _subscript(node: ast.Subscript, frame: Frame) -> Value:
    owner = evaluate(node.value, frame)
    index = evaluate(node.slice, frame)
    if not isinstance(owner, Union):
        return subscripts.read(owner, index, node, frame)
    return join_all(subscripts.read(option, index, node, frame) for option in owner.options)


_HANDLERS: dict[type[ast.AST], Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.Compare: _compare,
    ast.List: _display,
    ast.Tuple: _display,
    ast.Set: _display,
    ast.Dict: _dict,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.JoinedStr: _formatted,
    ast.NamedExpr: _walrus_value,
    ast.Starred: _starred,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Await: _await,
    ast.Slice: _slice,
    ast.Subscript: _subscript,
}
