"""`value.name` and iteration, for every kind of value."""

from __future__ import annotations

import ast
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, lru_cache

from compilelint.static.project.definitions import ClassAttribute, ClassRef, FunctionRef, class_inside
from compilelint.static.project.enums import is_enum, is_text_enum
from compilelint.static.project.index import Scope
from compilelint.static.project.program import Program
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer.frame import Frame
from compilelint.static.tracer.grammar import value_of_return
from compilelint.static.tracer.placeholders import has_empty_places, with_places_filled
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
    ProjectModule,
    Scalar,
    Sequence,
    Super,
    Tensor,
    Union,
    Value,
    element_of,
    join,
    join_all,
    options,
)

AUTOGRAD_CONTEXT = "torch.autograd.function.FunctionCtx"
ITEMS = "*items"
"""Under which name an object of a class that is a list keeps what it was made of."""
_SAME_TENSOR = frozenset({"T", "mT", "H", "mH", "data", "real", "imag", "grad"})
_TENSOR_ATTRIBUTES: dict[str, Value] = {
    "shape": Sequence("size", None, Scalar("int", "shape")),
    "ndim": Scalar("int"),
    "dtype": Scalar("object"),
    "device": Scalar("object"),
    "layout": Scalar("object"),
    "itemsize": Scalar("int"),
    "nbytes": Scalar("int", "shape"),
    "names": Scalar("object"),
    "grad_fn": Scalar("object"),
}
_OF_NONE = frozenset(dir(None))
_FIELDS = {"values": 0, "indices": 1}
"""What torch calls the parts of the pairs that `max`, `sort`, `topk` and their like return."""
_OF_GENERATORS = frozenset({"send", "throw", "close", "__next__"})
_OF_DICTS = frozenset({*dir(defaultdict), *dir(OrderedDict), *dir(Counter)})
_OF_SEQUENCES = frozenset({*dir(list), *dir(tuple), *dir(set), *dir(deque), *dir(range), *_OF_GENERATORS, "numel"})
_ARRAY_ATTRIBUTES: dict[str, Value] = {
    "shape": Sequence("tuple", None, Scalar("int", "shape")),
    "ndim": Scalar("int"),
    "size": Scalar("int", "shape"),
    "dtype": Scalar("object"),
}


def get(owner: Value, name: str, frame: Frame) -> Value:
    """What `owner.name` is."""
    if not isinstance(owner, Union):
        return _get(owner, name, frame)
    # Of what may be None the code goes on only where it isn't.
    return join_all(_get(option, name, frame) for option in owner.options if option != NONE or name in _OF_NONE)


def _get(owner: Value, name: str, frame: Frame) -> Value:
    if isinstance(owner, Tensor):
        return _of_tensor(owner, name, frame)
    if isinstance(owner, Array):
        known = _ARRAY_ATTRIBUTES.get(name)
        return known if known is not None else (Array(owner.element) if name == "T" else Method(owner, name))
    if isinstance(owner, Instance):
        return frame.tracer.attribute(owner, name, frame)
    if isinstance(owner, External):
        return External(f"{owner.name}.{name}")
    if isinstance(owner, ProjectModule):
        return frame.tracer.member_value(owner.name, name)
    if isinstance(owner, Class):
        return _of_class(owner, name, frame)
    if isinstance(owner, Super):
        return _of_super(owner, name, frame)
    if isinstance(owner, Compiled):
        return Compiled(owner.inner) if name in ("forward", "__call__") else _get(owner.inner, name, frame)
    if isinstance(owner, ExternalInstance):
        return _of_external_instance(owner, name)
    if isinstance(owner, Function) and name == "__qualname__":
        return Const(owner.ref.qualname)
    if isinstance(owner, (Function, Partial)):
        return owner if name in ("__call__", "__func__", "__wrapped__") else UNKNOWN
    if isinstance(owner, Sequence) and owner.form == "tuple" and name in _FIELDS and owner.items is not None:
        return owner.items[_FIELDS[name]] if len(owner.items) == 2 else element_of(owner)
    if isinstance(owner, (Sequence, Mapping)):
        return Method(owner, name) if name in _of_collection(owner) else UNKNOWN
    if isinstance(owner, (Const, Scalar)) and owner.type == "str":
        return Method(owner, name)
    return Scalar("object") if isinstance(owner, Scalar) else UNKNOWN


def _of_collection(owner: Sequence | Mapping) -> frozenset[str]:
    """What collections like this one have; other attributes are those of a class of its own, such as a namespace's."""
    return _OF_DICTS if isinstance(owner, Mapping) else _OF_SEQUENCES


def _of_tensor(owner: Tensor, name: str, frame: Frame) -> Value:
    if name in _TENSOR_ATTRIBUTES:
        return _TENSOR_ATTRIBUTES[name]
    if name in _SAME_TENSOR:
        if name == "grad":
            return join(owner, NONE)
        return owner if name == "data" else Tensor(owner.element, None, owner.sure, owner.host)
    fact = frame.tracer.table.fact(f"torch.Tensor.{name}")
    if fact is not None and "get" in fact.probes:
        return value_of_return(fact.returns, owner)
    if name.startswith(("is_", "requires_grad", "retains_grad")) and name not in _METHODS_LIKE_PROPERTIES:
        return Scalar("bool")
    return Method(owner, name)


_METHODS_LIKE_PROPERTIES = frozenset(
    (
        "is_complex is_floating_point is_nonzero is_same_size is_signed is_contiguous is_conj is_inference is_neg "
        "is_pinned is_set_to is_shared is_coalesced is_distributed requires_grad_"
    ).split()
)


def of_instance(owner: Instance, name: str, frame: Frame) -> Value:
    """See `Tracer.attribute`."""
    value = owner.attributes.get(name)
    if value is not None and value != NONE:
        later = frame.tracer.assigned_elsewhere(owner, f"{name}[]") if has_empty_places(value) else None
        value = value if later is None else with_places_filled(value, later)
        if isinstance(value, Const):
            return _as_turned(_as_driven(value, owner, name, frame), name, frame)
        return join(value, _put_there(owner, name, frame) or value) if isinstance(value, Instance) else value
    if value is not None:  # None to begin with; a method that is not walked may set it before the first call
        later = frame.tracer.assigned_elsewhere(owner, name) or _put_there(owner, name, frame)
        return NONE if later is None else join(NONE, later)
    if name == "training" and owner.is_module:
        return Scalar("bool")
    if name in ("value", "name") and is_text_enum(owner.ref, frame.tracer.program):
        return Scalar("str")
    member = frame.tracer.program.method(owner.ref, name)
    if isinstance(member, FunctionRef):
        return _bind(member, owner, frame)
    if isinstance(member, ClassAttribute):
        return _class_attribute(member, frame)
    if name == "__class__":
        return Class(owner.ref)
    if name == "__dict__":  # every object has one: `__getattr__` is not asked
        return UNKNOWN
    assigned = frame.tracer.assigned_elsewhere(owner, name)
    if assigned is not None:
        return assigned
    built = [owner.attributes[key] for key in owner.attributes.names() if "*" in key and fnmatchcase(name, key)]
    if built:
        return join_all(built)
    fallback = frame.tracer.program.method(owner.ref, "__getattr__")
    if isinstance(fallback, FunctionRef) and not owner.is_module:
        return frame.tracer.call(Function(fallback, owner), (Const(name),), {}, None, frame)
    return Method(owner, name) if owner.is_module or owner.has_outside_base else UNKNOWN


def _as_driven(value: Const, owner: Instance, name: str, frame: Frame) -> Value:
    """A flag, text or number as compiled code finds it where code that drives it sets another one between two calls."""
    write = frame.tracer.driven.changed.get((owner.ref, name)) if frame.mode == "compiled" else None
    if write is None or write.value == value:
        return value
    known = [option for option in options(write.value) if isinstance(option, (Const, Scalar))]
    return join_all([value, *known] if known else [value, Scalar(value.type)])  # type: ignore[arg-type]


def _as_turned(value: Value, name: str, frame: Frame) -> Value:
    """A flag or number as a later call finds it, where the method that reads it changes it: `self.new = False`."""
    if not isinstance(value, Const) or frame.mode == "construct":
        return value
    if isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
        return Scalar(type(value.value).__name__) if name in _numbers_moved(frame.ref.node) else value  # type: ignore[arg-type]
    if not isinstance(value.value, bool) or frame.mode != "compiled":
        return value
    return join(value, Const(not value.value)) if (name, not value.value) in _flags_set(frame.ref.node) else value


@lru_cache(maxsize=1024)
def _numbers_moved(function: Scope) -> frozenset[str]:
    """The attributes of its object that a method counts up or down: `self.seen += 1`."""
    receiver = next((argument.arg for argument in function.args.args), None)
    return frozenset(
        node.target.attr
        for node in nodes_in(function)
        if isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Attribute)
        and isinstance(node.target.value, ast.Name)
        and node.target.value.id == receiver
    )


@lru_cache(maxsize=1024)
def _flags_set(function: Scope) -> frozenset[tuple[str, bool]]:
    """The attributes of its object that a method sets to True or False, each with that."""
    receiver = next((argument.arg for argument in function.args.args), None)
    return frozenset(
        (target.attr, node.value.value)
        for node in nodes_in(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool)
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == receiver
    )


def _put_there(owner: Instance, name: str, frame: Frame) -> Value | None:
    """The object that code which drives compiled functions puts there between two calls, as compiled code finds it."""
    write = frame.tracer.driven.changed.get((owner.ref, name)) if frame.mode == "compiled" else None
    is_object = write is not None and all(isinstance(option, Instance) for option in options(write.value))
    return write.value if write is not None and is_object else None


def _bind(ref: FunctionRef, owner: Instance, frame: Frame) -> Value:
    """A method as seen through an instance: properties are called, static methods stay unbound."""
    names = decorator_names(ref)
    if names & {"property", "cached_property", "functools.cached_property", "lazy_property"}:
        return frame.tracer.call(Function(ref, owner), (), {}, None, frame)
    wrapped = frame.tracer.decorated(ref)
    if "staticmethod" in names:
        return wrapped
    receiver: Value = Class(owner.ref) if "classmethod" in names else owner
    return bind(wrapped, receiver)


def bind(function: Value, receiver: Value) -> Value:
    """`function` with its first argument fixed to `receiver`."""
    if isinstance(function, Function) and function.bound is None:
        return Function(function.ref, receiver, function.closure, function.disabled)
    if isinstance(function, Compiled):
        return Compiled(bind(function.inner, receiver))
    if isinstance(function, (Function, Partial)):
        return function
    return Partial(function, (receiver,))


def decorator_names(ref: FunctionRef) -> frozenset[str]:
    """The decorators of a function as written, without arguments: `property`, `torch.no_grad`, `x.setter`."""
    return _decorators(ref.node)


@cache
def _decorators(node: Scope) -> frozenset[str]:
    names = []
    for decorator in getattr(node, "decorator_list", ()):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(target, (ast.Name, ast.Attribute)):
            names.append(ast.unparse(target))
    return frozenset(names)


def _class_attribute(member: ClassAttribute, frame: Frame) -> Value:
    declared: Value = UNKNOWN
    module = frame.tracer.program.module(member.owner.module)
    if module is not None and member.annotation is not None:
        declared = frame.tracer.annotation(member.annotation, module)
    if member.value is None:
        return declared
    assigned = frame.tracer.class_value(member)
    if declared == UNKNOWN:
        return assigned
    return declared if assigned == UNKNOWN else join(declared, assigned)


def _of_class(owner: Class, name: str, frame: Frame) -> Value:
    if name in ("__name__", "__qualname__"):
        return Const(owner.ref.node.name if name == "__name__" else owner.ref.qualname)
    member = frame.tracer.program.method(owner.ref, name)
    if isinstance(member, FunctionRef):
        value = frame.tracer.decorated(member)
        return bind(value, owner) if "classmethod" in decorator_names(member) else value
    if isinstance(member, ClassAttribute):
        if is_enum(owner.ref, frame.tracer.program):
            return _member(owner.ref, frame)
        return _class_attribute(member, frame)
    inner = class_inside(owner.ref, name)
    if inner is not None:
        return Class(inner)
    outside = [base for base in frame.tracer.program.mro(owner.ref) if isinstance(base, str)]
    if name == "apply" and any(base.startswith("torch.autograd.") for base in outside):
        return Partial(External("torch.autograd.Function.apply"), (owner,))
    return External(f"{outside[0]}.{name}") if outside else UNKNOWN


def _member(ref: ClassRef, frame: Frame) -> Value:
    """A member of an enumeration."""
    return frame.tracer.instance_of(ref) if is_text_enum(ref, frame.tracer.program) else Scalar("object")


def _of_super(owner: Super, name: str, frame: Frame) -> Value:
    receiver = owner.receiver
    ref = receiver.ref if isinstance(receiver, (Instance, Class)) else None
    if ref is None:
        return UNKNOWN
    member = frame.tracer.program.method(ref, name, owner.after)
    if isinstance(member, FunctionRef):
        wrapped = frame.tracer.decorated(member)
        return wrapped if "staticmethod" in decorator_names(member) else bind(wrapped, receiver)
    if isinstance(member, ClassAttribute):
        return _class_attribute(member, frame)
    outside = [base for base in frame.tracer.program.mro(ref) if isinstance(base, str)]
    if name == "__call__" and isinstance(receiver, Instance) and receiver.is_module:
        return get(receiver, "forward", frame)
    return Method(receiver, name) if outside or not isinstance(receiver, Instance) else UNKNOWN


def _of_external_instance(owner: ExternalInstance, name: str) -> Value:
    if owner.name == AUTOGRAD_CONTEXT and name == "saved_tensors":
        return Sequence("tuple", None, Tensor())
    if owner.name in ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN") and name == "bias":
        return Scalar("bool")
    if owner.name.startswith("torch.distributions."):
        if name in ("mean", "mode", "variance", "stddev", "probs", "logits", "loc", "scale", "rate", "concentration"):
            return Tensor("float")
        if name in ("batch_shape", "event_shape"):
            return Sequence("size", None, Scalar("int", "shape"))
    if owner.name.startswith("torch.nn."):
        if name in ("weight", "bias", "running_mean", "running_var", "in_proj_weight", "in_proj_bias"):
            return Tensor(None, None)
        if name == "training":
            return Scalar("bool")
        if name in (
            "in_features",
            "out_features",
            "num_embeddings",
            "embedding_dim",
            "hidden_size",
            "num_layers",
            "num_heads",
        ):
            return Scalar("int")
    return Method(owner, name)


OPAQUE = frozenset(
    (
        "custom_op triton_op allow_in_graph nonstrict_trace assume_constant_result "
        "jit njit pjit vectorize guvectorize kernel prim_func stencil"
    ).split()
)
"""Decorators whose functions Dynamo does not trace into.

The first of them put the function into the graph, or call it once (measured on 2.13); the others compile it by other
means: Numba, Triton, CuTe, TileLang, Warp, JAX.
"""


def entry_of(instance: Instance, program: Program) -> str:
    """The method that torch.compile compiles of an object."""
    called = not instance.is_module and program.method(instance.ref, "forward") is None
    return "__call__" if called else "forward"


def entered(compiled: Value, frame: Frame) -> Value:
    """The function in which a region starts that torch.compile makes of a value."""
    if not isinstance(compiled, Instance):
        return compiled
    return get(compiled, entry_of(compiled, frame.tracer.program), frame)


def starts(compiled: Value, frame: Frame) -> Iterator[Function]:
    """The functions in which all the regions start that torch.compile may make of a value, of a partial its own."""
    for option in options(compiled):
        function = entered(option.function if isinstance(option, Partial) else option, frame)
        if isinstance(function, Function):
            yield function


def is_opaque(ref: FunctionRef) -> bool:
    """Whether Dynamo leaves the body of a function alone because of a decorator."""
    return any(name.rpartition(".")[2] in OPAQUE for name in decorator_names(ref))


def iterate(value: Value, frame: Frame) -> Value:
    """What iterating over one alternative of a value yields."""
    if isinstance(value, Tensor):
        rank = None if value.rank is None else max(value.rank - 1, 0)
        return Tensor(value.element, rank, value.sure, value.host)
    if isinstance(value, Array):
        return Array(value.element, None if value.rank is None else max(value.rank - 1, 0))
    if isinstance(value, Sequence):
        return element_of(value)
    if isinstance(value, Mapping):
        keys = [Const(key) for key, _ in value.entries]
        return join_all(keys) if keys else Scalar("object")
    if isinstance(value, ExternalInstance):
        if value.name == "torch.nn.ModuleDict":
            return Scalar("str")
        return join_all(value.items) if value.items else UNKNOWN
    if isinstance(value, Instance):
        maker = get(value, "__iter__", frame)
        if isinstance(maker, Function):
            made = frame.tracer.call(maker, (), {}, None, frame)
            return join_all(_advance(iterator, frame) for iterator in options(made))
        return value.attributes.get(ITEMS, UNKNOWN)
    return UNKNOWN


def _advance(iterator: Value, frame: Frame) -> Value:
    """What an iterator gives next: that of a class of the project, what its `__next__` returns."""
    step = get(iterator, "__next__", frame) if isinstance(iterator, Instance) else UNKNOWN
    return frame.tracer.call(step, (), {}, None, frame) if isinstance(step, Function) else element_of(iterator)
