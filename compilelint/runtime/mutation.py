"""Where compiled functions write to their inputs: what keeps a CUDA graph from being recorded.

torch's message about mutated inputs names one of the places, and for a graph that is split into partitions none (torch
2.11). The graph that Dynamo hands to Inductor has them all.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from compilelint.model import Step
from compilelint.runtime.capture import CodeKey, key_of
from compilelint.runtime.frames import parse_stack, user_owned
from compilelint.runtime.rewritten import Compilation

Stack = tuple[Step, ...]

_IN_PLACE = (
    operator.setitem,
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.imatmul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
    operator.iand,
    operator.ior,
    operator.ixor,
    operator.ilshift,
    operator.irshift,
)
_STATIC = "_dynamo_static_input_type"
"""What torch marks a tensor with whose address won't change: parameters, buffers, `mark_static_address`."""


class InputWrites:
    """The places, graph by graph, that write to inputs whose address is not fixed. Stacks are outermost first."""

    def __init__(self, compilation: Compilation | None = None) -> None:
        self._graphs: list[tuple[CodeKey | None, tuple[Stack, ...]]] = []
        self._compilation = compilation or Compilation()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read every graph that Inductor compiles while the context is open, and note whose it is."""
        import torch._inductor.compile_fx

        owner: Any = torch._inductor.compile_fx
        original = owner.compile_fx
        self.read_graphs_of(owner)
        try:
            with self._compilation.watching():
                yield
        finally:
            owner.compile_fx = original

    def read_graphs_of(self, module: Any) -> None:
        """Read every graph that `module` compiles from now on, `module` being `torch._inductor.compile_fx`."""
        original = module.compile_fx

        def compile_fx(graph_module: Any, *args: Any, **kwargs: Any) -> Any:
            self.add(getattr(graph_module, "graph", None))
            return original(graph_module, *args, **kwargs)

        module.compile_fx = compile_fx

    def add(self, graph: Any) -> None:
        """Read one graph as Dynamo traced it (a `torch.fx.Graph`; anything else is passed over)."""
        inputs: set[int] = set()
        stacks: dict[Stack, None] = {}
        for node in getattr(graph, "nodes", ()):
            if node.op == "placeholder":
                if _STATIC not in (node.meta.get("tensor_dict") or {}):
                    inputs.update(_storages(node))
            elif any(inputs.intersection(_storages(written)) for written in _written(node)):
                stack = tuple(step for step in parse_stack(node.stack_trace or "") if user_owned(step.path))
                if stack:
                    stacks[stack] = None
        self._graphs.append((self._compilation.key, tuple(stacks)))

    def beside(self, stack: Stack) -> tuple[Stack, ...]:
        """All places in the graphs that write at this place; the place alone if there is no such graph."""
        graphs = [places for _, places in self._graphs if stack in places]
        return tuple(dict.fromkeys(found for places in graphs for found in places)) or (stack,)

    def within(self, code: CodeType) -> tuple[Stack, ...]:
        """All places in the graphs of this function, given as it was or as Dynamo rewrote it."""
        return tuple(dict.fromkeys(found for key, places in self._graphs if key == key_of(code) for found in places))


def _storages(node: Any) -> Iterator[int]:
    """The memory behind a node's value, by identity; a view has that of its base."""
    import torch

    value = getattr(node, "meta", {}).get("example_value")
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        yield value.untyped_storage()._cdata


def _written(node: Any) -> Iterator[Any]:
    """The arguments that a call in the graph writes to."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place or node.target in _IN_PLACE or node.kwargs.get("inplace") is True:
        yield from node.args[:1]
    elif hasattr(node.target, "_schema"):
        for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
            if argument.is_write:
                yield value
    if node.kwargs.get("out") is not None:
        yield node.kwargs["out"]
