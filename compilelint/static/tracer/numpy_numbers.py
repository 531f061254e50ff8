"""What numpy's elementwise functions make of Python numbers: most stay numbers that Dynamo knows while it traces."""

from __future__ import annotations

from compilelint.static.values import (
    UNKNOWN,
    Const,
    Origin,
    Scalar,
    Unknown,
    Value,
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


def call(name: str, args: tuple[Value, ...]) -> Value | None:
    """The result of a numpy function that is given numbers alone; None for every other call.

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
