"""How many dimensions the result of a torch function has, where its arguments tell."""

from __future__ import annotations

from compilelint.static.values import NONE, UNKNOWN, Const, Scalar, Sequence, Tensor, Value, element_of, options

Keywords = dict[str, Value]

_SAME_RANK = frozenset(
    (
        "clone contiguous detach clamp abs neg relu exp log sqrt long int float bool half double to cuda cpu add "
        "sub mul div masked_fill bitwise_not logical_not sigmoid tanh sin cos round floor ceil requires_grad_ eq "
        "ne lt le gt ge isnan isinf isfinite logical_and logical_or zeros_like ones_like minimum maximum pow "
        "square type_as sign ceil_ floor_ clamp_ mul_ add_ cumsum cumprod flip roll argsort rsqrt reciprocal "
        "nan_to_num softmax log_softmax transpose"
    ).split()
)
_REDUCTIONS = frozenset(
    (
        "sum mean prod std var any all max min amax amin argmax argmin norm median nanmedian logsumexp count_nonzero "
        "nansum nanmean"
    ).split()
)
_BY_SECOND = frozenset("sum mean prod any all max min amax amin argmax argmin nansum nanmean median nanmedian".split())
"""Reductions whose second argument, the tensor counted, is the dimension, and whose third one keeps it."""
_VECTORS = frozenset(
    {"torch.arange", "torch.linspace", "torch.logspace", "torch.randperm", "torch.flatten", "torch.bincount"}
)
_MATRICES = frozenset(
    f"torch.{name}" for name in "eye outer tril_indices triu_indices combinations argwhere mm addmm cdist".split()
)
_SIZED = frozenset(
    {"torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn", "torch.full", "torch.randint"}
)
_RESHAPED = frozenset({"view", "reshape"})


def rank_of_result(
    name: str, tail: str, args: tuple[Value, ...], keywords: Keywords, like: Tensor | None
) -> int | None:
    """The rank of what `name(*args)` gives; of a method, the receiver comes first. None where nothing tells."""
    if name in _VECTORS or (tail == "flatten" and len(args) == 1):
        return 1
    if name in _MATRICES or (name == "torch.cartesian_prod" and len(args) > 1):
        return 2
    if name in ("torch.stack", "torch.cat"):
        inner = _rank_of_items(args[0] if args else keywords.get("tensors", UNKNOWN))
        return None if inner is None else inner + (name == "torch.stack")
    if tail == "unsqueeze" and args and isinstance(args[0], Tensor):
        return None if args[0].rank is None else args[0].rank + 1
    if tail in _REDUCTIONS and like is not None and len(args) == 1 and not keywords.keys() & {"dim", "axis"}:
        return 0
    if tail in _BY_SECOND:
        return reduced(args, keywords)
    if tail == "einsum":
        return _of_equation(args[0] if args else UNKNOWN)
    if name in _SIZED:
        return _rank_of_size(args)
    if tail in _RESHAPED and "*" not in keywords:
        return _rank_of_size(args[1:])
    if tail in _SAME_RANK and like is not None:
        others = [o.rank for a in args for o in options(a) if isinstance(o, Tensor)]
        return max(r for r in others if r is not None) if others and None not in others else None
    return None


def reduced(args: tuple[Value, ...], keywords: Keywords) -> int | None:
    """The rank of a tensor, the first argument, after a reduction over one dimension that is given as a number."""
    first = args[0] if args else UNKNOWN
    dimension = keywords.get("dim", keywords.get("axis", args[1] if len(args) > 1 else UNKNOWN))
    keeps = keywords.get("keepdim", keywords.get("keepdims", args[2] if len(args) > 2 else NONE))
    if not isinstance(first, Tensor) or first.rank is None or not isinstance(dimension, (Const, Scalar)):
        return None
    if dimension.type != "int" or not isinstance(keeps, Const):
        return None
    return first.rank if keeps.value else max(first.rank - 1, 0)


def _rank_of_items(value: Value) -> int | None:
    """The rank of the tensors that a list holds, where they have the same."""
    ranks = {o.rank if isinstance(o, Tensor) else None for held in options(value) for o in options(element_of(held))}
    return ranks.pop() if len(ranks) == 1 else None


def _of_equation(equation: Value) -> int | None:
    """`"bij,pij->bp"` gives a matrix."""
    text = equation.value if isinstance(equation, Const) else None
    if not isinstance(text, str) or "->" not in text or "." in text:
        return None
    return len(text.partition("->")[2].replace(" ", ""))


def _rank_of_size(args: tuple[Value, ...]) -> int | None:
    first = args[0] if args else UNKNOWN
    if isinstance(first, Sequence) and first.items is not None:
        return len(first.items)
    if args and all(isinstance(a, (Const, Scalar)) and a.type == "int" for a in args):
        return len(args)
    return None
