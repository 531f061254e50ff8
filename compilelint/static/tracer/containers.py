"""Methods of lists, dicts, strings, torch's container modules, and the bookkeeping methods of nn.Module."""

from __future__ import annotations

import ast

from compilelint.static.tracer import asked, built_names, library
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Const,
    ExternalInstance,
    Instance,
    Mapping,
    Scalar,
    Sequence,
    Tensor,
    Value,
    constant,
    element_of,
    gives_module,
    gives_tensors,
    join,
    join_all,
)

FORWARD_HOOKS = frozenset({"register_forward_hook", "register_forward_pre_hook"})


def call_method(
    receiver: Value, name: str, args: tuple[Value, ...], keywords: dict[str, Value], node: ast.AST | None, frame: Frame
) -> Value:
    """`receiver.name(*args)`; a method that changes the receiver rebinds the variable it was read from."""
    if isinstance(receiver, Sequence):
        return _sequence_method(receiver, name, args, keywords, node, frame)
    if isinstance(receiver, Mapping):
        return _mapping_method(receiver, name, args, keywords, node, frame)
    if isinstance(receiver, ExternalInstance):
        return _instance_method(receiver, name, args, keywords, node, frame)
    if receiver == NONE:
        return UNKNOWN
    return (
        _string_method(receiver, name, args)
        if isinstance(receiver, (Const, Scalar)) and receiver.type == "str"
        else UNKNOWN
    )


def _rebind(node: ast.AST | None, value: Value, frame: Frame) -> None:
    """The receiver expression of the method call `node` now holds `value`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        frame.tracer.store(node.func.value, value, frame)


def _sequence_method(
    receiver: Sequence,
    name: str,
    args: tuple[Value, ...],
    keywords: dict[str, Value],
    node: ast.AST | None,
    frame: Frame,
) -> Value:
    inside = element_of(receiver)
    if name == "sort":
        asked.ordered(inside, keywords, node, frame)
        return NONE
    if name in ("append", "add", "appendleft") and args:
        _rebind(node, _grown(receiver, args[0]), frame)
        return NONE
    if name in ("extend", "update") and args:
        added = args[0]
        element = join(inside, element_of(added)) if inside != UNKNOWN or receiver.items is None else element_of(added)
        _rebind(node, Sequence(receiver.form, None, element), frame)
        return NONE
    if name == "insert" and len(args) > 1:
        _rebind(node, _grown(receiver, args[1]), frame)
        return NONE
    if name in ("pop", "popleft"):
        return inside
    if name == "copy":
        return receiver
    if name in ("index", "count", "numel"):
        return Scalar("int", "shape" if receiver.form == "size" else "python")
    return UNKNOWN


def _grown(receiver: Sequence, item: Value) -> Sequence:
    """The receiver with one more item. Its length is not kept: the append may stand in a loop."""
    inside = element_of(receiver)
    empty = receiver.items == () or (receiver.items is None and inside == UNKNOWN)
    return Sequence(receiver.form, None, item if empty else join(inside, item))


def _mapping_method(
    receiver: Mapping,
    name: str,
    args: tuple[Value, ...],
    keywords: dict[str, Value],
    node: ast.AST | None,
    frame: Frame,
) -> Value:
    if name in ("get", "pop", "setdefault") and args:
        default = args[1] if len(args) > 1 else NONE
        if isinstance(args[0], Const):
            for key, value in receiver.entries:
                if key == args[0].value:
                    return value
            if receiver.unlisted == UNKNOWN and receiver.entries:
                return default
            # `kwargs.get("debug", False)` asks for a flag, whatever else the dict holds.
            return (
                Scalar("bool")
                if isinstance(default, Const) and default.type == "bool"
                else join(receiver.unlisted, default)
            )
        # The default tells what sort of thing is asked for.
        return join(element_of(receiver) if default == NONE or gives_tensors(default) else UNKNOWN, default)
    if name == "values":
        return Sequence("iterator", None, element_of(receiver))
    if name == "keys":
        return Sequence("set", None, join_all(Const(key) for key, _ in receiver.entries))
    if name == "items":
        keys = join_all(Const(key) for key, _ in receiver.entries)
        return Sequence("iterator", None, Sequence("tuple", (keys, element_of(receiver))))
    if name == "update":
        other = args[0] if args and isinstance(args[0], Mapping) else Mapping()
        entries: dict[object, Value] = dict(receiver.entries)
        entries.update(other.entries)
        entries.update(keywords.items())
        both = other.element if receiver.empty else join(receiver.element, other.element)
        _rebind(node, Mapping(tuple(entries.items()), receiver.element if other.empty else both), frame)
        return NONE
    return receiver if name == "copy" else UNKNOWN


def _string_method(receiver: Const | Scalar, name: str, args: tuple[Value, ...]) -> Value:
    if name == "split" and len(args) == 1 and isinstance(receiver, Const) and isinstance(args[0], Const):
        text, separator = receiver.value, args[0].value
        if isinstance(text, str) and isinstance(separator, str) and separator:
            return Sequence("list", tuple(map(constant, text.split(separator))))
    if name.startswith(("is", "starts", "ends")):
        return Scalar("bool")
    if name in ("split", "rsplit", "splitlines", "partition"):
        return Sequence("list", None, Scalar("str"))
    return Scalar("int") if name in ("find", "index", "count") else Scalar("str")


def _instance_method(
    receiver: ExternalInstance,
    name: str,
    args: tuple[Value, ...],
    keywords: dict[str, Value],
    node: ast.AST | None,
    frame: Frame,
) -> Value:
    if receiver.name in ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict"):
        if name in ("append", "insert", "add_module") and args:
            _rebind(node, ExternalInstance(receiver.name, (*receiver.items, args[-1])[:32]), frame)
            return receiver
        if name == "extend" and args:
            _rebind(node, ExternalInstance(receiver.name, (*receiver.items, element_of(args[0]))[:32]), frame)
            return receiver
        if name in ("values", "children"):
            return Sequence("iterator", None, join_all(receiver.items))
        if name == "items":
            return Sequence("iterator", None, Sequence("tuple", (Scalar("str"), join_all(receiver.items))))
        if name == "keys":
            return Sequence("iterator", None, Scalar("str"))
    if name in FORWARD_HOOKS and args:
        frame.tracer.hooks.append((frame.module.name, args[0], name))
    if name in ("forward", "__call__"):
        return library.call_instance(receiver, args, keywords, node, frame)
    if name == "apply" and receiver.name.startswith("torch.nn."):
        _apply(args, node, frame)
        return receiver
    if name in ("to", "cuda", "cpu", "eval", "train", "half", "float", "requires_grad_") and receiver.name.startswith(
        "torch."
    ):
        return receiver
    return library.call(f"{receiver.name}.{name}", args, keywords, node, frame)


def _apply(args: tuple[Value, ...], node: ast.AST | None, frame: Frame) -> None:
    """`module.apply(fn)`, in code that Dynamo traces or around it, calls `fn` with one submodule after another."""
    if args and frame.mode in ("compiled", "host", "driving"):
        frame.tracer.call(args[0], (UNKNOWN,), {}, node, frame)


def _is_part(value: Value) -> bool:
    """Whether an attribute of a module is a module."""
    return isinstance(value, (Instance, ExternalInstance)) and gives_module(value)


def module_method(
    receiver: Instance,
    name: str,
    args: tuple[Value, ...],
    keywords: dict[str, Value],
    node: ast.AST | None,
    frame: Frame,
) -> Value:
    """Methods that a module inherits from torch.nn.Module: registration sets attributes, moves return the module."""
    if name in FORWARD_HOOKS and args:
        frame.tracer.hooks.append((frame.module.name, args[0], name))
        return ExternalInstance("torch.utils.hooks.RemovableHandle")
    if name in ("register_buffer", "register_parameter", "add_module", "register_module") and args:
        value = (
            args[1] if len(args) > 1 else keywords.get("tensor", keywords.get("param", keywords.get("module", NONE)))
        )
        if name == "register_buffer" and isinstance(value, Tensor):
            value = Tensor(
                value.element, value.rank, value.sure, sparse=value.sparse
            )  # a buffer goes to the GPU with its model
        if isinstance(node, ast.Call) and node.args:
            built_names.write(receiver, built_names.name_of(node.args[0], frame), value, frame)
        return NONE
    if name == "compile":
        frame.tracer.compile_site(receiver, keywords, node, frame)
        receiver.compiled = True
        return NONE
    if name == "apply":
        _apply(args, node, frame)
        return receiver
    if name in ("to", "cuda", "cpu", "eval", "train", "half", "float", "bfloat16", "requires_grad_"):
        return receiver
    if name in ("parameters", "buffers", "named_parameters", "named_buffers"):
        item = Tensor("float" if name.endswith("parameters") else None)
        return Sequence("generator", None, Sequence("tuple", (Scalar("str"), item)) if "named" in name else item)
    if name in ("children", "named_children"):
        part = join_all([*filter(_is_part, receiver.attributes.modules()), UNKNOWN])
        return Sequence("generator", None, Sequence("tuple", (Scalar("str"), part)) if "named" in name else part)
    if name == "__setattr__" and len(args) == 2 and isinstance(args[0], Const):
        frame.tracer.keep(receiver, str(args[0].value), args[1], alone=True)
        return NONE
    bases = (base for base in frame.tracer.program.mro(receiver.ref) if isinstance(base, str))
    base = next((base for base in bases if base.startswith(library.DISTRIBUTIONS)), None)
    return UNKNOWN if base is None else library.call(f"{base}.{name}", args, keywords, node, frame)
