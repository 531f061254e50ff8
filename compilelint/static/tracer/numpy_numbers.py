"""What numpy makes of Python numbers.

Its elementwise functions mostly give numbers that Dynamo knows while it traces; what it adds up is an array of one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Array,
    Const,
    Element,
    External,
    ExternalInstance,
    Origin,
    Scalar,
    Sequence,
    Unknown,
    Value,
    element_of,
    gives_tensors,
    options,
)

_ALWAYS_FLOAT = frozenset(
    (
        "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh arcsin arccos arctan arctan2 "
        "deg2rad rad2deg radians degrees fabs float_power true_divide float32 float64"
    ).split()
)
_FLOAT_OF_FLOATS = frozenset(
    (
        "floor ceil trunc rint round around square abs absolute power maximum minimum fmax fmin mod fmod remainder "
        "add subtract multiply divide sign clip"
    ).split()
)
_REDUCTIONS = frozenset("prod sum max min amax amin mean median argmax argmin".split())
_SEVERAL = frozenset({"axis", "keepdims"})
"""Keywords with which a reduction gives several numbers."""


_OF_OBJECTS = frozenset({"builtins.object", "builtins.str", "builtins.bytes", "numpy.object_", "numpy.str_"})
_MAKERS = frozenset("array asarray empty zeros ones full empty_like zeros_like ones_like full_like".split())


def call(name: str, args: tuple[Value, ...], keywords: Mapping[str, Value] = MappingProxyType({})) -> Value | None:
    """The result of a numpy function that is given numbers alone, or reduces what it is given; else None.

    An array of objects or texts is none that Dynamo holds as a tensor.

    `np.prod(shape)` of a list, a tuple or a shape is no number while Dynamo traces but an array without dimensions,
    read back where a size, an index or a branch wants a number (GB0033). Measured on torch 2.11, 2.13 and 2.14.
    """
    package, _, function = name.rpartition(".")
    if package in _DRAWING:
        return _drawn(function, args, keywords)
    if package == "numpy" and function in _MAKERS and _names_objects((*args[1:], *keywords.values())):
        return ExternalInstance("numpy.ndarray")
    if package == "numpy" and function in _REDUCTIONS and len(args) == 1 and not any(k in keywords for k in _SEVERAL):
        return _reduced(function, args[0])
    return _of_numbers(name, args)


def _names_objects(values: Iterable[Value]) -> bool:
    return any(isinstance(value, External) and value.name in _OF_OBJECTS for value in values)


def _reduced(function: str, values: Value) -> Value | None:
    kinds = [kind for kind in options(values) if kind != NONE]
    if not kinds or gives_tensors(values) or not all(isinstance(kind, (Sequence, Array, Unknown)) for kind in kinds):
        return None
    parts = [option for kind in kinds for option in options(element_of(kind))]
    whole = all(isinstance(part, (Const, Scalar)) and part.type in ("int", "bool") for part in parts)
    element: Element | None = "int" if function.startswith("arg") or (whole and function not in _MEANS) else None
    return Array(element, 0)


_MEANS = ("mean", "median")
_DRAWING = ("numpy.random", "numpy.random.Generator", "numpy.random.RandomState")
_SIZE_OF_DRAW = {
    "rand": 0, "randn": 0, "random": 0, "random_sample": 0, "standard_normal": 0, "choice": 1, "exponential": 1,
    "poisson": 1, "uniform": 2, "normal": 2, "randint": 2, "beta": 2, "gamma": 2, "lognormal": 2, "laplace": 2,
    "binomial": 2,
}  # fmt: skip
"""Where the size stands, after which an array is drawn; for rand and randn any argument is one.

`Generator.integers` is not among them: it draws a `numpy.int64`, which stays an array without dimensions.
"""
_DRAW_INTEGERS = ("randint", "choice", "poisson", "binomial")


def _drawn(function: str, args: tuple[Value, ...], keywords: Container[str]) -> Value | None:
    """One random number: the draw ends the graph, and what follows has a Python number. Measured on torch 2.13."""
    position = _SIZE_OF_DRAW.get(function)
    if position is None or len(args) > position or "size" in keywords or "*" in keywords or "**" in keywords:
        return None
    if not all(isinstance(option, (Const, Scalar)) for argument in args for option in options(argument)):
        return None
    return Scalar("int" if function in _DRAW_INTEGERS else "float")


def _of_numbers(name: str, args: tuple[Value, ...]) -> Value | None:
    """The result of an elementwise function of numbers.

    A float comes back as `numpy.float64`, which is a float to Dynamo and stays a constant. An integer comes back as
    `numpy.int64`, which Dynamo carries as an array and reads back where a number is needed (GB0208). Measured on torch
    2.11, 2.13 and 2.14.
    """
    package, _, function = name.rpartition(".")
    if package != "numpy" or not args or not (function in _ALWAYS_FLOAT or function in _FLOAT_OF_FLOATS):
        return None
    kinds = [option for argument in args for option in options(argument)]
    if not all(isinstance(kind, (Const, Scalar, Unknown)) for kind in kinds):
        return None
    if any(isinstance(kind, Unknown) for kind in kinds):
        return UNKNOWN
    if function in _ALWAYS_FLOAT or any(kind.type in ("float", "number") for kind in kinds):  # type: ignore[union-attr]
        return Scalar("float", _origin(kinds))
    return None


def _origin(kinds: list[Value]) -> Origin:
    found = {kind.origin for kind in kinds if isinstance(kind, Scalar)}
    origins: tuple[Origin, ...] = ("tensor", "shape", "argument")
    return next((origin for origin in origins if origin in found), "python")
