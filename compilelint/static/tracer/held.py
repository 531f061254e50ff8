"""Frames walked on an assumption: kept back until it is known whether rules may look at them.

A public function of which nothing says that it is compiled is walked to see what it returns. If that speaks against it,
its frames stay here, so that a later root which leads to the same functions shows them without walking them again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from compilelint.static.project.compiled_names import compiles_parameter
from compilelint.static.project.definitions import FunctionRef, is_small
from compilelint.static.project.index import Scope
from compilelint.static.tracer.frame import Frame, Mode
from compilelint.static.values import Closure


class Way:
    """One way of running a function: how, with which enclosing variables (by identity), and with which argument kinds.

    A key whose hash is worked out once.
    """

    __slots__ = ("_arguments", "_hash", "closure", "mode", "ref")

    def __init__(self, ref: FunctionRef, mode: Mode, closure: Closure | None, arguments: object) -> None:
        self.ref = ref
        self.mode = mode
        self.closure = closure
        self._arguments = arguments
        self._hash = hash((ref, mode, arguments))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Way)
            and self._hash == other._hash
            and self.mode == other.mode
            and self.closure is other.closure
            and self.ref == other.ref
            and self._arguments == other._arguments
        )


MAX_WAYS = 10
"""A function called in more ways than this is not walked again; the earlier ways' results are joined."""
MAX_SMALL_WAYS = 300
"""A small function (`default(value, fallback)`) is cheap to walk and means nothing on average: it gets more ways."""


def most_ways(ref: FunctionRef) -> int:
    """In how many ways a function is walked; what compiles its argument is a region of its own for each."""
    return MAX_SMALL_WAYS if is_small(ref.node) or _compiles_parameter(ref.node) else MAX_WAYS


@lru_cache(maxsize=1024)
def _compiles_parameter(node: Scope) -> bool:
    return compiles_parameter(node)


class HeldFrames:
    """The frames nobody has looked at, and which ways each of them entered."""

    def __init__(self) -> None:
        self._frames: dict[Way, Frame] = {}
        self._entered: dict[Frame, list[tuple[Way, ast.AST | None]]] = {}
        self._driving: set[Way] = set()

    def clear(self) -> None:
        """Let go of all frames, which hold the tracer that holds them."""
        self._frames.clear()
        self._entered.clear()
        self._driving.clear()

    def hold(self, way: Way, frame: Frame) -> None:
        """Keep a finished frame."""
        self._frames[way] = frame

    def note(self, caller: Frame, way: Way, site: ast.AST | None) -> None:
        """`caller` enters `way` at `site`, whether that is walked now or was before."""
        self._entered.setdefault(caller, []).append((way, site))

    def drives(self, way: Way) -> bool:
        """Whether a frame that is or was kept here drives models, see `Frame.mark_driver`."""
        frame = self._frames.get(way)
        return way in self._driving or (frame is not None and frame.drives)

    def leading(self, way: Way, why: str) -> Iterator[tuple[Way, Frame]]:
        """The frames that a root leads to, callees first, each with the call path from this root.

        Those that have been taken are not among them.
        """
        root = self._frames.get(way)
        if root is not None:
            root.caller, root.site, root.why = None, None, why
            yield from self._below(way, root, set())

    def take(self, way: Way) -> None:
        """Keep a frame no longer: it has been shown, and is not to be shown again for another root."""
        frame = self._frames.pop(way)
        self._entered.pop(frame, None)
        if frame.drives:
            self._driving.add(way)

    def _below(self, way: Way, frame: Frame, seen: set[Way]) -> Iterator[tuple[Way, Frame]]:
        seen.add(way)
        for called, site in self._entered.get(frame, ()):
            inner = self._frames.get(called)
            if inner is not None and called not in seen:
                inner.caller, inner.site = frame, site
                yield from self._below(called, inner, seen)
        yield way, frame
