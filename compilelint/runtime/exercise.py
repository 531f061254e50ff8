"""Having a target and using it: building it afresh, compiling it under our terms, making its calls."""

from __future__ import annotations

import functools
import importlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from compilelint.runtime import device as devices
from compilelint.runtime import huggingface
from compilelint.runtime.target import Target

_SEED = 1000


@dataclass(frozen=True)
class Job:
    """What a pass needs: where the target comes from, the device wished for, and where its records go.

    `results` says whether what calls return is recorded too, `everywhere` whether the device is torch's default one
    meanwhile, so that a tensor made without naming a device is there as well.
    """

    name: str
    factory: str
    device: str
    records: str
    results: bool = False
    everywhere: bool = False


class TargetError(Exception):
    """The target cannot be had. `status` is `missing` or `failed`."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def device_of(job: Job) -> str:
    """The device to run on. Raises TargetError if the one wished for isn't there."""
    try:
        return devices.choose(job.device)
    except RuntimeError as error:
        raise TargetError("failed", str(error)) from None


def build(job: Job) -> Target:
    """Call the factory and bring what it makes to the device. Seeded: every pass sees the same weights and inputs.

    Raises TargetError if there is no such factory or it returns something else; else whatever the factory raises.
    """
    import torch

    seed(0)
    if job.everywhere:
        torch.set_default_device(device_of(job))
    target = _from_class(job.factory) if job.factory.startswith(huggingface.PREFIX) else _load(job.factory)()
    if not isinstance(target, Target):
        kind = type(target).__name__
        raise TargetError("failed", f"{job.factory} returned something of type {kind}; return a compilelint.Target")
    return devices.place(target, device_of(job))


def call_all(
    model: Callable[..., Any], target: Target, on_result: Callable[[Any], None] | None = None
) -> Iterator[tuple[int, Exception | None]]:
    """Make the target's calls, then run its decode loop; yields each call's number, from 1, and what it raised.

    What a call returns is given to `on_result` and then dropped: a result that lives on changes what CUDA graphs do.
    Each call starts from a seed of its own, so that branches on random numbers go the same way in every pass.
    """
    calls = [functools.partial(model, *call.args, **call.kwargs) for call in target.arguments]
    if target.decode is not None:
        calls.append(functools.partial(target.decode, model))
    for number, call in enumerate(calls, 1):
        seed(number - 1)
        error = None
        try:
            result = call()
        except Exception as raised:
            error = raised
        else:
            if on_result is not None:
                on_result(result)
            del result
        yield number, error


@contextmanager
def compiling(**terms: Any) -> Iterator[Callable[..., Any]]:
    """Let every `torch.compile`, the program's own and the one given here, compile under these terms.

    `terms` replace what the program says: `fullgraph`, `backend` and `mode`. A `backend` or `mode` given here also
    drops the program's mode and options, which belong to its own. What else it says (`dynamic`, `disable`) is kept.
    """
    import torch

    original = torch.compile

    def compile_under_terms(model: Any = None, **options: Any) -> Any:
        if terms.keys() & {"backend", "mode"}:
            options.pop("mode", None)
            options.pop("options", None)
        options.update(terms)
        if model is None:
            return lambda function: original(function, **options)
        return original(model, **options)

    torch.compile = compile_under_terms
    try:
        yield compile_under_terms
    finally:
        torch.compile = original


def import_target(factory: str) -> None:
    """Import what the factory is in. Raises what that raises, and TargetError and BuildError where it isn't there."""
    if factory.startswith(huggingface.PREFIX):
        huggingface.class_of(factory)
    else:
        _load(factory)


def _from_class(name: str) -> Target:
    try:
        return huggingface.target(name)
    except huggingface.BuildError as error:
        raise TargetError("failed", str(error)) from None


def _load(factory: str) -> Callable[[], object]:
    module_name, _, attribute = factory.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            folders = os.pathsep.join(dict.fromkeys(sys.path[:3]))
            raise TargetError("missing", f"there is no module {error.name} on {folders}") from None
        raise
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        wanted = attribute or "(none named)"
        raise TargetError(
            "missing", f"module {module_name} has no function {wanted}; name the factory as pkg.module:function"
        )
    maker: Callable[[], object] = found
    return maker


def seed(call: int) -> None:
    """Start the random numbers of torch, Python and numpy for a call; 0 for what comes before the first."""
    import torch

    torch.random.manual_seed(_SEED + call)
    random.seed(_SEED + call)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(_SEED + call)
