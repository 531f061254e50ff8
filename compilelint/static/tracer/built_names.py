"""Attributes whose names are put together: `setattr(self, f"conv{i}", layer)`, `getattr(self, kind + "_reduction")`."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase

from compilelint.static.facts.questions import assigned_once
from compilelint.static.project.definitions import ClassRef, class_members
from compilelint.static.tracer import attributes
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import UNKNOWN, Const, Instance, Value, join_all, options

MIN_KNOWN = 3
"""A pattern with fewer letters known than this says nothing."""
MAX_FITTING = 12
"""Nor does one that more attributes fit."""
_PLACE = re.compile(r"\{[^{}]*\}|%\w")


def name_of(node: ast.expr, frame: Frame) -> str:
    """The name that an expression gives, with `*` for what is not known of it; just `*` where too little is."""
    value = frame.kind(node)
    if isinstance(value, Const) and isinstance(value.value, str):
        return value.value
    if isinstance(node, ast.Name):
        made = assigned_once(frame.ref.node, node.id)
        node = node if made is None else made
    pattern = re.sub(r"\*+", "*", _pattern(node, frame))
    return pattern if len(pattern.replace("*", "").strip("_")) >= MIN_KNOWN else "*"


def _pattern(node: ast.expr, frame: Frame) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(part, frame) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        value = frame.kind(node.value)
        return str(value.value) if isinstance(value, Const) and node.format_spec is None else "*"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _pattern(node.left, frame) + _pattern(node.right, frame)
    template = _template(node)
    if template is not None:
        return _PLACE.sub("*", template)
    value = frame.kind(node)
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else "*"


def _template(node: ast.expr) -> str | None:
    """The text of `"conv%d" % i` and of `"conv{}".format(i)`."""
    text: ast.expr | None = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        text = node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        text = node.func.value
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else None


def read(owner: Value, pattern: str, frame: Frame) -> Value:
    """What `getattr(owner, name)` gives for a name of which the pattern is known."""
    return join_all(_read(option, pattern, frame) for option in options(owner))


def _read(owner: Value, pattern: str, frame: Frame) -> Value:
    if not isinstance(owner, Instance) or pattern == "*":
        return UNKNOWN
    names = set(owner.attributes.names())
    for ref in frame.tracer.program.mro(owner.ref):
        names |= class_members(ref).keys() if isinstance(ref, ClassRef) else set()
    fitting = sorted(name for name in names if name == pattern or ("*" not in name and fnmatchcase(name, pattern)))
    if len(fitting) > MAX_FITTING:
        return UNKNOWN
    return join_all(owner.attributes[name] if "*" in name else attributes.get(owner, name, frame) for name in fitting)


def write(owner: Value, pattern: str, value: Value, frame: Frame) -> None:
    """Keep a value with an object under a name of which the pattern is known."""
    for option in options(owner):
        if isinstance(option, Instance) and pattern != "*":
            frame.tracer.keep(option, pattern, value)
