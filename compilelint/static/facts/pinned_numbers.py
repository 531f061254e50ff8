"""Which functions of torch need an int as a constant of the graph, so that each value compiles again.

Each entry was compiled with torch 2.13 and given six values: six graphs, where sizes, dimensions of `view` and most
other ints made two. They pin a size of an input that they are given just so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import View

_METHODS = {"chunk": ("chunks", 0), "tensor_split": ("indices_or_sections", 0), "unfold": ("size", 1)}
_OF_METHODS = {"split": ("split_size", 0), "diagonal": ("offset", 0), "cumsum": ("dim", 0), "diff": ("n", 0)}
_POOLS = {f"{kind}_pool{d}d": ("kernel_size", 1) for kind in ("avg", "max") for d in (1, 2, 3)}
_ADAPTIVE = dict.fromkeys(("adaptive_avg_pool1d", "adaptive_max_pool1d", "adaptive_max_pool2d"), ("output_size", 1))
_FUNCTIONAL = {
    **_POOLS, **_ADAPTIVE, "one_hot": ("num_classes", 1), "unfold": ("kernel_size", 1),
    "pixel_unshuffle": ("downscale_factor", 1),
}  # fmt: skip
_TORCH = {"linspace": ("steps", 2), "stft": ("n_fft", 1), "hann_window": ("window_length", 0)}

OF_SIZES: dict[str, tuple[str, int]] = {
    **{f"torch.nn.functional.{name}": place for name, place in _FUNCTIONAL.items()},
    **{f"torch.Tensor.{name}": place for name, place in _METHODS.items()},
    **{f"torch.{name}": (keyword, position + 1) for name, (keyword, position) in _METHODS.items()},
}
"""By what is called, the name and position of the parameter; a method's receiver is not counted."""
OF_NUMBERS: dict[str, tuple[str, int]] = {
    **OF_SIZES,
    **{f"torch.{name}": place for name, place in _TORCH.items()},
    **{f"torch.Tensor.{name}": place for name, place in _OF_METHODS.items()},
    **{f"torch.{name}": (keyword, position + 1) for name, (keyword, position) in _OF_METHODS.items()},
    "torch.linalg.matrix_power": ("n", 1),
}
"""Those and others that are not given sizes of inputs."""


def pinned_arguments(call: ast.Call, view: View, places: dict[str, tuple[str, int]]) -> Iterator[ast.expr]:
    """The numbers that a call needs as constants, each of several: `n` of `avg_pool2d(x, (n, n))`."""
    callee = view.callee(call)
    if callee in places:
        name, position = places[callee]
        argument = view.argument(call, position, name)
        if argument is not None:
            yield from argument.elts if isinstance(argument, (ast.Tuple, ast.List)) else [argument]
