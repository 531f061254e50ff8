"""Copies between the GPU and the host that ask not to wait and do: the memory on the host is not pinned.

CUDA can only copy in the background from and to memory that the system cannot move away; of other memory, the host
has to bring each piece to where that can be done.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from compilelint.model import Step

REASON = "The host waits here: this copy has non_blocking=True, but its memory on the host is not pinned."
_FROM_OR_TO_HOST = ("to", "cuda", "cpu")
_INTO = "copy_"


@contextmanager
def copies(place: Callable[[], tuple[Step, ...]]) -> Iterator[Counter[tuple[Step, ...]]]:
    """Count such copies while the context is open by what `place` says of where the program is (nothing: not counted).

    Methods of `torch.Tensor` are replaced meanwhile: code should have been compiled before.
    """
    import torch

    seen: Counter[tuple[Step, ...]] = Counter()

    def count() -> None:
        stack = place()
        if stack:
            seen[stack] += 1

    names = (*_FROM_OR_TO_HOST, _INTO)
    for name in names:
        setattr(torch.Tensor, name, _counted(getattr(torch.Tensor, name), name, count))
    try:
        yield seen
    finally:
        for name in names:
            delattr(torch.Tensor, name)  # what it inherits is seen again


def _counted(original: Any, name: str, count: Callable[[], None]) -> Any:
    @functools.wraps(original)
    def copied(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(tensor, *args, **kwargs)
        if _asks_not_to_wait(args, kwargs):
            source = tensor if name != _INTO else kwargs.get("src", args[0] if args else None)
            if waits(source, result):
                count()
        return result

    return copied


def _asks_not_to_wait(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`non_blocking` is the only or the first truth value among the arguments of these methods."""
    first = next((value for value in args if isinstance(value, bool)), False)
    return bool(kwargs.get("non_blocking", first))


def waits(source: Any, destination: Any) -> bool:
    """Whether a copy that asked not to wait does: one side is on the GPU, the other in memory that is not pinned."""
    sides = {side.device.type: side for side in (source, destination)}
    return set(sides) == {"cpu", "cuda"} and not sides["cpu"].is_pinned()
