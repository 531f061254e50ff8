"""Calls of Python's own functions."""

from __future__ import annotations

import ast
from collections.abc import Callable

from compilelint.static.tracer import asked, attributes, built_names, narrowing, operators, overloads
from compilelint.static.tracer.callees import type_name
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Array,
    Class,
    Const,
    External,
    ExternalInstance,
    Instance,
    Mapping,
    Method,
    Origin,
    Scalar,
    Sequence,
    Tensor,
    Unknown,
    Value,
    element_of,
    join,
    join_all,
    options,
)

Args = tuple[Value, ...]
_FORMS = {"list": "list", "tuple": "tuple", "set": "set", "frozenset": "set"}


def call(name: str, args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    """`name(*args)` for a builtin."""
    if name in _CONVERSIONS and args:
        found = overloads.converted(args[0], _CONVERSIONS[name], node, frame)
        if found is not None:
            return found
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(args, keywords, node, frame)
    if name in _FORMS:
        return _sequence(_FORMS[name], args, frame)
    return _PLAIN.get(name, UNKNOWN)


_CONVERSIONS = {
    "int": ("__int__", "__index__"),
    "float": ("__float__", "__index__"),
    "bool": ("__bool__", "__len__"),
    "str": ("__str__", "__repr__"),
    "repr": ("__repr__",),
    "abs": ("__abs__",),
    "round": ("__round__",),
    "hash": ("__hash__",),
    "len": ("__len__",),
    "next": ("__next__",),
    "reversed": ("__reversed__",),
}
"""The methods that Python calls for these builtins, the first one that a class has."""

_PLAIN: dict[str, Value] = {
    "print": NONE,
    "id": Scalar("int"),
    "hash": Scalar("int"),
    "repr": Scalar("str"),
    "str": Scalar("str"),
    "format": Scalar("str"),
    "chr": Scalar("str"),
    "ord": Scalar("int"),
    "input": Scalar("str"),
    "issubclass": Scalar("bool"),
}


def _len(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    value = args[0] if args else UNKNOWN
    if isinstance(value, Sequence) and value.items is not None:
        filled_later = isinstance(node, ast.Call) and bool(node.args) and narrowing.starts_empty(value, node.args[0])
        return Scalar("int") if filled_later else Const(len(value.items))
    return Scalar("int", "shape" if isinstance(value, (Tensor, Array)) else "python")


def _number(kind: str) -> Callable[..., Value]:
    def cast(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
        origins: list[Origin] = []
        for value in options(args[0]) if args else ():
            if isinstance(value, (Tensor, Array)):
                origins.append("tensor")
            elif isinstance(value, Scalar):
                origins.append(value.origin)
        if args and isinstance(args[0], Const) and kind in ("int", "float", "bool"):
            try:
                return Const({"int": int, "float": float, "bool": bool}[kind](args[0].value))
            except (TypeError, ValueError, OverflowError):
                return Scalar(kind)  # type: ignore[arg-type]
        origin = next((o for o in ("tensor", "shape", "argument") if o in origins), "python")
        return Scalar(kind, origin)  # type: ignore[arg-type]

    return cast


def _range(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    origins = {v.origin for v in args if isinstance(v, Scalar)}
    return Sequence("range", None, Scalar("int", "shape" if "shape" in origins else "python"))


def _sequence(form: str, args: Args, frame: Frame) -> Value:
    if not args:
        return Sequence(form, ())  # type: ignore[arg-type]
    source = args[0]
    if isinstance(source, Sequence) and source.items is not None and form != "set":
        return Sequence(form, source.items)  # type: ignore[arg-type]
    return Sequence(form, None, asked.items_of(source, frame))  # type: ignore[arg-type]


def _zip(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    items = tuple(asked.items_of(a, frame) for a in args)
    return Sequence("iterator", None, Sequence("tuple", items))


def _enumerate(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    inner = asked.items_of(args[0], frame) if args else UNKNOWN
    return Sequence("iterator", None, Sequence("tuple", (Scalar("int"), inner)))


def _same_items(form: str) -> Callable[..., Value]:
    def items(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
        if not args:
            return UNKNOWN
        return Sequence(form, None, asked.items_of(args[0], frame))  # type: ignore[arg-type]

    return items


def _map(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    if len(args) < 2:
        return UNKNOWN
    items = tuple(asked.items_of(a, frame) for a in args[1:])
    return Sequence("iterator", None, frame.tracer.call(args[0], items, {}, node, frame))


def _extreme(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    """`max` and `min`: of several tensors Dynamo traces torch.maximum; measured on torch 2.13."""
    if not args:
        return keywords.get("*", UNKNOWN)
    if len(args) == 1:
        item = asked.items_of(args[0], frame)
        asked.ordered(item, keywords, node, frame)
        if isinstance(args[0], Tensor) and isinstance(item, Tensor) and "key" not in keywords:
            item = Tensor(item.element, 0, item.sure, item.host)  # rows could not be compared
        return join(item, keywords["default"]) if "default" in keywords else item
    tensors = [t for a in args for t in options(a) if isinstance(t, Tensor)]
    if tensors:
        return Tensor(tensors[0].element, max((t.rank or 0) for t in tensors), all(t.sure for t in tensors))
    if all(isinstance(a, (Const, Scalar)) for a in args):
        result: Value = args[0]
        for other in args[1:]:
            result = operators.binary(result, ast.Sub(), other)
        return result if isinstance(result, Scalar) else Scalar("number")
    return join_all(args)


def _sum(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    if not args:
        return UNKNOWN
    item = asked.items_of(args[0], frame)
    return operators.binary(item, ast.Add(), args[1] if len(args) > 1 else Const(0))


def _abs(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    value = args[0] if args else UNKNOWN
    return value if not isinstance(value, Const) else Scalar("number")


def _round(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    value = args[0] if args else UNKNOWN
    if isinstance(value, (Tensor, Array)):
        return value
    return Scalar("int" if len(args) < 2 else "float", value.origin if isinstance(value, Scalar) else "python")


def _power(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    return operators.binary(args[0], ast.Pow(), args[1]) if len(args) > 1 else UNKNOWN


def _any_all(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    return Scalar("bool")


def _isinstance(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    if len(args) != 2:
        return Scalar("bool")
    wanted = args[1].items if isinstance(args[1], Sequence) and args[1].items is not None else (args[1],)
    verdicts = {_is_any(option, wanted, frame) for option in options(args[0])}
    return Const(verdicts.pop()) if len(verdicts) == 1 and None not in verdicts else Scalar("bool")


def _callable(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    verdicts = {narrowing.is_callable(option) for option in options(args[0] if args else UNKNOWN)}
    return Const(verdicts.pop()) if len(verdicts) == 1 and None not in verdicts else Scalar("bool")


def _is_any(value: Value, wanted: Args, frame: Frame) -> bool | None:
    """Whether a value is of one of these types; None where that is not known."""
    answers = {_is(value, single, frame) for single in wanted}
    return True if True in answers else None if None in answers else False


def _is(value: Value, wanted: Value, frame: Frame) -> bool | None:
    if isinstance(value, Instance) and isinstance(wanted, Class):
        order = frame.tracer.program.mro(value.ref)
        return True if wanted.ref in order else None
    if isinstance(value, Instance) and isinstance(wanted, External):
        order = frame.tracer.program.mro(value.ref)
        known = wanted.name.removeprefix("builtins.") in order or (wanted.name == "torch.nn.Module" and value.is_module)
        return True if known else None
    return narrowing.is_instance(value, wanted)


def _getattr(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    if len(args) < 2:
        return UNKNOWN
    if not isinstance(args[1], Const) or not isinstance(args[1].value, str):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            return UNKNOWN
        return built_names.read(args[0], built_names.name_of(node.args[1], frame), frame)
    found = attributes.get(args[0], args[1].value, frame)
    if len(args) > 2 and not isinstance(args[0], (Instance, Tensor, ExternalInstance, External)):
        return join(found, args[2]) if found != UNKNOWN else UNKNOWN
    if len(args) > 2 and isinstance(found, Method):
        return UNKNOWN
    return found


def _setattr(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    """`setattr(self, name, value)`: kept as an assignment to the attribute is, with what the class does to itself."""
    if isinstance(node, ast.Call) and len(node.args) == len(args) == 3 and frame.is_receiver(node.args[0]):
        built_names.write(args[0], built_names.name_of(node.args[1], frame), args[2], frame)
    return NONE


def _hasattr(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    if len(args) == 2 and isinstance(args[0], Instance) and isinstance(args[1], Const):
        found = attributes.get(args[0], str(args[1].value), frame)
        if not isinstance(found, (Unknown, Method)):
            return Const(True)
    return Scalar("bool")


def _iter(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    """`iter(rows)`; that of a tuple is one to Dynamo, which knows what is left in it wherever it was made."""
    in_a_tuple = bool(args) and all(
        isinstance(option, Tensor) or (isinstance(option, Sequence) and option.form in ("tuple", "size", "range"))
        for option in options(args[0])
    )
    return _same_items("tuple" if in_a_tuple else "iterator")(args[:1], keywords, node, frame)


def _next(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    if not args:
        return UNKNOWN
    item = element_of(args[0])
    return join(item, args[1]) if len(args) > 1 else item


def _type(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    value = args[0] if len(args) == 1 else UNKNOWN
    if isinstance(value, Instance):
        return Class(value.ref)
    return External(type_name(value)) if isinstance(value, (ExternalInstance, Tensor)) else UNKNOWN


def _key_and_value(item: Value) -> tuple[object, Value] | None:
    """A pair whose first part is a constant."""
    if isinstance(item, Sequence) and item.items is not None and len(item.items) == 2:
        key, value = item.items
        return (key.value, value) if isinstance(key, Const) else None
    return None


def _dict(args: Args, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Value:
    entries = {key: value for key, value in keywords.items() if key not in ("*", "**")}
    if not args and not keywords:
        return Mapping(empty=True)
    first = args[0] if args else Mapping()
    if isinstance(first, Mapping):
        return Mapping((*first.entries, *entries.items()), first.element)
    if isinstance(first, Sequence) and first.items is not None:
        known = [found for item in first.items if (found := _key_and_value(item)) is not None]
        if len(known) == len(first.items):
            return Mapping((*known, *entries.items()))
    pair = element_of(first)
    inner = pair.items[1] if isinstance(pair, Sequence) and pair.items and len(pair.items) == 2 else UNKNOWN
    return Mapping(tuple(entries.items()), inner)


_HANDLERS: dict[str, Callable[[Args, dict[str, Value], ast.AST | None, Frame], Value]] = {
    "len": _len,
    "int": _number("int"),
    "float": _number("float"),
    "bool": _number("bool"),
    "complex": _number("number"),
    "range": _range,
    "zip": _zip,
    "enumerate": _enumerate,
    "reversed": _same_items("iterator"),
    "sorted": asked.sort,
    "map": _map,
    "filter": asked.choose,
    "max": _extreme,
    "min": _extreme,
    "sum": _sum,
    "abs": _abs,
    "round": _round,
    "pow": _power,
    "any": _any_all,
    "all": _any_all,
    "callable": _callable,
    "isinstance": _isinstance,
    "getattr": _getattr,
    "hasattr": _hasattr,
    "setattr": _setattr,
    "iter": _iter,
    "next": _next,
    "type": _type,
    "dict": _dict,
}
