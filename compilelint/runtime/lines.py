"""Which lines of the user's code a piece of work executes. Cheap where Python allows (3.12: each line reports once)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from compilelint.runtime.frames import absolute, user_owned

_TOOL_IDS = (4, 3, 0)  # ids of sys.monitoring that neither coverage nor a profiler takes, then the debugger's


@contextmanager
def executed_lines() -> Iterator[dict[str, set[int]]]:
    """Collect the executed lines (1-based, by absolute path) of the user's files while the context is open."""
    seen: dict[str, set[int]] = {}
    if sys.version_info >= (3, 12):
        with _monitored(seen):
            yield seen
    else:
        with _traced(seen):
            yield seen


def _note(seen: dict[str, set[int]], code: CodeType, line: int) -> None:
    seen.setdefault(absolute(code.co_filename), set()).add(line)


@contextmanager
def _monitored(seen: dict[str, set[int]]) -> Iterator[None]:
    watch: Any = getattr(sys, "monitoring")  # noqa: B009 (new in 3.12; the type checker runs for 3.10)
    tool = next((number for number in _TOOL_IDS if watch.get_tool(number) is None), None)
    if tool is None:
        yield
        return

    def on_line(code: CodeType, line: int) -> object:
        if user_owned(code.co_filename):
            _note(seen, code, line)
        return watch.DISABLE

    watch.use_tool_id(tool, "compilelint")
    watch.register_callback(tool, watch.events.LINE, on_line)
    watch.set_events(tool, watch.events.LINE)
    try:
        yield
    finally:
        watch.set_events(tool, 0)
        watch.register_callback(tool, watch.events.LINE, None)
        watch.free_tool_id(tool)


@contextmanager
def _traced(seen: dict[str, set[int]]) -> Iterator[None]:
    codes: dict[int, tuple[CodeType, set[int], set[int]]] = {}
    """By identity (hashing a code object reads all of it): the code, its lines yet to run, and those its file ran."""

    def on_call(frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if id(code) not in codes:
            codes[id(code)] = _watched(code, seen)
        _, missing, lines = codes[id(code)]
        if not missing:
            return None

        def on_line(frame: FrameType, event: str, argument: object) -> Any:
            if event == "line":
                missing.discard(frame.f_lineno)
                lines.add(frame.f_lineno)
            return on_line

        return on_line

    before = sys.gettrace()
    threading.settrace(on_call)
    sys.settrace(on_call)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)  # None switches it off


def _watched(code: CodeType, seen: dict[str, set[int]]) -> tuple[CodeType, set[int], set[int]]:
    if not user_owned(code.co_filename):
        return code, set(), set()
    missing = {line for _, _, line in code.co_lines() if line}
    return code, missing, seen.setdefault(absolute(code.co_filename), set())
