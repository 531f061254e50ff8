"""Tests: what a condition decides, and what is known of the variables in it on either side."""

from __future__ import annotations

import ast
import builtins
import sys

from compilelint.static.project.definitions import none_test
from compilelint.static.project.parts import TESTS
from compilelint.static.tracer import overloads, recurring
from compilelint.static.tracer.frame import Env, Frame, path_of
from compilelint.static.values import (
    NONE,
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
    Tensor,
    Union,
    Unknown,
    Value,
    join_all,
    options,
    without_none,
)

_TENSOR_CLASSES = frozenset(
    {"torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "torch.BoolTensor", "torch.IntTensor"}
)
_NO_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy"}
_BUILTIN_CLASSES = {"builtins.bool": "bool", "builtins.int": "int", "builtins.float": "float", "builtins.str": "str"}
_SEQUENCE_CLASSES = {
    "builtins.list": ("list",),
    "builtins.tuple": ("tuple", "size"),
    "builtins.set": ("set",),
    "torch.Size": ("size",),
}


def test(node: ast.expr, frame: Frame) -> bool | None:
    """Evaluate `node` as a condition; its parts are noted for the rules. True or False where that is decided."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        truth = test(node.operand, frame)
        frame.kinds[node] = Scalar("bool") if truth is None else Const(not truth)
        return None if truth is None else not truth
    if isinstance(node, ast.BoolOp):
        return _test_parts(node, frame)
    value = frame.tracer.evaluate(node, frame)
    frame.tests[node] = value
    overloads.ask_truth(value, node, frame)
    return None if starts_empty(value, node) else truth_of(value)


def starts_empty(value: Value, node: ast.AST) -> bool:
    """Whether `node` reads a list that its object starts with empty (`self.seen = []`): a later call may find more."""
    return isinstance(node, ast.Attribute) and isinstance(value, Sequence) and value.items == ()


def _test_parts(node: ast.BoolOp, frame: Frame) -> bool | None:
    """`and`/`or`: later parts are evaluated under what the earlier ones say."""
    wants = isinstance(node.op, ast.And)
    env = frame.env
    decided: bool | None = wants
    for operand in node.values:
        truth = test(operand, frame)
        if truth is (not wants):
            decided = not wants
            break
        if truth is None:
            decided = None
        frame.env = narrowed(operand, frame, wants)
    frame.env = env
    frame.kinds[node] = Scalar("bool") if decided is None else Const(decided)
    return decided


def truth_of(value: Value) -> bool | None:
    """Whether a value is true, where every alternative agrees."""
    if not isinstance(value, Union):
        return _truth(value)
    answers = {_truth(option) for option in value.options}
    return answers.pop() if len(answers) == 1 else None


def _truth(value: Value) -> bool | None:
    if isinstance(value, (Tensor, Scalar, Unknown)):
        return None
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Sequence) and value.items is not None:
        return bool(value.items)
    if isinstance(value, Mapping) and value.entries:
        return True
    if isinstance(value, (Function, Class, Partial, Compiled)):
        return True
    if isinstance(value, Method):
        return True if isinstance(value.receiver, (Tensor, Sequence, Mapping)) else None
    if isinstance(value, Instance):
        return True if value.is_module else None
    return None


def narrowed(node: ast.expr, frame: Frame, truth: bool) -> Env:
    """The variables of `frame` on the side where `node` came out as `truth`."""
    env = dict(frame.env)
    _narrow(node, frame, truth, env)
    return env


def _narrow(node: ast.expr, frame: Frame, truth: bool, env: Env) -> None:
    recurring.recall(node, truth, frame, env)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _narrow(node.operand, frame, not truth, env)
    elif isinstance(node, ast.BoolOp):
        if isinstance(node.op, ast.And) is truth:
            for operand in node.values:
                _narrow(operand, frame, truth, env)
        else:
            # `x is not None and is_compiling()`: with the other parts decided, the whole says what this one says.
            undecided = [operand for operand in node.values if truth_of(frame.kind(operand)) is None]
            if len(undecided) == 1:
                _narrow(undecided[0], frame, truth, env)
    elif isinstance(node, ast.NamedExpr):
        _narrow(node.target, frame, truth, env)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        _narrow_comparison(node, frame, truth, env)
    elif isinstance(node, ast.Call):
        _narrow_call(node, frame, truth, env)
    elif isinstance(node, (ast.Name, ast.Attribute)):
        if truth:
            _set(node, without_none(_known(node, frame, env)), env)
        else:
            _set(node, _falsy(_known(node, frame, env)), env)


def _falsy(value: Value) -> Value:
    """The alternatives that can be false."""
    kept = [option for option in options(value) if _truth(option) is not True]
    return join_all(kept) if kept else value


def _narrow_comparison(node: ast.Compare, frame: Frame, truth: bool, env: Env) -> None:
    op, left, right = node.ops[0], node.left, node.comparators[0]
    if (
        isinstance(right, ast.Constant)
        and right.value is None
        and isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq))
    ):
        _narrow_none(left, frame, isinstance(op, (ast.Is, ast.Eq)) is truth, env)
    elif isinstance(op, (ast.Eq, ast.Is)) and truth and isinstance(right, ast.Constant):
        _narrow_constant(left, right.value, frame, env)


def _narrow_constant(node: ast.expr, value: object, frame: Frame, env: Env) -> None:
    """On the side where `node` equals a text or flag, it is that constant."""
    if isinstance(value, (str, bool)) and isinstance(_known(node, frame, env), (Scalar, Unknown)):
        _set(node, Const(value), env)


def _narrow_none(node: ast.expr, frame: Frame, is_none: bool, env: Env) -> None:
    if isinstance(node, ast.NamedExpr):
        node = node.target
    _set(node, NONE if is_none else without_none(_known(node, frame, env)), env)


def _narrow_call(node: ast.Call, frame: Frame, truth: bool, env: Env) -> None:
    callee = frame.callees.get(node, "")
    if callee == "builtins.isinstance" and len(node.args) == 2:
        wanted = frame.kind(node.args[1])
        value = of_class(_known(node.args[0], frame, env), wanted, truth)
        if truth and value == UNKNOWN and frame.keeps_effects:
            # `for m in model.modules(): if isinstance(m, Adapter)`: what is set on it counts, see `effects`.
            found = [_module_of(single, frame) for single in _classes(wanted) or ()]
            value = join_all(found) if found else value
        _set(node.args[0], value, env)
    elif callee == "torch.is_tensor" and node.args:
        value = _known(node.args[0], frame, env)
        _set(node.args[0], of_class(value, External("torch.Tensor"), truth), env)
    elif callee == "builtins.bool" and len(node.args) == 1:
        _narrow(node.args[0], frame, truth, env)
    elif callee == "builtins.callable" and node.args:
        value = _known(node.args[0], frame, env)
        kept = [option for option in options(value) if is_callable(option) is not (not truth)]
        _set(node.args[0], join_all(kept) if kept else UNKNOWN, env)
    elif len(node.args) == 1:
        verdict = _none_test(frame.kind(node.func), frame)
        if verdict is not None:
            _narrow_none(node.args[0], frame, verdict is truth, env)


def _module_of(owner: Value, frame: Frame) -> Value:
    """An object of a class of the project or of torch's modules."""
    if isinstance(owner, Class):
        return frame.tracer.instance_of(owner.ref)
    is_layer = isinstance(owner, External) and owner.name.startswith("torch.nn.")
    return ExternalInstance(owner.name) if isinstance(owner, External) and is_layer else UNKNOWN


def _none_test(function: Value, frame: Frame) -> bool | None:
    """See `definitions.none_test`."""
    if not isinstance(function, Function):
        return None
    frame.tracer.program.note(function.ref.module, TESTS, line=function.ref.node.lineno)
    return none_test(function.ref.node)


def of_class(value: Value, wanted: Value, truth: bool) -> Value:
    """`value` where `isinstance(value, wanted)` came out as `truth`."""
    classes = _classes(wanted)
    if classes is None:
        return value
    kept: list[Value] = []
    for option in options(value):
        verdicts = {is_instance(option, single) for single in classes}
        verdict = True if True in verdicts else (None if None in verdicts else False)
        if verdict is None and truth and (isinstance(option, Unknown) or _is_guess(option, classes)):
            kept.append(join_all(instance_of(single) for single in classes))
        elif verdict is None or verdict is truth:
            kept.append(option)
    return join_all(kept) if kept else (join_all(instance_of(single) for single in classes) if truth else UNKNOWN)


def _classes(wanted: Value) -> tuple[Value, ...] | None:
    if isinstance(wanted, Sequence):
        return wanted.items
    if isinstance(wanted, (Class, External)):
        return (wanted,)
    return wanted.options if isinstance(wanted, Union) else None


def instance_of(wanted: Value) -> Value:
    """A value of class `wanted`, nothing else known."""
    if isinstance(wanted, External):
        if wanted.name in _TENSOR_CLASSES:
            return Tensor()
        if wanted.name in _BUILTIN_CLASSES:
            return Scalar(_BUILTIN_CLASSES[wanted.name])  # type: ignore[arg-type]
        if wanted.name in _SEQUENCE_CLASSES:
            return Sequence(_SEQUENCE_CLASSES[wanted.name][0])  # type: ignore[arg-type]
        if wanted.name == "builtins.dict":
            return Mapping()
        if wanted.name == "numpy.ndarray":
            return Array()
    return UNKNOWN


def is_instance(value: Value, wanted: Value) -> bool | None:
    """`isinstance(value, wanted)` for one alternative and one class."""
    if isinstance(value, Unknown) or (isinstance(value, Scalar) and value.type == "object"):
        return None
    name = wanted.name if isinstance(wanted, External) else ""
    if name == "builtins.type":
        return _is_class(value)
    if isinstance(value, Tensor):
        if name.startswith("torch.") or not name:  # `torch.LongTensor` also asks for the width and the device
            return True if name == "torch.Tensor" else None
        return None if _is_guess(value, (wanted,)) else False
    if isinstance(value, (Const, Scalar)):
        if name in _BUILTIN_CLASSES:
            return value.type == _BUILTIN_CLASSES[name] or (value.type == "bool" and name == "builtins.int")
        return False if name in _TENSOR_CLASSES or isinstance(wanted, Class) or name in _SEQUENCE_CLASSES else None
    if isinstance(value, Sequence):
        if name in _SEQUENCE_CLASSES:
            return value.form in _SEQUENCE_CLASSES[name]
        return False if name in _TENSOR_CLASSES or name in _BUILTIN_CLASSES or name == "builtins.dict" else None
    if isinstance(value, Mapping):
        return True if name == "builtins.dict" else (False if name in _TENSOR_CLASSES else None)
    if isinstance(value, Array):
        return True if name == "numpy.ndarray" else (False if name in _TENSOR_CLASSES else None)
    if isinstance(value, ExternalInstance) and name:
        return True if value.name == name else None
    if isinstance(value, Instance) and isinstance(wanted, Class) and value.ref == wanted.ref:
        return True
    if isinstance(value, Instance) and name in _TENSOR_CLASSES | set(_BUILTIN_CLASSES) | set(_SEQUENCE_CLASSES):
        return None if value.has_outside_base else False
    return None


def _is_guess(value: Value, classes: tuple[Value, ...]) -> bool:
    """Whether a tensor is only taken for one, by its use or annotation, and code asks for what a library defines."""
    return (
        isinstance(value, Tensor)
        and not value.sure
        and any(isinstance(single, External) and _top_level(single.name) not in _NO_LIBRARIES for single in classes)
    )


def _top_level(name: str) -> str:
    return name.partition(".")[0]


def is_callable(value: Value) -> bool | None:
    """`callable(value)` for one alternative; None where that hangs on its class, or on what a name of a library is."""
    if isinstance(value, (Function, Class, Partial, Method, Compiled)):
        return True
    if isinstance(value, (Tensor, Const, Sequence, Mapping, Array)):
        return False
    return (True if value.is_module else None) if isinstance(value, Instance) else None


def _is_class(value: Value) -> bool | None:
    """Whether a value is a class; what other libraries have is told by its name."""
    if isinstance(value, External):
        home, _, name = value.name.rpartition(".")
        built_in = home == "builtins" and isinstance(getattr(builtins, name, None), type)
        return True if built_in or name[:1].isupper() else None
    return isinstance(value, Class)


def _known(node: ast.expr, frame: Frame, env: Env) -> Value:
    """What is known of a variable or attribute path on this path."""
    key = path_of(node)
    if key is not None and key in env:
        return env[key]
    return frame.kind(node)


def _set(node: ast.expr, value: Value, env: Env) -> None:
    key = path_of(node)
    if key is not None:
        env[key] = value
