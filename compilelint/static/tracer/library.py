"""Calls that leave the project: torch, numpy, the standard library and other packages.

What they return comes from the table generated out of torch (compilelint.knowledge); here stands only what a table
cannot say: how the result depends on the arguments.
"""

from __future__ import annotations

import ast
import sys

from compilelint.static.dtypes import element_of_dtype, is_dtype
from compilelint.static.facts.operator_answers import answer
from compilelint.static.layouts import SPARSE_CONSTRUCTORS, SPARSE_CONVERSIONS
from compilelint.static.tracer import higher_order, numpy_numbers
from compilelint.static.tracer.callees import call_back
from compilelint.static.tracer.forms import form_of_result
from compilelint.static.tracer.frame import Frame
from compilelint.static.tracer.grammar import value_of_return
from compilelint.static.tracer.operators import binary, compare, element
from compilelint.static.tracer.ranks import rank_of_result
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
    element_of,
    gives_tensors,
    join_all,
    options,
    tensors_in,
)

Keywords = dict[str, Value]

_ELEMENT_CASTS: dict[str, Element] = {
    "long": "int", "int": "int", "short": "int", "byte": "int", "char": "int", "bool": "bool",
    "float": "float", "half": "float", "double": "float", "bfloat16": "float",
}  # fmt: skip
_SAME_ELEMENT = frozenset(
    (
        "clone contiguous detach view reshape flatten unflatten squeeze unsqueeze transpose permute expand "
        "expand_as repeat roll flip t movedim swapaxes cat stack concat hstack vstack index_select gather "
        "masked_select narrow select take unbind chunk split tensor_split sort clamp abs neg relu masked_fill "
        "masked_fill_ cuda cpu to requires_grad_ pin_memory unfold tril triu diagonal diag pad cumsum max min amax "
        "amin where new_zeros new_ones new_full fill_ zero_ copy_ scatter scatter_ add_ mul_ sub_ "
        "repeat_interleave zeros_like ones_like full_like empty_like rand_like randn_like broadcast_to atleast_1d"
    ).split()
)
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"})
_TENSOR_PREFIXES = (
    "torch.nn.functional.", "torch.linalg.", "torch.fft.", "torch.special.", "torch.ops.aten.", "einops.",
    "einx.", "torch_scatter.", "torchvision.ops.", "xformers.ops.", "flash_attn.",
)  # fmt: skip
DISTRIBUTIONS = ("torch.distributions.", "pyro.distributions.")
_OF_DISTRIBUTIONS = frozenset(
    "sample rsample sample_n log_prob cdf icdf entropy perplexity enumerate_support kl_divergence".split()
)
"""Methods of `torch.distributions.Distribution` that every distribution answers with a tensor."""
_PYTHON_NUMBERS = ("math.", "random.", "statistics.", "operator.index")
"""What these return is a Python number whatever they are given."""
_COMPARISONS: dict[str, ast.cmpop] = {
    "lt": ast.Lt(), "le": ast.LtE(), "eq": ast.Eq(), "ne": ast.NotEq(), "ge": ast.GtE(), "gt": ast.Gt(),
    "is_": ast.Is(), "is_not": ast.IsNot(),
}  # fmt: skip
_ARITHMETIC: dict[str, ast.operator] = {
    "add": ast.Add(), "sub": ast.Sub(), "mul": ast.Mult(), "truediv": ast.Div(), "floordiv": ast.FloorDiv(),
    "mod": ast.Mod(), "pow": ast.Pow(), "and_": ast.BitAnd(), "or_": ast.BitOr(), "xor": ast.BitXor(),
    "matmul": ast.MatMult(),
}  # fmt: skip
_RECURRENT = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})


def call(name: str, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """What `name(*args)` returns for a function outside the project."""
    special = higher_order.call(name, args, keywords, node, frame)
    if special is None:
        special = numpy_numbers.call(name, args, keywords)
    if special is not None:
        return special
    tail = name.rpartition(".")[2]
    if name.startswith("torch.nn.") and tail[:1].isupper():
        return _construct_module(name, args, keywords)
    if name in ("torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "torch.BoolTensor"):
        return Tensor({"F": "float", "L": "int", "B": "bool"}.get(tail[0]))  # type: ignore[arg-type]
    if name in ("torch.tensor", "torch.as_tensor", "torch.asarray", "torch.scalar_tensor", "torch.from_numpy"):
        return _from_data(args, keywords, frame)
    if name.startswith("torch.Tensor.") and args and isinstance(args[0], Tensor):  # a method by way of the class
        return tensor_method(args[0], tail, args[1:], keywords, node, frame)
    of_python = name.partition(".")[0] in sys.stdlib_module_names
    if name.startswith("operator.") and len(args) == 2:
        if tail in _COMPARISONS:
            return compare(args[0], _COMPARISONS[tail], args[1])
        if tail in _ARITHMETIC:
            return binary(args[0], _ARITHMETIC[tail], args[1])
    if not of_python:
        call_back(args, args, node, frame)
    fact = frame.tracer.table.fact(name)
    result = value_of_return(fact.returns, _first_tensor(args)) if fact is not None else UNKNOWN
    if result == UNKNOWN or (result == NONE and tail[:1].isupper()):  # a class that refused what the table tried
        result = _by_name(name)
    if isinstance(result, ExternalInstance) and result.name.rpartition(".")[2] == tail:
        result = ExternalInstance(name)  # by the public name; the table knows the one in C, `_contextvars.ContextVar`
    if name.startswith("numpy.") and not any(map(gives_tensors, (*args, *keywords.values()))):
        result = join_all(option for option in options(result) if not isinstance(option, Tensor))
    # The table called Python's own functions with tensors too; without one, no tensor comes out of them.
    if name.startswith(_PYTHON_NUMBERS) or (of_python and not any(map(_holds_data, (*args, *keywords.values())))):
        return join_all(option for option in options(result) if not isinstance(option, (Tensor, Array)))
    if name.startswith(("torch.", "einops.")):
        return _refine(result, name, tail, args, keywords, frame)
    return result


def _by_name(name: str) -> Value:
    """The result of a function the table does not list, or says nothing about."""
    if (answered := answer(name)) is not None:
        return answered
    if name.startswith(_TENSOR_PREFIXES) and not any(part.lstrip("_")[:1].isupper() for part in name.split(".")):
        return Tensor()
    if name.startswith(DISTRIBUTIONS) and name.rpartition(".")[2] in _OF_DISTRIBUTIONS:
        return Tensor()
    if name.rpartition(".")[2] in ("getLogger", "get_logger"):
        return ExternalInstance("logging.Logger")
    top, _, rest = name.partition(".")
    if top in ("numpy", "np"):
        return Array()
    tail = rest.rpartition(".")[2]
    if tail[:1].isupper() and (not tail.isupper() or name.startswith("torch.optim.")):
        return ExternalInstance(name)
    return UNKNOWN


def _construct_module(name: str, args: tuple[Value, ...], keywords: Keywords) -> Value:
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Buffer"):
        kept = _first_tensor(args)
        return Tensor(
            kept.element if isinstance(kept, Tensor) else "float", kept.rank if isinstance(kept, Tensor) else None
        )
    name = name.replace("torch.nn.modules.container.", "torch.nn.")
    if name == "torch.nn.ModuleList" and args:
        first = args[0]
        if isinstance(first, Sequence):
            return ExternalInstance(name, first.items[:32] if first.items is not None else (element_of(first),))
        return ExternalInstance(name, (element_of(first),) if element_of(first) != UNKNOWN else ())
    if name == "torch.nn.ModuleDict" and args and isinstance(args[0], Mapping):
        return ExternalInstance(name, (element_of(args[0]),))
    if name == "torch.nn.Sequential":
        if len(args) == 1 and isinstance(args[0], Mapping):
            return ExternalInstance(name, tuple(value for _, value in args[0].entries))
        open_list = (keywords["*"],) if keywords.get("*", UNKNOWN) != UNKNOWN else ()  # `nn.Sequential(*blocks)`
        return ExternalInstance(name, (*args, *open_list)[:32])
    return ExternalInstance(name)


SOME_MODEL_GIVES = Tensor(sure=False)
"""What calling a model of which nothing is known gives: mostly a tensor, else an object of tensors."""


def call_instance(
    instance: ExternalInstance, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame
) -> Value:
    """Calling an object of an outside class: mostly a torch.nn layer."""
    if instance.name == "torch.nn.Sequential" and instance.items:
        value: Value = args[0] if args else UNKNOWN
        for item in instance.items:
            value = frame.tracer.call(item, (value,), {}, node, frame)
        return value
    if instance.name in _RECURRENT:
        return Sequence("tuple", (Tensor("float"), UNKNOWN))
    if instance.name == "torch.nn.MultiheadAttention":
        return Sequence("tuple", (Tensor("float"), join_all([Tensor("float"), NONE])))
    if instance.name.startswith("torch.nn."):
        if instance.name in ("torch.nn.Identity", "torch.nn.Dropout"):
            return args[0] if args else UNKNOWN
        return SOME_MODEL_GIVES if instance.name == "torch.nn.Module" else Tensor("float")
    if instance.name.startswith(("torchvision.", "einops.layers")):
        return Tensor()
    return UNKNOWN


def tensor_method(
    receiver: Tensor, name: str, args: tuple[Value, ...], keywords: Keywords, node: ast.AST | None, frame: Frame
) -> Value:
    """`tensor.name(*args)`."""
    if name in ("size", "stride"):
        whole = Sequence("size", None, Scalar("int", "shape"))
        return Scalar("int", "shape") if args or "dim" in keywords else whole
    if name in ("numel", "nelement", "storage_offset", "__len__"):
        return Scalar("int", "shape")
    if name in ("dim", "ndimension", "element_size"):
        return Scalar("int")  # the same at each call, or Dynamo compiles anew: no size that may become symbolic
    if name in ("item", "__int__", "__float__"):
        return Scalar(receiver.element or "number", "tensor")
    if name == "tolist":
        inner = Scalar(receiver.element or "number", "tensor")
        if receiver.rank == 0:
            return inner
        return Sequence("list", None, inner if receiver.rank == 1 else join_all([inner, Sequence("list", None, inner)]))
    if name == "type":
        return Tensor(element_of_dtype(args[0]), receiver.rank, receiver.sure, receiver.host) if args else Scalar("str")
    if name in ("numpy", "__array__"):
        return Array(receiver.element, receiver.rank)
    if name in _ELEMENT_CASTS and not args:
        return Tensor(_ELEMENT_CASTS[name], receiver.rank, receiver.sure, receiver.host, receiver.sparse)
    if name in ("split", "chunk", "unbind", "tensor_split", "split_with_sizes"):
        rank = receiver.rank - 1 if name == "unbind" and receiver.rank else None
        return Sequence("tuple", None, Tensor(receiver.element, rank, receiver.sure, receiver.host))
    call_back(args, args, node, frame)
    fact = frame.tracer.table.fact(f"torch.Tensor.{name}")
    if fact is None:
        return UNKNOWN
    result = value_of_return(fact.returns, receiver)
    return _refine(result, f"torch.Tensor.{name}", name, (receiver, *args), keywords, frame)


def array_method(receiver: Array, name: str, args: tuple[Value, ...], frame: Frame) -> Value:
    """`array.name(*args)`; Dynamo carries numpy values as tensors, so a read-back is one there too."""
    if name == "item":
        return Scalar(receiver.element or "number", "tensor")
    if name == "tolist":
        return Sequence("list", None, Scalar(receiver.element or "number", "tensor"))
    if name in ("any", "all"):
        return Array("bool", 0 if not args else None)
    if name in ("sum", "max", "min", "mean", "argmax", "argmin"):
        return Array("int" if name.startswith("arg") else receiver.element, 0 if not args else None)
    fact = frame.tracer.table.fact(f"numpy.ndarray.{name}")
    return value_of_return(fact.returns, receiver) if fact is not None else UNKNOWN


_MAKE_SPARSE = SPARSE_CONSTRUCTORS | SPARSE_CONVERSIONS
_KEEP_SPARSE = frozenset("coalesce to cuda cpu t transpose detach clone requires_grad_".split())


def _refine(result: Value, name: str, tail: str, args: tuple[Value, ...], keywords: Keywords, frame: Frame) -> Value:
    """Say more of a tensor result than the table can: element type, rank and place, from the arguments."""
    result = form_of_result(result, tail, args, keywords)
    if not isinstance(result, Tensor):
        return result
    first = _first_tensor(args)
    like = first if isinstance(first, Tensor) else None
    kind = result.element
    if "dtype" in keywords or tail in ("to", "type"):
        kind = element_of_dtype(keywords.get("dtype", args[1] if len(args) > 1 else NONE)) or (
            like.element if like and tail == "to" and "dtype" not in keywords and not _is_dtype(args) else None
        )
    elif tail in _JOINS:
        kind = like.element if like is not None else None  # the table tried these with floating-point tensors alone
    elif kind is None and like is not None and (tail in _SAME_ELEMENT or tail.rstrip("_") in _SAME_ELEMENT):
        kind = like.element
    elif kind is None and name in ("torch.arange", "torch.full", "torch.zeros", "torch.ones"):
        kind = _factory_element(tail, args)
    elif name in ("torch.rand", "torch.randn", "torch.linspace"):
        kind = "float"
    elif name in ("torch.randint", "torch.randperm"):
        kind = "int"
    # A method of something that only looks like a tensor gives something that only looks like one.
    sure = like is None or like.sure or not name.startswith("torch.Tensor.")
    rank, host = rank_of_result(name, tail, args, keywords, like), _on_host(tail, args, keywords, like)
    return Tensor(
        kind, rank, sure, host, tail in _MAKE_SPARSE or (like is not None and like.sparse and tail in _KEEP_SPARSE)
    )


def _is_dtype(args: tuple[Value, ...]) -> bool:
    return any(map(is_dtype, args[1:]))


def _factory_element(tail: str, args: tuple[Value, ...]) -> Element | None:
    if tail in ("zeros", "ones"):
        return "float"
    if tail == "full":
        return element(args[1]) if len(args) > 1 else None
    kinds = {element(arg) for arg in args}
    return "float" if "float" in kinds else ("int" if None not in kinds else None)


def _on_host(tail: str, args: tuple[Value, ...], keywords: Keywords, like: Tensor | None) -> bool:
    """Whether the result provably lives on the CPU."""
    device = keywords.get("device") or (args[1] if tail == "to" and len(args) > 1 else None)
    if tail == "cpu" or (isinstance(device, Const) and device.value == "cpu"):
        return True
    if tail in ("cuda",) or device is not None:
        return False
    return like is not None and like.host


def _from_data(args: tuple[Value, ...], keywords: Keywords, frame: Frame) -> Value:
    data = args[0] if args else keywords.get("data", UNKNOWN)
    kind = element_of_dtype(keywords.get("dtype", NONE))
    rank: int | None = None
    if isinstance(data, (Tensor, Array)):
        return Tensor(kind or data.element, data.rank, True, isinstance(data, Tensor) and data.host)
    if isinstance(data, (Const, Scalar)):
        rank = 0
        kind = kind or element(data)
    elif isinstance(data, Sequence):
        inner = element_of(data)
        rank = 1 if isinstance(inner, (Const, Scalar)) else None
        kind = kind or element(inner)
    return Tensor(kind, rank, True, "device" not in keywords)


def _holds_data(value: Value) -> bool:
    return gives_tensors(value) or any(isinstance(option, Array) for option in options(value))


def _first_tensor(args: tuple[Value, ...]) -> Value:
    """The first tensor among the arguments, looking into a leading list (`torch.cat([a, b])`)."""
    for arg in args:
        for option in options(arg):
            if isinstance(option, Tensor):
                return option
            if isinstance(option, Sequence):
                inside = tensors_in(element_of(option))
                if inside:
                    return inside[0]
    return UNKNOWN
