"""Whether what the tracer says of an expression holds for the object that Python really finds there."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from typing import cast

import numpy as np
import torch

from compilelint.static import values as v

_SCALARS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int, np.integer),
    "float": (float,),
    "str": (str,),
    "number": (numbers.Number, torch.SymInt),
    "object": (object,),
}
_FORMS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "size": torch.Size, "range": range}


def fits(kind: v.Value, real: object) -> bool:
    """Whether `real` is one of the objects that `kind` stands for."""
    return any(_FITS[type(option)](option, real) for option in v.options(kind))


def _element(dtype: torch.dtype | np.dtype[np.generic]) -> str:
    if dtype in (torch.bool, np.dtype(bool)):
        return "bool"
    floating = dtype.is_floating_point if isinstance(dtype, torch.dtype) else np.issubdtype(dtype, np.floating)
    return "float" if floating else "int"


def _tensor(kind: v.Tensor, real: object) -> bool:
    return (
        isinstance(real, torch.Tensor)
        and kind.element in (None, _element(real.dtype))
        and kind.rank in (None, real.dim())
        and (not kind.host or real.device.type == "cpu")
    )


def _array(kind: v.Array, real: object) -> bool:
    return (
        isinstance(real, (np.ndarray, np.generic))
        and kind.element in (None, _element(real.dtype))
        and kind.rank in (None, real.ndim)
    )


def _scalar(kind: v.Scalar, real: object) -> bool:
    if isinstance(real, bool) and kind.type in ("int", "float", "number"):
        return False
    return isinstance(real, _SCALARS[kind.type]) and not isinstance(real, torch.Tensor)


def _sequence(kind: v.Sequence, real: object) -> bool:
    if kind.form in ("iterator", "generator"):
        return hasattr(real, "__iter__")
    if not isinstance(real, _FORMS[kind.form]):
        return False
    items = list(cast("Iterable[object]", real))
    if kind.items is not None:
        return len(kind.items) == len(items) and all(fits(k, item) for k, item in zip(kind.items, items, strict=True))
    return all(fits(kind.element, item) for item in items)


def _mapping(kind: v.Mapping, real: object) -> bool:
    if not isinstance(real, dict):
        return False
    known = dict(kind.entries)
    return known.keys() <= real.keys() and all(fits(known.get(key, kind.element), real[key]) for key in real)


def _named(name: str, real: object) -> bool:
    return getattr(real, "__name__", "").rpartition(".")[2] in name


_FITS: dict[type, Callable[..., bool]] = {
    v.Unknown: lambda kind, real: True,
    v.Tensor: _tensor,
    v.Array: _array,
    v.Const: lambda kind, real: type(kind.value) is type(real) and kind.value == real,
    v.Scalar: _scalar,
    v.Sequence: _sequence,
    v.Mapping: _mapping,
    v.External: lambda kind, real: _named(kind.name, real),
    v.ExternalInstance: lambda kind, real: _named(kind.name, type(real)),
    v.ProjectModule: lambda kind, real: _named(kind.name, real),
    v.Function: lambda kind, real: callable(real),
    v.Partial: lambda kind, real: callable(real),
    v.Method: lambda kind, real: callable(real),
    v.Compiled: lambda kind, real: callable(real),
    v.Class: lambda kind, real: isinstance(real, type) and _named(kind.ref.qualname, real),
    v.Instance: lambda kind, real: _named(kind.ref.qualname, type(real)),
}
