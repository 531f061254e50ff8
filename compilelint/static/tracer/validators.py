"""The functions that pydantic calls to validate the fields of a model that is being made.

Its Rust code calls them, so each is a frame of its own when a model is made while Dynamo traces. Dynamo compiles those
that are passed a tensor; what gets the model itself, as `model_post_init` does, it leaves to Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.static.project.definitions import ClassRef, FunctionRef, class_members
from compilelint.static.project.program import Program
from compilelint.static.values import UNKNOWN, Class, Function, Instance, Value, gives_tensors, join_all

MODEL = "pydantic.BaseModel"
_OF_FIELDS = frozenset({"field_validator", "validator"})


def of(instance: Instance, program: Program) -> Iterator[tuple[Function, Value]]:
    """The validators of a model's fields that get a tensor, and what each gets."""
    order = program.mro(instance.ref)
    for owner in order if MODEL in order else ():
        if not isinstance(owner, ClassRef):
            continue
        program.note(owner.module, "class", owner.qualname, owner.node.lineno)
        for member in class_members(owner).values():
            validated = _validated(member.node, instance) if isinstance(member, FunctionRef) else UNKNOWN
            if isinstance(member, FunctionRef) and gives_tensors(validated):
                yield Function(member, Class(instance.ref)), validated


def _validated(node: ast.AST, instance: Instance) -> Value:
    """What the fields hold that a function's decorator names; unknown for one that validates none."""
    for decorator in getattr(node, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] in _OF_FIELDS:
            names = [part.value for part in decorator.args if isinstance(part, ast.Constant)]
            fields = [instance.attributes.get(name) for name in names if isinstance(name, str)]
            return join_all(value for value in fields if value is not None)
    return UNKNOWN
