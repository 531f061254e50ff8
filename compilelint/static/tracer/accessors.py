"""What `object.name = value` runs where the class says so: a property's setter, or `__set__` of a descriptor."""

from __future__ import annotations

import ast

from compilelint.static.project.definitions import ClassAttribute, FunctionRef, setter_in
from compilelint.static.tracer.frame import Frame
from compilelint.static.tracer.overloads import own_method
from compilelint.static.values import Function, Instance, Value


def stores(owner: Instance, name: str, value: Value, node: ast.AST, frame: Frame) -> bool:
    """Walk what an assignment to an attribute runs, if anything; the object then has no such attribute of its own."""
    member = frame.tracer.program.method(owner.ref, name)
    if isinstance(member, FunctionRef):
        setter = setter_in(member)
        if setter is not None:
            frame.tracer.call(Function(setter, owner), (value,), {}, node, frame)
        return setter is not None
    if not isinstance(member, ClassAttribute) or not isinstance(member.value, ast.Call):
        return False
    return own_method(frame.tracer.class_value(member), "__set__", (owner, value), node, frame) is not None
