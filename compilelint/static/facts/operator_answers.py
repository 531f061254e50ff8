"""Operators of torch.ops.aten that answer with a Python value and not with a tensor.

By their schemas; each was compiled with torch 2.13, which splits the graph at all of them. `sym_size` and `sym_stride`
are the two that it traces.
"""

from __future__ import annotations

from compilelint.static.values import Scalar

PREFIX = "torch.ops.aten."
_NUMBERS = frozenset(
    (
        "dim element_size get_device numel output_nr storage_offset sym_numel sym_storage_offset dense_dim sparse_dim"
        " len result_type _version"
    ).split()
)
_FLAGS = frozenset(
    (
        "is_complex is_conj is_contiguous is_distributed is_floating_point is_inference is_leaf is_neg"
        " is_non_overlapping_and_dense is_pinned is_same_size is_set_to is_signed is_strides_like_format retains_grad"
        " sym_is_contiguous _is_zerotensor _has_compatible_shallow_copy_type"
    ).split()
)
_READ_BACK = frozenset({"item", "equal", "allclose", "is_nonzero"})
"""Those that look at what a tensor holds."""
_OF_ONE_DIMENSION = frozenset({"size", "stride"})
"""Those that answer with a list, which compiles, unless their overload asks about one dimension."""


def answer(callee: str) -> Scalar | None:
    """What an operator gives that gives a Python value, `torch.ops.aten.numel` or `torch.ops.aten.numel.default`."""
    if not callee.startswith(PREFIX):
        return None
    name, _, overload = callee.removeprefix(PREFIX).partition(".")
    if name in _READ_BACK:
        return Scalar("number" if name == "item" else "bool", "tensor")
    if name in _NUMBERS or (name in _OF_ONE_DIMENSION and overload == "int"):
        return Scalar("int", "shape")
    return Scalar("bool", "python") if name in _FLAGS else None
