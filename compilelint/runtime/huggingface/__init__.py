"""Targets by the name of a Hugging Face class: `hf:LlamaForCausalLM` is a small one with random weights.

`.train` behind the name trains it with labels, `.generate` runs its decode loop with a compiled `forward`, as the
transformers documentation has it (https://huggingface.co/docs/transformers/llm_optims).
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable
from typing import Any

from compilelint.runtime.breaks import one_line
from compilelint.runtime.huggingface.inputs import CALLS, Offer, labelled, offers
from compilelint.runtime.huggingface.shrink import small_configs
from compilelint.runtime.target import Target

PREFIX = "hf:"
_WAYS = ("", "train", "generate")
_MOST_PARAMETERS = 200_000_000
_NEW_TOKENS = 4
_DECODERS = ("ForCausalLM", "LMHeadModel", "WithLMHead")


class BuildError(Exception):
    """There is no such class, or it cannot be made small and called; the message says why and what to do instead."""


def target(name: str) -> Target:
    """The target for `hf:CLASS`, `hf:CLASS.train` or `hf:CLASS.generate`, CLASS being one of `transformers`.

    Its calls differ in length or, where an input has a fixed size, in batch size. Raises BuildError.
    """
    class_name, _, way = name.removeprefix(PREFIX).partition(".")
    if way not in _WAYS:
        raise BuildError(f"{name}: after the class comes .train or .generate, or nothing")
    model_class = class_of(name)
    refusals: list[Exception] = []
    for small_config in small_configs(model_class.config_class, decoder=class_name.endswith(_DECODERS)):
        try:
            config = small_config()
            if _parameters(model_class, config) > _MOST_PARAMETERS:
                continue
            offer = _accepted(_model(model_class, config, way), way, refusals)
        except Exception as error:
            refusals.append(error)
            continue
        if offer is not None:  # the model that was tried may have kept something of the trial
            return _target(_model(model_class, config, way), way, offer)
    why = _line(refusals[0]) if refusals else "its smallest form is large, or takes inputs that are not known"
    raise BuildError(
        f"{class_name} can't be made small and called without knowing it ({why}); "
        "write a function that returns compilelint.Target(model, calls=[...]) and name that"
    )


def class_of(name: str) -> Any:
    """The class that `hf:CLASS` names, with or without .train or .generate behind it. Raises BuildError."""
    name = name.removeprefix(PREFIX).partition(".")[0]
    try:
        import transformers
    except ImportError as error:
        raise BuildError(f"hf: targets need transformers ({_line(error)}): pip install transformers") from None
    try:
        found = getattr(transformers, name, None)
    except ImportError as error:
        raise BuildError(f"transformers can't import {name}: {_line(error.__cause__ or error)}") from None
    if lacking := getattr(found, "_backends", None):  # what stands in for a class whose libraries aren't there
        raise BuildError(f"{name} needs {' and '.join(lacking)}; install what of that is missing")
    if not isinstance(found, type) or not issubclass(found, transformers.PreTrainedModel):
        raise BuildError(f"transformers has no model class {name}{_closest(name, dir(transformers))}")
    if getattr(found, "config_class", None) is None:
        raise BuildError(f"{name} has no configuration of its own; name a class that ends in Model or For...")
    return found


def _closest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, (other for other in known if not other.endswith("Config")), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _parameters(model_class: Any, config: Any) -> int:
    import torch

    with torch.device("meta"):  # shapes without memory
        return sum(parameter.numel() for parameter in model_class(config).parameters())


def _model(model_class: Any, config: Any, way: str) -> Any:
    model = model_class(config)
    return model.train() if way == "train" else model.eval().requires_grad_(False)


def _callable(model: Any, way: str) -> Callable[..., Any]:
    if way == "generate":
        return functools.partial(model.generate, max_new_tokens=_NEW_TOKENS, do_sample=False)
    return model  # type: ignore[no-any-return]


def _accepted(model: Any, way: str, refusals: list[Exception]) -> Offer | None:
    """The first offer with which all calls go through; what was raised until then goes to `refusals`."""
    import torch

    run = _callable(model, way)
    for offer in labelled(model) if way == "train" else offers(model):
        try:
            with torch.no_grad():
                for call in range(CALLS):
                    run(**offer(call))
        except Exception as error:
            refusals.append(error)
            continue
        return offer
    return None


def _target(model: Any, way: str, offer: Offer) -> Target:
    import torch

    calls = [offer(call) for call in range(CALLS)]
    if way != "generate":
        return Target(model, calls)
    model.forward = torch.compile(model.forward)
    last = calls.pop()
    return Target(_callable(model, way), calls, compile=False, decode=lambda generate: generate(**last))


def _line(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}", 120)
