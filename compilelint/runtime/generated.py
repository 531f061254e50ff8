"""From code that Inductor wrote back to the program: which of its lines an operator call stems from.

While the context `marked_origins` is open, Inductor puts a comment with the program's stack before each call of an
operator that it has no kernel of its own for. Those are the calls that can wait for the GPU: copies between devices,
values read back, outputs of unknown size. The code itself stays as it is (torch 2.8 to 2.14).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from compilelint.model import Step
from compilelint.runtime.frames import inductor_wrote, parse_stack, user_owned

_MARK = "compilelint came from "


@contextmanager
def marked_origins() -> Iterator[None]:
    """Mark what is compiled while the context is open. Code out of a cache would have no marks: caches are off."""
    import torch._inductor.config as inductor
    import torch._inductor.scheduler as inductor_scheduler

    owner: Any = inductor_scheduler.Scheduler
    original = owner.codegen_extern_call
    with inductor.patch(force_disable_caches=True):
        mark_origins(inductor_scheduler)
        try:
            yield
        finally:
            owner.codegen_extern_call = original


def mark_origins(module: Any) -> None:
    """Mark what is compiled from now on, `module` being `torch._inductor.scheduler`."""
    original = module.Scheduler.codegen_extern_call

    def codegen_extern_call(scheduler: Any, scheduler_node: Any) -> Any:
        with contextlib.suppress(Exception):  # a call without a mark is at the line of the `def`
            _mark(scheduler_node)
        return original(scheduler, scheduler_node)

    module.Scheduler.codegen_extern_call = codegen_extern_call


def _mark(scheduler_node: Any) -> None:
    from torch._inductor.virtualized import V

    stack = [step for step in parse_stack(_trace_of(scheduler_node)) if user_owned(step.path)]
    if stack:
        wrapper: Any = V.graph.wrapper_code
        places = [[step.path, step.line, step.function] for step in stack]
        wrapper.make_comment(f"{wrapper.comment} {_MARK}{json.dumps(places)}")


def _trace_of(scheduler_node: Any) -> str:
    operation = getattr(scheduler_node, "node", None)
    sources = [getattr(operation, "origin_node", None), *getattr(operation, "origins", ())]
    traces = (source.meta.get("stack_trace") for source in sources if source is not None)
    return next((trace for trace in traces if trace), "")


def origin(path: str, line: int) -> tuple[Step, ...]:
    """The program's stack (outermost first) behind a line of generated code; empty for other code, or if unmarked."""
    if not inductor_wrote(path):
        return ()
    for text in reversed(_lines(path)[:line]):
        _, mark, places = text.partition(_MARK)
        if mark:
            return tuple(Step(*place) for place in json.loads(places))
        if text.startswith("def "):
            break
    return ()


@lru_cache(maxsize=256)
def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
