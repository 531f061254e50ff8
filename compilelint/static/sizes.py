"""Which arguments of torch's functions must be Python numbers: sizes, counts, dimensions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import View

EVERY: tuple[tuple[int, str], ...] = tuple((position, "size") for position in range(6))
COUNTS: dict[str, tuple[tuple[int, str], ...]] = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty"), EVERY),
    **dict.fromkeys(("view", "reshape", "expand", "repeat", "tile"), EVERY),
    **dict.fromkeys(("full", "new_full"), ((0, "size"),)),
    "arange": ((0, "start"), (1, "end"), (2, "step")),
    "linspace": ((2, "steps"),),
    "randint": ((0, "low"), (1, "high"), (2, "size")),
    "randperm": ((0, "n"),),
    "eye": ((0, "n"), (1, "m")),
    "pad": ((1, "pad"),),
    "interpolate": ((1, "size"), (2, "scale_factor")),
    "one_hot": ((1, "num_classes"),),
    **dict.fromkeys(("topk", "kthvalue"), ((0, "k"), (1, "dim"))),
    "split": ((0, "split_size"), (0, "split_size_or_sections"), (1, "dim")),
    "chunk": ((0, "chunks"), (1, "dim")),
    "roll": ((0, "shifts"), (1, "dims")),
    "narrow": ((0, "dim"), (1, "start"), (2, "length")),
    "select": ((0, "dim"), (1, "index")),
    "unfold": ((0, "dimension"), (1, "size"), (2, "step")),
    "dropout": ((1, "p"),),
}
"""Positions and names of parameters that must be Python numbers; positions of methods leave the tensor out."""
METHODS = frozenset(("view reshape expand repeat tile topk kthvalue split chunk roll narrow select unfold").split())
"""Those of COUNTS whose function form, `torch.roll(x, ...)`, has the tensor first."""
FUNCTIONAL = frozenset({"pad", "interpolate", "one_hot", "dropout"})
"""Those of torch.nn.functional, where names such as `unfold` mean something else."""


def numbers_of(call: ast.Call, view: View) -> Iterator[ast.expr]:
    """The argument expressions of a torch call that are sizes or counts; nothing for any other call."""
    prefix, _, name = view.callee(call).rpartition(".")
    if name not in COUNTS or prefix not in ("torch", "torch.Tensor", "torch.nn.functional"):
        return
    if (name in FUNCTIONAL) is not (prefix == "torch.nn.functional"):
        return
    shift = 1 if name in METHODS and prefix == "torch" else 0
    for position, keyword in COUNTS[name]:
        argument = view.argument(call, position + shift, keyword)
        if isinstance(argument, (ast.Tuple, ast.List)):
            yield from argument.elts
        elif argument is not None:
            yield argument
