"""Whether an edited function still gives all others what it gave when their outcomes were kept."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import product
from pathlib import Path

from compilelint.knowledge.table import Table
from compilelint.record import record
from compilelint.rule import Checkpointed
from compilelint.static.flagging.flag import Flagger
from compilelint.static.flagging.view import FrameView
from compilelint.static.project import contents
from compilelint.static.project.definitions import ClassRef, FunctionRef, class_inside, function_inside
from compilelint.static.project.parts import CODE, HEAD, STARTS, SURFACE, function_of
from compilelint.static.project.program import Program
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer.transcripts import ReplayingTracer, Told, replay
from compilelint.static.tracer.written import Reader, Writer
from compilelint.static.units.reading import name_of, number_of, readings
from compilelint.static.units.work import NAMES, Reading, Task
from compilelint.static.values import Function


@record(frozen=True, slots=True)
class Read:
    """What was read for a function: of which files what, and the files that were looked for and not there.

    `lines` are those of the file on which it makes its calls now, by the lines of its body on which it made them, and
    `told` is what is kept of it with these.
    """

    files: Mapping[str, Reading]
    absent: frozenset[str]
    lines: Mapping[int, int]
    told: str

    def is_part_of(self, kept: Mapping[str, Reading], absent: Collection[str], function: str) -> bool:
        """Whether all of it had been read when an outcome was kept, what is the `function`'s own left out."""
        for path, reading in self.files.items():
            parts = {part for part in reading.parts if function_of(part) != function}
            was = kept.get(path)
            if was is not None and CODE in was.parts:
                parts = {part for part in parts if part in (HEAD, STARTS)}  # all others are made of the code
            elif was is not None and SURFACE in was.parts:
                parts.discard(NAMES)  # all that a file binds is in its surface
            if was is None or (
                was.parts and not (reading.parts and parts <= was.parts.keys())
            ):  # no parts stand for all
                return False
        return self.absent <= set(absent)


class _ViewFromAnywhere(FrameView):
    """No code was seen to drive or compile this frame. What else rules ask about its callers raises
    `transcripts.CallerMattersError`. Under checkpointing they say the most."""

    entered = False
    options: Mapping[str, object] = {}
    checkpointed = Checkpointed(direct=True, optional=False)


_VIEWS = tuple(
    type(f"_View{number}", (_ViewFromAnywhere,), {"assumed": assumed, "same_self": same, "of_module": of_module})
    for number, (assumed, same, of_module) in enumerate(product((True, False), repeat=3))
)
"""Whatever region leads to a frame, and from whichever object."""


class Retrial:
    """Walks functions again as they were walked, see `tracer.transcripts`. `names` are the linted modules by path."""

    def __init__(
        self,
        program: Program,
        names: Mapping[str, str],
        table: Table,
        flagger: Callable[[], Flagger],
        shown: Callable[[Path], str],
        base: Path,
    ) -> None:
        self._program = program
        self._names = names
        self._table = table
        self._flagger = flagger
        self._shown = shown
        self._base = base

    def read(self, path: str, name: str, text: str) -> Read | None:
        """What the function `name` of a file reads today where it was walked as `text` tells.

        None where that can be told from outside, or rules have something to say about it or to ask about its calls.
        """
        program = self._program
        program.begin()
        module = self._names.get(path, "")
        ref = self._function(module, name)
        index = program.module(module)
        if ref is None or index is None:
            return None
        told = json.loads(text)
        places: dict[int, int] = {}
        writer = Writer(partial(name_of, program=program), told["table"], places)
        reader = Reader(told["table"], self._function, self._class_named, places)
        tracer = ReplayingTracer(program, self._table, _unseen, self._base, writer=writer, reader=reader)
        try:
            frames = replay(told, ref, index, tracer)
            if frames is None:
                return None
            flagger = self._flagger()
            if flagger.is_of_concern(Function(ref)):  # then rules have something to ask where it is called
                return None
            if told["shown"] and not all(flagger.is_silent(frame, view) for frame, _ in frames for view in _VIEWS):
                return None
        except Exception:  # callers matter, or it is a mistake of ours, which is told where the function is walked
            return None
        files = readings(program, Task(()), (), self._shown, flagger.pattern)
        absent = frozenset(path.as_posix() for path in program.absent)
        lines = [lines for _, lines in frames]
        return Read(files, absent, _moved_calls(told, lines, ref), self._told_now(text, lines, ref))

    def _told_now(self, text: str, lines: list[list[int]], ref: FunctionRef) -> str:
        """What is kept of a function whose calls stand on other lines now."""
        told = json.loads(text)
        for frame, now in zip(told["frames"], lines, strict=True):
            frame[-1] = [number_of(self._program, ref, line) for line in now]
        return json.dumps(told, separators=(",", ":"))

    def _function(self, module: str, name: str) -> FunctionRef | None:
        index = self._program.module(module)
        if index is None:
            return None
        found = (ref for ref in contents.functions(index) if name_of(ref, self._program) == name)
        return next(found, None) or function_inside(index, name)

    def _class_named(self, module: str, qualname: str) -> ClassRef | None:
        index = self._program.module(module)
        first, *inner = qualname.split(".")
        found = contents.classes(index) if index is not None else ()
        ref = next((ref for ref in found if ref.qualname == first), None)
        for name in inner:
            ref = ref and class_inside(ref, name)
        return ref


def _moved_calls(told: Told, lines: list[list[int]], ref: FunctionRef) -> dict[int, int]:
    """Where the calls of each line of a body are now. Not of those that are on several lines now, and of none where
    there is a lambda, whose calls are on lines of the body too."""
    found: dict[int, set[int]] = {}
    for frame, now in zip(told["frames"], lines, strict=True):
        for number, line in zip(frame[-1], now, strict=True):
            found.setdefault(number, set()).add(line)
    if any(isinstance(node, ast.Lambda) for node in nodes_in(ref.node)):
        return {}
    return {number: min(places) for number, places in found.items() if number >= 0 and len(places) == 1}


def _unseen(_: object) -> None:
    """What is walked again is shown to nobody."""
