"""Which operations keep a float that they are given as a constant of the graph, so that each value compiles again.

An operator whose schema says `Scalar` takes a symbol; one that says `float`, and most of `math`, do not. Each entry was
compiled with torch 2.13 and given six values: six graphs, where others made two. A test does the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from compilelint.rule import View
from compilelint.static.facts.state import held, is_integer, of_module_or_global, own_nodes, same_place
from compilelint.static.values import Const, Scalar, Value, gives_tensors, options

_FUNCTIONAL = {
    "dropout": ("p", 1), "dropout1d": ("p", 1), "dropout2d": ("p", 1), "dropout3d": ("p", 1),
    "alpha_dropout": ("p", 1), "feature_alpha_dropout": ("p", 1), "batch_norm": ("momentum", 6),
    "layer_norm": ("eps", 4), "group_norm": ("eps", 4), "rms_norm": ("eps", 3), "smooth_l1_loss": ("beta", 5),
    "huber_loss": ("delta", 3), "cross_entropy": ("label_smoothing", 7), "cosine_similarity": ("eps", 3),
    "triplet_margin_loss": ("margin", 3), "margin_ranking_loss": ("margin", 3), "hinge_embedding_loss": ("margin", 2),
    "cosine_embedding_loss": ("margin", 3), "interpolate": ("scale_factor", 2), "pad": ("value", 3),
    "scaled_dot_product_attention": ("scale", 6),
}  # fmt: skip
_TORCH = {
    "dropout": ("p", 1), "quantile": ("q", 1), "nan_to_num": ("nan", 1), "logit": ("eps", 1), "normal": ("std", 1),
    "bernoulli": ("p", 1), "cdist": ("p", 2), "as_tensor": ("data", 0),
}  # fmt: skip
_IN_PLACE = {"uniform_": ("to", 1), "normal_": ("std", 1), "bernoulli_": ("p", 0), "exponential_": ("lambd", 0)}
# The others, as sqrt, sin and their like and what rounds, take a symbol.
_MATH = "exp exp2 expm1 log log10 log1p pow erf lgamma degrees fabs cbrt fmod atan2 hypot copysign"

KEPT: dict[str, tuple[str, int]] = {
    **{f"torch.nn.functional.{name}": place for name, place in _FUNCTIONAL.items()},
    **{f"torch.{name}": place for name, place in _TORCH.items()},
    **{f"torch.Tensor.{name}": place for name, place in _IN_PLACE.items()},
    **{f"math.{name}": ("x", 0) for name in _MATH.split()},
}
"""By what is called, the name and position of the argument; a method's receiver is not counted."""

SINCE = {"torch.quantile": (2, 13)}
"""The version from which on a function keeps its number; torch 2.11 was seen to make that one dynamic."""


def kept_argument(call: ast.Call, view: View) -> ast.expr | None:
    """The number that a call keeps as a constant of the graph; None for a call that keeps none."""
    callee = view.callee(call)
    if callee not in KEPT or view.torch < SINCE.get(callee, (0, 0)):
        return None
    name, position = KEPT[callee]
    return view.argument(call, position, name)


def keeper_of(places: list[ast.expr], view: View) -> ast.Call | None:
    """The first call of this function that keeps one of some variables or attributes, or a number computed from it."""
    for node in own_nodes(view.function):
        if isinstance(node, ast.Call):
            argument = kept_argument(node, view)
            if argument is not None and any(same_place(part, place) for part in _terms(argument) for place in places):
                return node
    return None


def stay_constant(values: Iterable[Value], view: View) -> bool:
    """Whether all of some values are numbers that this region is compiled to keep as constants, see `View.keeps`."""
    sorts = {value.type for value in values if isinstance(value, (Const, Scalar))}
    kept = {"int": view.keeps("int"), "float": view.keeps("float")}
    kept["number"] = kept["int"] and kept["float"]
    return bool(sorts) and all(kept.get(sort, False) for sort in sorts)


def is_kept_at(used: ast.expr, node: ast.Attribute, view: View) -> bool:
    """Whether Dynamo keeps the number as it is where it is used, and makes no input of it."""
    if isinstance(used, ast.Compare) and any(map(gives_tensors, map(view.kind, (used.left, *used.comparators)))):
        return stay_constant(options(held(node, view)), view)  # `score > self.threshold` is arithmetic
    if isinstance(used, (ast.Compare, ast.Call)) or stay_constant(options(held(used, view)), view):
        return True
    return isinstance(used, ast.Subscript) and is_integer(held(used, view)) and of_module_or_global(node, view)


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """What a number is computed from."""
    if isinstance(node, ast.BinOp):
        yield from _terms(node.left)
        yield from _terms(node.right)
    elif isinstance(node, ast.UnaryOp):
        yield from _terms(node.operand)
    elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        yield node
