"""Calls: what is called, with what, and what comes back."""

from __future__ import annotations

import ast

from compilelint.static.layouts import SPARSE_CONVERSIONS
from compilelint.static.project.definitions import is_small
from compilelint.static.project.enums import is_text_enum
from compilelint.static.tracer import attributes, builtin_calls, containers, library, made_anew, noting
from compilelint.static.tracer.callees import call_back, callee_name, handles_models, is_host_call, makes_layer
from compilelint.static.tracer.ducks import methods_called_back
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


MOST_CALLEES = 8
"""A call of one of more functions than this, as from a table of losses, is not followed: it says of none of them that
it runs, and each unit with such a call would walk them all. Small ones, as in a table of lambdas, do not count."""


def call_node(node: ast.Call, frame: Frame) -> Value:
    """Evaluate a call expression, noting what is called and with which kinds."""
    function = frame.tracer.evaluate(node.func, frame)
    args, keywords = _arguments(node, frame)
    callee = frame.callees[node] = callee_name(function, node.func)
    frame.arguments[node] = (args, keywords)
    noting.note_call(node, args, frame)
    if frame.keeps_effects:
        made_anew.note_construction(node, frame)
    # Deeper down a host call may be what a rare branch does: a table read once, a dump for debugging.
    if handles_models(callee) or (frame.depth <= 1 and is_host_call(callee) and not _is_made_here(callee, frame)):
        frame.mark_driver()
    if callee == "builtins.super":
        return _super(args, frame)
    if frame.mode == "driving" and isinstance(node.func, ast.Attribute) and all(map(_is_guess, options(function))):
        for method in methods_called_back(node.func.attr, frame.module, frame.tracer):
            call(method, args, keywords, node, frame)
    return call(function, args, keywords, node, frame)


def _is_guess(function: Value) -> bool:
    """Whether nothing tells whose method is called."""
    of = function.receiver if isinstance(function, Method) else function
    return isinstance(of, Unknown) or (isinstance(of, Tensor) and not of.sure)


def _is_made_here(callee: str, frame: Frame) -> bool:
    """Whether a layer belongs to an object that a function makes for its own use: whether it builds models shows in
    what it returns."""
    return frame.depth == 1 and frame.ref.qualname.endswith(".__init__") and makes_layer(callee)


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


def call(function: Value, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """What calling `function` returns; functions of the project are entered."""
    if isinstance(function, Union):
        if sum(map(_takes_long, function.options)) > MOST_CALLEES:
            return UNKNOWN
        return join_all(_call(option, args, keywords, node, frame) for option in function.options)
    return _call(function, args, keywords, node, frame)


def _takes_long(function: Value) -> bool:
    """Whether a call of a function leads into much code."""
    if isinstance(function, Function):
        return not is_small(function.ref.node)
    return isinstance(function, (Instance, Partial, Compiled))


def _call(function: Value, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    tracer = frame.tracer
    if isinstance(function, Function):
        if function.disabled:
            return UNKNOWN
        if frame.keeps_effects and function.ref in tracer.driven.replaced:
            return tracer.enter_compiled(Compiled(function), args, keywords, node, frame)
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
        return _by_method(node, args, frame)
    return UNKNOWN


_WITHOUT_ARGUMENTS = frozenset(
    (
        "abs exp log log10 log2 sqrt rsqrt square sin cos sigmoid tanh relu isnan isinf isfinite logical_not contiguous"
        " long"
    ).split()
)
_OF_TWO = frozenset("matmul bmm eq ne lt gt le ge view_as expand_as masked_select logical_and logical_or".split())
_OF_TENSORS = (
    frozenset(
        (
            "norm amax amin softmax log_softmax clamp clamp_min clamp_max unsqueeze view permute expand"
            " repeat_interleave masked_fill masked_scatter gather scatter scatter_add index_select index_fill new_zeros"
            " new_ones new_full new_tensor"
        ).split()
    )
    | _WITHOUT_ARGUMENTS
    | _OF_TWO
)
"""Methods that say their receiver is a tensor: no list, text, dict, array or module has them."""
_OF_ARRAYS_TOO = frozenset(
    "sum mean std var any all max min argmax argmin squeeze reshape transpose flatten cumsum".split()
)
"""Methods that arrays have as well, which compiled code treats as tensors."""


def _by_method(node: ast.AST | None, args: tuple[Value, ...], frame: Frame) -> Value:
    """What `x.item()`, `x.tolist()` or `x.abs()` gives where `x` is unknown: only tensors have such methods."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return UNKNOWN
    name = node.func.attr
    if name in SPARSE_CONVERSIONS:
        return Tensor(sure=False, sparse=True)
    if _is_method_of_tensor(name, args, frame):
        return Tensor("bool" if name in ("any", "all") else None, sure=False)
    if name in ("item", "tolist") and not (node.args or node.keywords):
        number = Scalar("number", "tensor")
        return number if name == "item" else Sequence("list", None, join_all([number, Sequence("list", None, number)]))
    return UNKNOWN


def _is_method_of_tensor(name: str, args: tuple[Value, ...], frame: Frame) -> bool:
    """Whether a method of something unknown is a tensor's, and not `backend.sqrt(x)` or `logger.log("loss", x)`."""
    if name not in _OF_TENSORS and not (name in _OF_ARRAYS_TOO and frame.mode == "compiled"):
        return False
    if name in _WITHOUT_ARGUMENTS:
        return not args
    if name in _OF_TWO:
        return len(args) == 1
    return not (args and isinstance(args[0], (Tensor, Array)))


def _call_instance(
    instance: Instance, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame
) -> Value:
    if instance.compiled:
        if frame.keeps_effects:
            return frame.tracer.enter_compiled(Compiled(instance), args, keywords, node, frame)
        frame.mark_driver()
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
    if isinstance(receiver, Instance) and is_text_enum(receiver.ref, frame.tracer.program):
        return containers.call_method(Scalar("str"), method.name, args, keywords, node, frame)
    if isinstance(receiver, Instance):
        return containers.module_method(receiver, method.name, args, keywords, node, frame)
    return UNKNOWN
