"""What a call returned, in so few numbers that two runs in two processes can be compared.

Of a floating-point tensor three sums are kept: of its elements, of its elements weighted by position (so that a swap
shows), and of their absolute values, which says how exact the other two can be.
"""

from __future__ import annotations

from typing import Any

from compilelint.model import Leaf


def leaves(value: Any) -> list[Leaf]:
    """Each tensor, number and text in what a call returned, in the order of torch's own containers.

    Objects of other types are passed over: nothing is known about how to compare them.
    """
    from torch.utils._pytree import tree_leaves

    return [leaf for part in tree_leaves(value) if (leaf := _leaf(part)) is not None]


def raised(error: BaseException) -> list[Leaf]:
    """What stands for the result of a call that raised."""
    return [(f"raised {type(error).__name__}", ())]


def _leaf(value: Any) -> Leaf | None:
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, float):
        return "float", (value, value, abs(value))
    return (repr(value), ()) if isinstance(value, (bool, int, str, bytes, type(None))) else None


def _tensor(value: Any) -> Leaf:
    import torch

    kind = f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
    if value.layout != torch.strided or value.is_complex() or value.device.type == "meta" or value.is_quantized:
        return kind, ()
    with torch.no_grad():
        flat = value.detach().double().reshape(-1).cpu()
        weights = torch.arange(1, flat.numel() + 1, dtype=torch.float64).cos()
        return kind, (float(flat.sum()), float((flat * weights).sum()), float(flat.abs().sum()))
