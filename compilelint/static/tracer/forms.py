"""Functions of torch that return a tensor or a tuple of tensors, by a flag or a dimension they are given."""

from __future__ import annotations

from compilelint.static.tracer.ranks import reduced
from compilelint.static.values import NONE, Const, Sequence, Tensor, Value, options, tensors_in

Keywords = dict[str, Value]

_PAIRS = frozenset({"sort", "topk", "kthvalue", "mode", "cummax", "cummin"})
_KEEP_RANK = frozenset({"sort", "topk", "cummax", "cummin"})
_BY_DIMENSION = frozenset({"max", "min", "median", "nanmedian"})
_UNIQUE = {"unique": 2, "unique_consecutive": 1}
"""Where the flag `return_inverse` stands among the arguments after the tensor; `return_counts` follows it."""


def form_of_result(result: Value, tail: str, args: tuple[Value, ...], keywords: Keywords) -> Value:
    """`result` of `torch.<tail>`, or of the method, in the form that the arguments ask for; `args[0]` is the tensor.

    Source: the signatures in torch's documentation.
    """
    first = next((tensor for arg in args[:1] for tensor in tensors_in(arg)), None)
    if tail in _PAIRS or tail in _BY_DIMENSION:
        rank = first.rank if first is not None and tail in _KEEP_RANK else None
        if tail in _BY_DIMENSION and _has_dimension(args, keywords):
            rank = reduced(args, keywords)
        values = Tensor(first.element, rank, first.sure) if first is not None else Tensor()
        pair = Sequence("tuple", (values, Tensor("int", rank)))
        return pair if tail in _PAIRS or _has_dimension(args, keywords) else values
    if first is None:
        return result
    if tail == "nonzero":
        if _flag("as_tuple", 1, args, keywords):
            return Sequence("tuple", None, Tensor("int", 1, first.sure))
        return Tensor("int", 2, first.sure)
    if tail in _UNIQUE:
        place = _UNIQUE[tail]
        whole = keywords.get("dim", args[place + 2] if len(args) > place + 2 else NONE) == NONE
        parts = (("return_inverse", place, first.rank if whole else 1), ("return_counts", place + 1, 1))
        extra = tuple(Tensor("int", rank) for name, position, rank in parts if _flag(name, position, args, keywords))
        values = Tensor(first.element, 1 if whole else first.rank, first.sure)
        return Sequence("tuple", (values, *extra)) if extra else values
    if "max_pool" in tail and "unpool" not in tail:
        values = Tensor(first.element, first.rank, first.sure)
        return Sequence("tuple", (values, Tensor("int"))) if _flag("return_indices", -1, args, keywords) else values
    return result


def _has_dimension(args: tuple[Value, ...], keywords: Keywords) -> bool:
    """`x.max(1)`, `x.max(dim=1)`; `x.max()` and `torch.max(x, y)` have none."""
    second = args[1] if len(args) > 1 else keywords.get("other", NONE)
    return "dim" in keywords or (len(args) > 1 and not any(isinstance(o, Tensor) for o in options(second)))


def _flag(name: str, position: int, args: tuple[Value, ...], keywords: Keywords) -> bool:
    """Whether a flag is given as True; `position` counts the tensor as 0, below 0 it is a keyword only."""
    value = keywords.get(name, args[position] if 0 < position < len(args) else NONE)
    return value == Const(True)
