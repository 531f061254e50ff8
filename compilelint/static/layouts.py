"""What makes a tensor sparse, by name."""

from __future__ import annotations

_LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
SPARSE_CONSTRUCTORS = frozenset(["sparse_compressed_tensor", *(f"sparse_{layout}_tensor" for layout in _LAYOUTS)])
"""Functions of `torch`."""
SPARSE_CONVERSIONS = frozenset(["to_sparse", *(f"to_sparse_{layout}" for layout in _LAYOUTS)])
"""Methods of tensors."""
