"""Let Dynamo trace one function and say what it did, as cheaply as can be.

Tracing is stopped at the first of two events: Dynamo announces a graph break through
`InstructionTranslatorBase.log_graph_break`, the one place that all of them pass (read in torch 2.13), or it hands a
finished graph to the backend. No guard and no resumed function is built, which makes a probe several times cheaper.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.misc import get_np_to_tnp_map
from torch.utils._python_dispatch import TorchDispatchMode

TAGS = ("data_dependent_output", "dynamic_output_shape")


class Stop(BaseException):
    """Ends a trace: Dynamo is about to break (`gb` is the break's id, if it has one) or has made a graph."""

    def __init__(self, broke: bool, gb: str | None = None) -> None:
        super().__init__()
        self.broke = broke
        self.gb = gb


def install() -> None:
    """Stop every trace at its first break. Meant for a process that traces probes and does nothing else."""

    def announce(self: Any, code_options: Any, reason: str, exc: Any) -> None:
        raise Stop(True, break_id(exc))

    InstructionTranslatorBase.log_graph_break = announce  # type: ignore[method-assign]


def break_id(exc: BaseException) -> str | None:
    """The id of a break; of a break met while handling another, the id of the first."""
    ids = dynamo_exc._load_gb_type_to_gb_id_map()
    first = re.split(r"\*\*\* While handling this graph break", str(getattr(exc, "msg", "")))[0].strip()
    kinds = (first.splitlines()[0].strip() if first else "", getattr(exc, "gb_type", None))
    return next((ids[kind] for kind in kinds if kind in ids), None)


def id_of(kind: str) -> str | None:
    """The id of a kind of break, by torch's name for it."""
    found: str | None = dynamo_exc._load_gb_type_to_gb_id_map().get(kind)
    return found


def trace(function: Callable[..., Any], given: list[Any], fullgraph: bool) -> str | None:
    """What Dynamo does with a call of `function`: None when it makes one graph, else the id of the break.

    "?" stands for a break, an error or a skipped frame without an id.
    """

    def finished(module: Any, example_inputs: Any) -> Any:
        raise Stop(False)

    try:
        torch.compile(function, backend=finished, fullgraph=fullgraph)(torch.ones(4), *given)
    except Stop as stop:
        return (stop.gb or "?") if stop.broke else None
    except Exception as exc:
        return break_id(exc) or "?"
    return "?"


class Tagged(TorchDispatchMode):
    """Collects the tags of the operators that an eager call dispatches."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tags: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.tags.update(tag.name for tag in func.tags if tag.name in TAGS)
        return func(*args, **(kwargs or {}))


def lookup(value: Any) -> str:
    """Dynamo's first answer about a callable: the short name of the variable class that would stand for it."""
    short = {"SkipFunctionVariable": "skip", "UserFunctionVariable": "inline", "TorchInGraphFunctionVariable": "torch"}
    try:
        answer = torch._dynamo.trace_rules.lookup(inspect.unwrap(value) if inspect.isfunction(value) else value)
    except Exception:
        return ""
    return short.get(answer.__name__, answer.__name__.removesuffix("Variable")) if answer is not None else ""


def has_counterpart(function: Any) -> bool:
    """Whether torch has a version of its own of a numpy function, which Dynamo puts in its place."""
    return function in get_np_to_tnp_map()
