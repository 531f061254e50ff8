"""Value kinds in words, for `compilelint explain` and for messages."""

from __future__ import annotations

from compilelint.static.values import (
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
    ProjectModule,
    Scalar,
    Sequence,
    Super,
    Tensor,
    Union,
    Unknown,
    Value,
    element_of,
    join_all,
)

_ORIGINS = {
    "shape": " from a shape",
    "tensor": " read back from a tensor",
    "argument": " passed in",
    "drawn": " drawn at random",
    "python": "",
}


def describe(value: Value, depth: int = 0) -> str:
    """A value in a few words: `a tensor of bool`, `None or a tensor (by annotation or use)`, `an int from a shape`."""
    if isinstance(value, Unknown):
        return "unknown"
    if isinstance(value, Union):
        return " or ".join(describe(option, depth) for option in value.options)
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, Array):
        return f"a numpy array{f' of {value.element}' if value.element else ''}"
    if isinstance(value, Const):
        return repr(value.value)
    if isinstance(value, Scalar):
        name = {"object": "a Python object", "number": "a number"}.get(value.type, f"a Python {value.type}")
        return f"{name}{_ORIGINS[value.origin]}"
    return _container(value, depth) or _object(value)


def _tensor(value: Tensor) -> str:
    what = "a scalar tensor" if value.rank == 0 else "a tensor"
    parts = [what, f" of {value.element}" if value.element else "", " on the CPU" if value.host else ""]
    return "".join(parts) + ("" if value.sure else " (by annotation or use)")


def _container(value: Value, depth: int) -> str:
    if isinstance(value, Sequence):
        if value.items is not None and depth == 0:
            inside = ", ".join(describe(item, depth + 1) for item in value.items[:4])
            more = f", {len(value.items) - 4} more" if len(value.items) > 4 else ""
            return f"a {value.form} of ({inside}{more})"
        return f"a {value.form} of {describe(element_of(value), depth + 1) if depth < 2 else '…'}"
    if isinstance(value, Mapping):
        entry = join_all([*(entry for _, entry in value.entries), value.element])
        return f"a dict of {describe(entry, depth + 1) if depth < 2 else '…'}"
    return ""


def _object(value: Value) -> str:
    if isinstance(value, (External, ProjectModule)):
        return f"`{value.name}`"
    if isinstance(value, ExternalInstance):
        return f"a `{value.name}`"
    if isinstance(value, Function):
        return f"the function `{value.ref.qualname}` ({value.ref.module}:{value.ref.line})"
    if isinstance(value, Class):
        return f"the class `{value.ref.qualname}`"
    if isinstance(value, Instance):
        return f"a `{value.ref.qualname}` ({value.ref.module}:{value.ref.node.lineno})"
    if isinstance(value, Method):
        return f"the method `{value.name}` of {describe(value.receiver, 1)}"
    if isinstance(value, Compiled):
        return f"compiled: {describe(value.inner, 1)}"
    if isinstance(value, Partial):
        return f"partial of {describe(value.function, 1)}"
    return "super()" if isinstance(value, Super) else "unknown"
