"""Annotations -> value kinds. What an annotation claims is believed, but never `certain`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from compilelint.static.project.definitions import ClassRef, Outside
from compilelint.static.project.enums import is_enum
from compilelint.static.project.index import ModuleIndex
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Array,
    Const,
    Element,
    ExternalInstance,
    Mapping,
    Scalar,
    Sequence,
    Tensor,
    Value,
    join_all,
)

if TYPE_CHECKING:
    from compilelint.static.tracer.tracer import Tracer

_TENSORS: dict[str, Element | None] = {
    "Tensor": None,
    "FloatTensor": "float",
    "HalfTensor": "float",
    "DoubleTensor": "float",
    "LongTensor": "int",
    "IntTensor": "int",
    "BoolTensor": "bool",
    "ByteTensor": "int",
    "Parameter": "float",
    "OptTensor": None,
    "TensorType": None,
    "TensorLike": None,
}
_JAXTYPING: dict[str, Element | None] = {
    **dict.fromkeys(("Float", "Float16", "Float32", "Float64", "BFloat16"), "float"),
    **dict.fromkeys(("Int", "Int8", "Int16", "Int32", "Int64", "UInt", "UInt8", "Integer"), "int"),
    "Bool": "bool",
    **dict.fromkeys(("Shaped", "Num", "Inexact", "Real", "Complex"), None),
}
_SCALARS = {"bool": "bool", "int": "int", "float": "float", "str": "str", "complex": "number"}
_SEQUENCES = {
    "list": "list", "List": "list", "Sequence": "list", "Iterable": "list", "Collection": "list",
    "tuple": "tuple", "Tuple": "tuple", "set": "set", "Set": "set", "Iterator": "iterator", "Generator": "generator",
}  # fmt: skip
_MAPPINGS = frozenset({"dict", "Dict", "Mapping", "OrderedDict", "MutableMapping"})
_TYPES = (ast.Subscript, ast.BinOp, ast.Name, ast.Attribute)
_DOCUMENTED = Tensor(None, None, sure=False)
_OBJECTS = frozenset({"torch.dtype", "torch.device", "torch.layout", "torch.memory_format", "numpy.dtype"})
_MODULES = frozenset({"torch.nn.Module", "torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict"})


def value_of_annotation(node: ast.expr, module: ModuleIndex, tracer: Tracer) -> Value:
    """The kind an annotation names; UNKNOWN where it says nothing useful. String annotations are parsed."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return NONE
        if not isinstance(node.value, str):
            return UNKNOWN
        try:
            node = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return UNKNOWN
        return value_of_annotation(node, module, tracer)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return join_all(value_of_annotation(side, module, tracer) for side in (node.left, node.right))
    if isinstance(node, ast.Subscript):
        return _parametrised(node, module, tracer)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _named(node, module, tracer)
    return UNKNOWN


def _named(node: ast.Name | ast.Attribute, module: ModuleIndex, tracer: Tracer) -> Value:
    name = node.id if isinstance(node, ast.Name) else node.attr
    target = tracer.program.dotted(node, module)
    if isinstance(target, ClassRef) and not (name in _TENSORS and is_enum(target, tracer.program)):
        # An enumeration of the frameworks a tensor may come from stands for the tensor.
        return _DOCUMENTED if _documents_tensors(target, tracer) else tracer.instance_of(target)
    if isinstance(target, ast.expr):
        home = tracer.program.home(target, module, name) if isinstance(node, ast.Name) else module
        alias = tracer.alias_value(target, home)
        if alias != UNKNOWN or name not in _TENSORS:  # `Tensor = Any`, where the library may be absent, says nothing
            return alias
    if isinstance(target, Outside) and name not in _TENSORS:
        name = target.name.rpartition(".")[2]  # `from torch import Tensor as T`
    if name in _TENSORS:
        value: Value = Tensor(_TENSORS[name], None, sure=False)
        return join_all([value, NONE]) if name == "OptTensor" else value
    if name in _SCALARS and (target is None or name in ("bool", "int", "float", "str")):
        return Scalar(_SCALARS[name], "argument")  # type: ignore[arg-type]
    if name in _SEQUENCES:
        return Sequence(_SEQUENCES[name])  # type: ignore[arg-type]
    if name in _MAPPINGS:
        return Mapping()
    if name in ("ndarray", "NDArray"):
        return Array()
    if name == "Size":
        return Sequence("size", None, Scalar("int", "shape"))
    if isinstance(target, Outside) and target.name in _MODULES:
        return ExternalInstance(target.name)
    if isinstance(target, Outside) and target.name in _OBJECTS:
        return Scalar("object")
    return UNKNOWN


def _documents_tensors(ref: ClassRef, tracer: Tracer) -> bool:
    """Whether a class only gives a name to tensors of some shape: `class Points(TensorType["batch", 3])`."""
    return any(isinstance(base, str) and base.rpartition(".")[2] == "TensorType" for base in tracer.program.mro(ref))


def value_of_alias(node: ast.expr, module: ModuleIndex, tracer: Tracer) -> Value:
    """What is assigned to a name that annotations use: an annotation itself, or what `typing` makes of some."""
    if not isinstance(node, ast.Call):
        return value_of_annotation(node, module, tracer) if isinstance(node, _TYPES) else UNKNOWN
    target = tracer.program.dotted(node.func, module)
    maker = target.name.rpartition(".")[2] if isinstance(target, Outside) else ""
    if maker == "NewType":
        return join_all(value_of_annotation(a, module, tracer) for a in node.args[1:2])
    if maker == "TypeVar":
        bounds = [keyword.value for keyword in node.keywords if keyword.arg == "bound"]
        return join_all(value_of_annotation(a, module, tracer) for a in [*node.args[1:], *bounds])
    return UNKNOWN


def _parametrised(node: ast.Subscript, module: ModuleIndex, tracer: Tracer) -> Value:
    head = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
    target = tracer.program.dotted(node.value, module)
    if isinstance(target, Outside) and target.name.startswith("typing."):
        head = target.name.removeprefix("typing.")  # `from typing import Union as Either`
    arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if head == "Optional":
        return join_all([value_of_annotation(arguments[0], module, tracer), NONE])
    if head == "Union":
        return join_all(value_of_annotation(a, module, tracer) for a in arguments)
    if head in ("Annotated", "Final", "ClassVar", "Required", "NotRequired"):
        return value_of_annotation(arguments[0], module, tracer)
    if head == "Literal":
        return join_all(Const(a.value) for a in arguments if isinstance(a, ast.Constant))
    if head in _JAXTYPING:  # Float[Tensor, "b n"], Int64[np.ndarray, "n"]
        of_array = isinstance(value_of_annotation(arguments[0], module, tracer), Array)
        return Array(_JAXTYPING[head]) if of_array else Tensor(_JAXTYPING[head], None, sure=False)
    if head in _TENSORS:
        return Tensor(_TENSORS[head], None, sure=False)  # torchtyping: TensorType["batch", float]
    if head in _MAPPINGS:
        return Mapping((), value_of_annotation(arguments[-1], module, tracer))
    if head in ("tuple", "Tuple") and not (len(arguments) == 2 and _is_ellipsis(arguments[1])):
        return Sequence("tuple", tuple(value_of_annotation(a, module, tracer) for a in arguments))
    if head in _SEQUENCES:
        return Sequence(_SEQUENCES[head], None, value_of_annotation(arguments[0], module, tracer))  # type: ignore[arg-type]
    return UNKNOWN


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
