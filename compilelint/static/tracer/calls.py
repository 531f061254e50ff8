"""Calls: what is called, with what, and what comes back."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from compilelint.static.tracer import attributes, builtin_calls, containers, library
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import (
    UNKNOWN,
    Array,
    Class,
    Compiled,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Method,
    Partial,
    Scalar,
    Sequence,
    Super,
    Tensor,
    Union,
    Unknown,
    Value,
    join_all,
    options,
)

Keywords = dict[str, Value]
"""Keyword arguments; `*` and `**` hold what an argument list of unknown length carries."""


def call_node(node: ast.Call, frame: Frame) -> Value:
    """Evaluate a call expression, noting what is called and with which kinds."""
    function = frame.tracer.evaluate(node.func, frame)
    args, keywords = _arguments(node, frame)
    frame.callees[node] = callee_name(function, node.func)
    frame.arguments[node] = (args, keywords)
    if frame.callees[node] == "builtins.super":
        return _super(args, frame)
    return call(function, args, keywords, node, frame)


def _arguments(node: ast.Call, frame: Frame) -> tuple[tuple[Value, ...], Keywords]:
    args: list[Value] = []
    keywords: Keywords = {}
    for argument in node.args:
        value = frame.tracer.evaluate(argument, frame)
        if not isinstance(argument, ast.Starred):
            args.append(value)
        elif isinstance(value, Sequence) and value.items is not None and "*" not in keywords:
            args.extend(value.items)
        else:
            keywords["*"] = join_all(attributes.iterate(option, frame) for option in options(value))
    for keyword in node.keywords:
        value = frame.tracer.evaluate(keyword.value, frame)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, Mapping):
            keywords.update({key: entry for key, entry in value.entries if isinstance(key, str)})
            if value.element != UNKNOWN or not value.entries:
                keywords["**"] = value.element
        else:
            keywords["**"] = UNKNOWN
    return tuple(args), keywords


def _super(args: tuple[Value, ...], frame: Frame) -> Value:
    """`super()` and `super(Cls, self)`."""
    if len(args) == 2 and isinstance(args[0], Class):
        return Super(args[1], args[0].ref)
    owner, scope = frame.ref.owner, frame.ref.node
    if owner is None or isinstance(scope, ast.Lambda):
        return UNKNOWN
    parameters = [*scope.args.posonlyargs, *scope.args.args]
    receiver = frame.look_up(parameters[0].arg) if parameters else None
    return Super(receiver, owner) if receiver is not None else UNKNOWN


def callee_name(function: Value, node: ast.expr) -> str:
    """The dotted name of what is called; see `compilelint.rule.View.callee`."""
    names = [name for option in options(function) if (name := _callee(option))]
    for name in names:
        if name.startswith(("torch.", "builtins.")):
            return name
    if names:
        return names[0]
    return f"?.{node.attr}" if isinstance(node, ast.Attribute) else "?"


def _callee(function: Value) -> str:
    if isinstance(function, External):
        return function.name
    if isinstance(function, Function):
        return f"{function.ref.module}.{function.ref.qualname}"
    if isinstance(function, Class):
        return f"{function.ref.module}.{function.ref.qualname}"
    if isinstance(function, Instance):
        return f"{function.ref.module}.{function.ref.qualname}.__call__"
    if isinstance(function, ExternalInstance):
        return f"{function.name}.__call__"
    if isinstance(function, Partial):
        return _callee(function.function)
    if isinstance(function, Compiled):
        return _callee(function.inner)
    if isinstance(function, Method):
        owner = type_name(function.receiver)
        return f"{owner}.{function.name}" if owner else f"?.{function.name}"
    return ""


def type_name(value: Value) -> str:
    """The dotted name of a value's class, for the methods of things that are not project objects."""
    if isinstance(value, Tensor):
        return "torch.Tensor"
    if isinstance(value, Array):
        return "numpy.ndarray"
    if isinstance(value, Sequence):
        return "torch.Size" if value.form == "size" else value.form
    if isinstance(value, Mapping):
        return "dict"
    if isinstance(value, (Const, Scalar)):
        return value.type if value.type not in ("object", "number", "NoneType") else ""
    if isinstance(value, ExternalInstance):
        return value.name
    if isinstance(value, Instance):
        return "torch.nn.Module" if value.is_module else f"{value.ref.module}.{value.ref.qualname}"
    return ""


def call(function: Value, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """What calling `function` returns; functions of the project are entered."""
    if isinstance(function, Union):
        return join_all(_call(option, args, keywords, node, frame) for option in function.options)
    return _call(function, args, keywords, node, frame)


def _call(function: Value, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    tracer = frame.tracer
    if isinstance(function, Function):
        if function.disabled:
            return UNKNOWN
        return tracer.enter(function, args, keywords, node, frame)
    if isinstance(function, Class):
        return tracer.construct(function.ref, args, keywords, node, frame)
    if isinstance(function, Partial):
        return call(function.function, (*function.args, *args), {**dict(function.keywords), **keywords}, node, frame)
    if isinstance(function, Compiled):
        return tracer.enter_compiled(function, args, keywords, node, frame)
    if isinstance(function, Instance):
        return _call_instance(function, args, keywords, node, frame)
    if isinstance(function, Method):
        return _call_method(function, args, keywords, node, frame)
    if isinstance(function, ExternalInstance):
        return library.call_instance(function, args, keywords, node, frame)
    if isinstance(function, External):
        if function.name.startswith("builtins."):
            return builtin_calls.call(function.name[len("builtins.") :], args, keywords, node, frame)
        return library.call(function.name, args, keywords, node, frame)
    if isinstance(function, Unknown):
        call_back((*args, *keywords.values()), args, node, frame)
    return UNKNOWN


def call_back(handed: Iterable[Value], args: tuple[Value, ...], node: ast.AST | None, frame: Frame) -> Value:
    """Functions handed to something unknown are taken to be called with the arguments that follow them."""
    if frame.mode == "construct":
        return UNKNOWN
    results: list[Value] = []
    for value in handed:
        if isinstance(value, (Function, Partial)) and node is not None:
            following = args[args.index(value) + 1 :] if value in args else ()
            results.append(call(value, following, {"*": UNKNOWN, "**": UNKNOWN}, node, frame))
    return join_all(results)


def _call_instance(
    instance: Instance, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame
) -> Value:
    for name in ("__call__", "forward") if instance.is_module else ("__call__",):
        method = attributes.get(instance, name, frame)
        if not isinstance(method, Method) and method != UNKNOWN:
            return call(method, args, keywords, node, frame)
    outside = [base for base in frame.tracer.program.mro(instance.ref) if isinstance(base, str)]
    if instance.is_module and outside:
        return library.call_instance(ExternalInstance(outside[0]), args, keywords, node, frame)
    return UNKNOWN


def _call_method(
    method: Method, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame
) -> Value:
    receiver = method.receiver
    if isinstance(receiver, Tensor):
        return library.tensor_method(receiver, method.name, args, keywords, node, frame)
    if isinstance(receiver, Array):
        return library.array_method(receiver, method.name, args, frame)
    if isinstance(receiver, (Sequence, Mapping, ExternalInstance, Const, Scalar)):
        return containers.call_method(receiver, method.name, args, keywords, node, frame)
    if isinstance(receiver, Instance):
        return containers.module_method(receiver, method.name, args, keywords, node, frame)
    return UNKNOWN
