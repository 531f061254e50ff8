"""Whether an edited function still gives all others what it gave when their outcomes were kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from compilelint.knowledge.table import Table
from compilelint.record import record
from compilelint.static.flagging.flag import Flagger
from compilelint.static.flagging.view import FrameView
from compilelint.static.project import contents
from compilelint.static.project.parts import function_of
from compilelint.static.project.program import Program
from compilelint.static.tracer.frame import Frame
from compilelint.static.tracer.plain import NotingTracer, Plain, repeated
from compilelint.static.units.reading import readings
from compilelint.static.units.work import Reading, Task
from compilelint.static.values import Function


@record(frozen=True, slots=True)
class Read:
    """What was read for a function: of which files what, and the files that were looked for and not there."""

    files: Mapping[str, Reading]
    absent: frozenset[str]

    def is_part_of(self, kept: Mapping[str, Reading], absent: Collection[str], function: str) -> bool:
        """Whether all of it had been read when an outcome was kept, what is the `function`'s own left out."""
        for path, reading in self.files.items():
            parts = {part for part in reading.parts if function_of(part) != function}
            was = kept.get(path)
            if was is None or (
                was.parts and not (reading.parts and parts <= was.parts.keys())
            ):  # no parts stand for all
                return False
        return self.absent <= set(absent)


class CallerMattersError(Exception):
    """What a rule says hangs on who leads to the function."""


class _Anybody:
    """Stands for a caller of whom nothing is known."""

    def __getattr__(self, name: str) -> Any:
        raise CallerMattersError(name)


class _ViewFromAnywhere(FrameView):
    """No code was seen to drive or compile this frame. A rule that asks for callers raises CallerMattersError."""

    entered = False
    options: Mapping[str, object] = {}


class Retrial:
    """Runs plain functions again, see `tracer.plain`. `names` are the linted modules by path."""

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

    def read(self, path: str, name: str, plain: Plain) -> Read | None:
        """What the function `name` of a file reads today for the calls that `plain` tells of.

        None where it gives something else than it says there, is not plain any more, or rules have something to
        say about it or to ask about its calls.
        """
        self._program.begin()
        module = self._program.module(self._names[path]) if path in self._names else None
        refs = [ref for ref in contents.functions(module) if ref.qualname == name] if module is not None else []
        if len(refs) != 1:
            return None
        frames: list[Frame] = []
        tracer = NotingTracer(self._program, self._table, frames.append, self._base)
        try:
            if json.dumps(repeated(plain, refs[0], tracer)) != json.dumps(plain):
                return None
            flagger = self._flagger()
            if flagger.is_of_concern(Function(refs[0])):  # then rules have something to ask where it is called
                return None
            for frame in frames if plain["shown"] else ():
                frame.caller = _Anybody()  # type: ignore[assignment]
                if not flagger.is_silent(frame, _ViewFromAnywhere):
                    return None
        except Exception:  # callers matter, or it is a mistake of ours, which is told where the function is walked
            return None
        files = readings(self._program, Task(()), (), self._shown, flagger.pattern)
        return Read(files, frozenset(path.as_posix() for path in self._program.absent))
