"""What a name is where the library that it hangs on may be absent: see `ModuleIndex.otherwise`."""

from __future__ import annotations

import ast

from compilelint.static.project.index import Import, ModuleIndex
from compilelint.static.project.naming import is_library
from compilelint.static.project.program import MAX_IMPORT_HOPS, Program
from compilelint.static.values import External, Value, constant, join


def imported(value: External, module: ModuleIndex, name: str, program: Program) -> Value:
    """What `name` of `module` holds, which imports `value` from outside the project, maybe by way of other files."""
    for _ in range(MAX_IMPORT_HOPS):
        binding = module.bindings.get(name)
        if name in module.otherwise or not isinstance(binding, Import) or is_library(binding.module):
            break
        following = program.module(binding.module) if binding.attribute else None
        if following is None:
            break
        module, name = following, binding.attribute
    return or_otherwise(value, module, name)


def or_otherwise(value: Value, module: ModuleIndex, bound: str | ast.expr) -> Value:
    """`value`, or the constant that stands for it in the handler of the `try` that binds it."""
    other = module.otherwise.get(bound)
    return value if other is None else join(value, constant(other.value))
