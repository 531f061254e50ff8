"""Parameters without a type whose use fits one class: `cache.key`, `cache.next_index` on a parameter `cache`."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

from compilelint.static.project.definitions import ClassRef, FunctionRef, assigned_names, class_members
from compilelint.static.project.enums import is_enum
from compilelint.static.project.index import Import, ModuleIndex, Scope
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import UNKNOWN, Function, Value

if TYPE_CHECKING:
    from compilelint.static.tracer.tracer import Tracer


def class_by_use(parameter: str, scope: Scope, module: ModuleIndex, tracer: Tracer) -> Value:
    """An instance of the one class in sight of `module` that has every attribute the body reads from `parameter`.

    UNKNOWN unless exactly one class fits. A single attribute is enough only where the class is named like the
    parameter, or stands in the same file and the attribute is none that everything has.
    """
    names = attributes_of(scope).get(parameter)
    if not names:
        return UNKNOWN
    fitting = [ref for ref, members in tracer.classes_in_sight(module) if names <= members]
    alike = [ref for ref in fitting if _named_like(ref, parameter)]
    if len(alike) == 1:
        return tracer.instance_of(alike[0])
    if len(fitting) != 1:
        return UNKNOWN
    telling = len(names) > 1 or (fitting[0].module == module.name and not any(_is_common(n, tracer) for n in names))
    return tracer.instance_of(fitting[0]) if telling else UNKNOWN


def class_with(attribute: str, module: ModuleIndex, tracer: Tracer) -> Value:
    """An instance of the one class in sight of `module` that has an attribute which little else has; else UNKNOWN."""
    fitting = [ref for ref, members in tracer.classes_in_sight(module) if attribute in members]
    alone = len(fitting) == 1 and not _is_common(attribute, tracer)
    return tracer.instance_of(fitting[0]) if alone else UNKNOWN


CALLED_BACK = ("on_", "before_", "after_", "pre_", "post_")
"""How methods begin that a loop calls on whatever objects it was given, each when its time has come."""


def methods_called_back(name: str, module: ModuleIndex, tracer: Tracer) -> list[Function]:
    """The methods of that name, bound, of all classes in sight of `module`, where the name is one for callbacks."""
    fitting = [ref for ref, members in tracer.classes_in_sight(module) if name in members]
    found: list[Function] = []
    for ref in fitting if name.startswith(CALLED_BACK) else ():
        method = tracer.program.method(ref, name)
        if isinstance(method, FunctionRef):
            found.append(Function(method, tracer.instance_of(ref)))
    return found


def _is_common(name: str, tracer: Tracer) -> bool:
    """Whether tensors, lists, dicts or strings have an attribute of that name too."""
    return tracer.table.fact(f"torch.Tensor.{name}") is not None or any(
        hasattr(t, name) for t in (list, dict, str, set)
    )


def _named_like(ref: ClassRef, parameter: str) -> bool:
    return ref.qualname.lower().endswith(parameter.lower().strip("_").replace("_", ""))


@cache
def attributes_of(scope: Scope) -> dict[str, frozenset[str]]:
    """The attributes that a function's body reads or sets, by the variable that they are of."""
    found: dict[str, set[str]] = {}
    for node in nodes_in(scope):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return {name: frozenset(attributes) for name, attributes in found.items()}


def classes_in_sight(module: ModuleIndex, tracer: Tracer) -> list[tuple[ClassRef, frozenset[str]]]:
    """The classes a file defines or imports by name, each with every attribute it is known to have."""
    found: list[tuple[ClassRef, frozenset[str]]] = []
    for name, binding in module.bindings.items():
        if isinstance(binding, ast.ClassDef) or (isinstance(binding, Import) and name[:1].isupper()):
            definition = tracer.program.resolve(module, name)
            if isinstance(definition, ClassRef) and not is_enum(definition, tracer.program):
                found.append((definition, _members(definition, tracer)))
    return found


def _members(ref: ClassRef, tracer: Tracer) -> frozenset[str]:
    """Every attribute a class is known to have: methods, class-level names, and what its methods assign."""
    names: set[str] = set()
    for owner in tracer.program.mro(ref):
        if isinstance(owner, ClassRef):
            tracer.program.note(owner.module, "assigned", owner.qualname, owner.node.lineno)
            names |= class_members(owner).keys() | assigned_names(owner)
    return frozenset(names)
