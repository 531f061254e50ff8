"""Functions that Dynamo rewrote: which of them is being compiled, and where one that runs really is.

The code that Dynamo puts in a function's place keeps the function's name and first line, but of the other lines only
those behind a break (torch 2.8 to 2.14): what happens before that is at the line of the `def`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from compilelint.model import Channel, Evidence, Step
from compilelint.runtime.capture import CodeKey, DynamoWatch, key_of
from compilelint.runtime.frames import absolute, line_in, plain_name
from compilelint.runtime.wire import Recorder


class Compilation:
    """Knows, while it is watching, which function Dynamo compiles: `key` is None before the first."""

    def __init__(self) -> None:
        self.key: CodeKey | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow Dynamo while the context is open."""
        import torch._dynamo.convert_frame as convert_frame  # also while that is being imported

        owner: Any = convert_frame
        original = owner._compile

        def _compile(code: CodeType, *args: Any, **kwargs: Any) -> Any:
            self.key = key_of(code)
            return original(code, *args, **kwargs)

        owner._compile = _compile
        try:
            yield
        finally:
            owner._compile = original


class FirstBreaks(Recorder):
    """Hears of graph breaks instead of writing them down, and keeps the line of each function's first."""

    def __init__(self) -> None:
        super().__init__(os.devnull, "")
        self.compilation = Compilation()
        self._lines: dict[CodeKey, int] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Listen while the context is open."""
        with self.compilation.watching(), DynamoWatch(self):
            yield

    def observe(self, channel: Channel, place: Step, reason: str, **fields: Any) -> Evidence:
        """Take note of a break: its stack leads through the function that is being compiled."""
        self.note(channel, fields.get("stack", ()))
        return super().observe(channel, place, reason, **fields)

    def note(self, channel: Channel, stack: Sequence[Step]) -> None:
        """Take note of what was observed while a function was compiled."""
        key = self.compilation.key
        if channel == "graph-break" and key is not None:
            own = (absolute(key[0]), plain_name(key[2]))
            lines = [step.line for step in stack if (step.path, step.function) == own]
            if lines:
                self._lines.setdefault(key, lines[-1])

    def line_of(self, frame: FrameType) -> int:
        """The line a frame is at; where that is the `def`, the line of the break that ended its first graph."""
        if frame.f_lineno != frame.f_code.co_firstlineno:
            return frame.f_lineno
        return self._lines.get(key_of(frame.f_code)) or line_in(frame)
