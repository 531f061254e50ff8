"""What a user writes down to have something compiled and watched: a callable and the arguments of successive calls.

Imports nothing but the standard library, so that a project can build its targets where torch is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class Call:
    """The arguments of one call, for calls that need keywords beside positional arguments: `Call(x, mask=m)`."""

    __slots__ = ("args", "kwargs")

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


@dataclass(frozen=True)
class Target:
    """A callable to compile and the arguments of successive calls to it.

    `model` is a module or any other callable. Each element of `calls` is one call, in order: a tuple holds positional
    arguments (`(x,)`), a mapping holds keyword arguments (`{"input_ids": ids}`), `Call(x, mask=m)` holds both. Vary
    the calls as production does: a recompile only shows from the second call on.

    `compile=False` says that the callable calls `torch.compile` itself, as a generate loop or an engine step does.

    `decode` is a decode loop. It is called with one argument, the compiled `model` (with `compile=False`: `model`),
    after the calls: `decode=lambda model: generate(model, prompt, tokens=8)`. On a GPU its host syncs are counted.

    Raises TypeError for a model that cannot be called, or a call that is none of the three forms.
    """

    model: Callable[..., Any]
    calls: Sequence[tuple[Any, ...] | Mapping[str, Any] | Call] = ()
    compile: bool = True
    decode: Callable[[Any], Any] | None = None
    arguments: tuple[Call, ...] = field(init=False, repr=False, compare=False)
    """The calls in one form, made from `calls`."""

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise TypeError(f"Target: the model is of type {type(self.model).__name__}, not a module or function")
        if self.decode is not None and not callable(self.decode):
            raise TypeError(f"Target: decode is of type {type(self.decode).__name__}, not a function of the model")
        object.__setattr__(self, "arguments", tuple(_as_call(at, call) for at, call in enumerate(self.calls, 1)))


def _as_call(at: int, call: object) -> Call:
    if isinstance(call, Call):
        return call
    if isinstance(call, tuple):
        return Call(*call)
    if isinstance(call, Mapping):
        return Call(**call)
    raise TypeError(
        f"Target: call {at} is of type {type(call).__name__}; give a tuple of positional arguments, such as (x,), "
        "a mapping of keyword arguments, or Call(x, mask=m)"
    )
