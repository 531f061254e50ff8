"""Objects: what constructing a class of the project gives, and what its attributes hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from compilelint.static.facts.questions import assigned_once, stored_names
from compilelint.static.project.definitions import (
    ClassAttribute,
    ClassRef,
    FunctionRef,
    assigned_from_outside,
    assigned_in,
    class_members,
    constructed_in,
)
from compilelint.static.project.enums import is_enum, is_text_enum
from compilelint.static.project.index import FunctionNode
from compilelint.static.project.parts import GIVEN, OUTSIDE
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer import validators
from compilelint.static.tracer.annotations import value_of_annotation
from compilelint.static.tracer.attributes import ITEMS
from compilelint.static.tracer.binding import root_arguments
from compilelint.static.tracer.claims import contradicts
from compilelint.static.tracer.frame import Frame, Mode, key_of
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Class,
    Compiled,
    Function,
    Instance,
    Scalar,
    Sequence,
    Tensor,
    Union,
    Value,
    element_of,
    join,
    join_all,
    options,
)

if TYPE_CHECKING:
    from compilelint.static.tracer.tracer import Tracer

MAX_SITES = 4
"""Assignments looked at for an attribute that `__init__` does not set."""
MAX_STEPS = 3
"""How far an argument of a constructor is followed through the variables of the function that passes it."""
_UNIONS = (ast.BinOp, ast.Subscript, ast.Constant)
"""How an annotation is written that names several kinds: `int | Tensor`, `Union[int, Tensor]`, either in quotes."""
_AFTER_FIELDS = ("__post_init__", "__attrs_post_init__")
"""What the `__init__` that `dataclasses` and `attrs` write calls when all fields are set."""
_LISTS = frozenset({"list", "tuple", "builtins.list", "builtins.tuple", "collections.UserList"})
MAX_INSTANCES = 24
"""A class constructed in more ways than this shares one instance from then on."""


class Constructions:
    """Every instance made so far: one per class and argument kinds."""

    def __init__(self) -> None:
        self._made: dict[object, Instance] = {}
        self._count: dict[ClassRef, int] = {}
        self._bare: dict[ClassRef, Instance] = {}

    def construct(
        self, ref: ClassRef, args: tuple[Value, ...], keywords: dict[str, Value], node: ast.AST | None, caller: Frame
    ) -> Value:
        """See `Tracer.construct`."""
        tracer = caller.tracer
        if is_enum(ref, tracer.program):
            return self.bare(ref, caller) if is_text_enum(ref, tracer.program) else UNKNOWN
        mode = _mode(ref, node, caller)
        key = (ref, args, key_of(keywords), caller.mode == "compiled", mode)  # what Dynamo traces is looked at as such
        found = self._made.get(key)
        if found is not None:
            return found
        if self._count.get(ref, 0) >= MAX_INSTANCES:
            return self.bare(ref, caller)
        self._count[ref] = self._count.get(ref, 0) + 1
        instance = self._new(ref, tracer, traced=caller.mode == "compiled")
        self._made[key] = instance
        self._fill(instance, args, keywords, mode, node, caller)
        return instance

    def bare(self, ref: ClassRef, caller: Frame) -> Instance:
        """An instance of which only the class is known.

        `__init__` is walked with what its signature says, and with the objects that the file passes where it makes one.
        """
        if ref not in self._bare:
            instance = self._new(ref, caller.tracer, traced=False)
            self._bare[ref] = instance
            given = {"*": UNKNOWN, "**": UNKNOWN, **_given(ref, caller.tracer)}
            self._fill(instance, (), given, _mode(ref, None, caller), None, caller)
        return self._bare[ref]

    def _new(self, ref: ClassRef, tracer: Tracer, *, traced: bool) -> Instance:
        outside = any(isinstance(base, str) and base not in ("object", "abc.ABC") for base in tracer.program.mro(ref))
        is_module = tracer.program.is_module(ref)
        return Instance(ref, is_module=is_module, has_outside_base=outside, traced=traced)

    def _fill(
        self,
        instance: Instance,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        mode: Mode,
        node: ast.AST | None,
        caller: Frame,
    ) -> None:
        tracer = caller.tracer
        member = tracer.program.method(instance.ref, "__init__")
        traced = mode == "compiled"
        made_by = tracer.program.method(instance.ref, "__new__")
        if traced and isinstance(made_by, FunctionRef) and caller.depth < 24:
            tracer.run(Function(made_by), (Class(instance.ref), *args), keywords, mode, node, caller)
        if isinstance(member, FunctionRef):
            if caller.depth < 24:
                tracer.run(Function(member, instance), args, keywords, mode, node, caller)
            if not traced:
                instance.attributes.keep_as(as_kept)
            return
        for position, (name, value) in enumerate(fields_of(instance.ref, tracer)):
            given = args[position] if position < len(args) else keywords.get(name)
            instance.attributes[name] = value if given is None or contradicts(given, value, tracer) else given
        if args and any(isinstance(base, str) and base in _LISTS for base in tracer.program.mro(instance.ref)):
            # What is appended later is not known.
            instance.attributes[ITEMS] = join_all([*map(element_of, options(args[0])), UNKNOWN])
        for name in _AFTER_FIELDS:
            checks = tracer.program.method(instance.ref, name)
            if isinstance(checks, FunctionRef) and caller.depth < 24:
                tracer.run(Function(checks, instance), (), {"*": UNKNOWN, "**": UNKNOWN}, mode, node, caller)
        if mode == "compiled" and caller.depth < 24:
            for validator, validated in validators.of(instance, tracer.program):
                tracer.run(validator, (validated,), {"*": UNKNOWN, "**": UNKNOWN}, mode, node, caller)


def _mode(ref: ClassRef, node: ast.AST | None, caller: Frame) -> Mode:
    """How what a class does when it is called runs: what a loop around a model makes anew on each turn, as the turn.

    What is made inside a region is traced by Dynamo, a module's `__init__` too.
    """
    if caller.mode == "compiled":
        return "construct" if _is_made_in_graph(ref, caller.tracer) else "compiled"
    return "construct" if caller.tracer.program.is_module(ref) else caller.turn_at(node) or "construct"


def _is_made_in_graph(ref: ClassRef, tracer: Tracer) -> bool:
    """Whether Dynamo puts the call of a class into the graph and looks into neither `__new__` nor `__init__`.

    It does where the class is a wrapper of tensors that can be taken apart and put together again
    (`is_traceable_wrapper_subclass_type`, measured on 2.11, 2.13 and 2.14).
    """
    both = ("__tensor_flatten__", "__tensor_unflatten__")
    return all(isinstance(tracer.program.method(ref, name), FunctionRef) for name in both)


def _given(ref: ClassRef, tracer: Tracer) -> dict[str, Value]:
    """The parameters of a class's constructor that its file always passes objects for, with these.

    Numbers and flags are left out: other files may pass others.
    """
    module, member = tracer.program.module(ref.module), tracer.program.method(ref, "__init__")
    if module is None or not isinstance(member, FunctionRef):
        return {}
    tracer.program.note(module.name, GIVEN, ref.qualname)
    sites = constructed_in(module, ref.qualname)
    found: dict[str, list[Value]] = {}
    for call, scope in sites if len(sites) <= MAX_SITES else ():
        frame = tracer.module_frame(module)
        for name, argument in _arguments(call, member):
            found.setdefault(name, []).append(value_at(argument, scope, frame))
    return {
        name: join_all(values)
        for name, values in found.items()
        if len(values) == len(sites) and all(isinstance(o, (Instance, Compiled)) for v in values for o in options(v))
    }


def numbers_of_part(forward: FunctionRef, ref: ClassRef, tracer: Tracer) -> dict[str, Value]:
    """The parameters of a submodule's `forward` that are declared as a number or a tensor: numbers, if on its own.

    Where another constructor of its file makes it, what the model passes is seen in the model's regions: `length: int |
    Tensor` is a tensor for the submodule then only if it is one there.
    """
    module, home = tracer.program.module(ref.module), tracer.program.module(forward.module)
    parameters = (*forward.node.args.args, *forward.node.args.kwonlyargs)
    declared = {p.arg: p.annotation for p in parameters if isinstance(p.annotation, _UNIONS)}
    if module is None or home is None or not declared:
        return {}
    tracer.program.note(module.name, GIVEN, ref.qualname)
    if not any(getattr(scope, "name", "") == "__init__" for _, scope in constructed_in(module, ref.qualname)):
        return {}
    found = {name: options(tracer.annotation(annotation, home)) for name, annotation in declared.items()}
    return {
        name: join_all(kind for kind in kinds if not isinstance(kind, Tensor))
        for name, kinds in found.items()
        if any(isinstance(kind, Scalar) for kind in kinds) and any(isinstance(kind, Tensor) for kind in kinds)
    }


def _arguments(call: ast.Call, init: FunctionRef) -> Iterator[tuple[str, ast.expr]]:
    """What a call passes to a constructor, by parameter, as far as it is written out."""
    names = [parameter.arg for parameter in (*init.node.args.posonlyargs, *init.node.args.args)][1:]
    for name, argument in zip(names, call.args, strict=False):
        if isinstance(argument, ast.Starred):
            break
        yield name, argument
    yield from ((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg is not None)


def value_at(node: ast.expr, scope: FunctionNode | None, frame: Frame, depth: int = 0) -> Value:
    """An expression on its own, with the variables in it that its function assigns once."""
    own = _names_of(scope) if scope is not None else frozenset[str]()
    for part in nodes_in(node):
        if scope is not None and isinstance(part, ast.Name) and part.id in own and part.id not in frame.env:
            made = assigned_once(scope, part.id) if depth < MAX_STEPS else None
            frame.env[part.id] = UNKNOWN if made is None else value_at(made, scope, frame, depth + 1)
    return frame.tracer.evaluate(node, frame)


def _names_of(scope: FunctionNode) -> frozenset[str]:
    return stored_names(scope).union(node.arg for node in nodes_in(scope.args) if isinstance(node, ast.arg))


def as_kept(value: Value) -> Value:
    """What is kept of a number that was read back before compiled code runs: a plain number, read once and for all."""
    if isinstance(value, Sequence):
        items = None if value.items is None else tuple(map(as_kept, value.items))
        return Sequence(value.form, items, as_kept(value.element), tuple(map(as_kept, value.head)))
    if isinstance(value, Scalar):
        return Scalar(value.type) if value.origin == "tensor" else value
    return join_all(map(as_kept, value.options)) if isinstance(value, Union) else value


def fields_of(ref: ClassRef, tracer: Tracer) -> list[tuple[str, Value]]:
    """The annotated fields of a dataclass-like class with their declared kinds, bases first."""
    fields: dict[str, Value] = {}
    for owner in reversed(tracer.program.mro(ref)):
        module = tracer.program.module(owner.module) if isinstance(owner, ClassRef) else None
        if module is None or not isinstance(owner, ClassRef):
            continue
        for name, member in class_members(owner).items():
            if isinstance(member, ClassAttribute) and member.annotation is not None:
                declared = value_of_annotation(member.annotation, module, tracer)
                default = tracer.class_value(member) if member.value is not None else None
                fields[name] = declared if default is None else join(declared, default)
    return list(fields.items())


def assigned_elsewhere(owner: Instance, name: str, tracer: Tracer) -> Value | None:
    """See `Tracer.assigned_elsewhere`: the first few `self.name = …`, or else what the file assigns from outside."""
    classes = [ref for ref in tracer.program.mro(owner.ref) if isinstance(ref, ClassRef)]
    for ref in classes:
        tracer.program.note(ref.module, "assigned", ref.qualname, ref.node.lineno)
    sites = [site for ref in classes for site in assigned_in(ref, name)]
    found = [_value_in_method(value, method, owner, tracer) for method, value in sites[:MAX_SITES]]
    module = tracer.program.module(owner.ref.module)
    if module is not None and all(value == NONE for value in found):
        frame = tracer.module_frame(module)
        tracer.program.note(module.name, OUTSIDE, name)
        outside = assigned_from_outside(module, name)
        found += [tracer.evaluate(value, frame) for value in outside[:MAX_SITES]]
    return join_all(found) if found else None


def _value_in_method(node: ast.expr, method: FunctionRef, owner: Instance, tracer: Tracer) -> Value:
    """The assigned expression on its own, with the method's parameters as its signature declares them, those of a
    module's `forward` as it is called."""
    module = tracer.program.module(method.module)
    if module is None:
        return UNKNOWN
    frame = tracer.module_frame(module)
    called = owner.is_module and method.qualname.endswith(".forward")
    tracer.program.note(method.module, "body", line=method.node.lineno)
    given = root_arguments(method, True, tracer.table) if called else {}
    for parameter in method.node.args.args[1:]:
        declared = (
            UNKNOWN if parameter.annotation is None else value_of_annotation(parameter.annotation, module, tracer)
        )
        frame.env[parameter.arg] = given.get(parameter.arg, declared)
    if method.node.args.args:
        frame.env[method.node.args.args[0].arg] = owner
    return value_at(node, None if isinstance(method.node, ast.Lambda) else method.node, frame)
