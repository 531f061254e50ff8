"""Watching Dynamo from inside the process that compiles: breaks, frame skips, recompiles, and the lines it traced.

Each observer hangs on one place of torch, found by name in torch 2.8 to 2.14. Where a torch lacks the place, the
observer says so and the others go on. Observing changes nothing that Dynamo does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from compilelint.model import Channel, Evidence, Step
from compilelint.runtime import breaks, guards
from compilelint.runtime.failures import place_of_error
from compilelint.runtime.frames import absolute, definition_line, plain_name, user_owned, user_stack
from compilelint.runtime.loggers import ListenedTo
from compilelint.runtime.wire import Recorder

CodeKey = tuple[str, int, str]
"""The file, first line and name of a function: what it has in common with the code that Dynamo makes of it."""

_LIMIT_TYPE = "Dynamo recompile limit exceeded"
_GENERATOR_TYPE = "Attempt to trace generator"


def key_of(code: CodeType) -> CodeKey:
    """What names a function and the code that Dynamo makes of it."""
    return code.co_filename, code.co_firstlineno, code.co_name


class DynamoWatch:
    """Records what Dynamo does while it is open as a context."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._files: dict[str, None] = {}
        self._frames: list[dict[str, set[int]]] = []
        self.recompiles: dict[CodeKey, list[Evidence]] = {}
        """What was observed each time that a function was compiled again."""
        self._open = ExitStack()
        self.failing_frame: Step | None = None
        """The definition of the frame that Dynamo refused last, for errors that carry no stack."""
        self.watched: tuple[Channel, ...] = ()

    def __enter__(self) -> DynamoWatch:
        import torch
        import torch._dynamo.convert_frame as convert_frame
        import torch._dynamo.symbolic_convert as symbolic_convert

        translator = symbolic_convert.InstructionTranslatorBase
        if self._hang(torch._logging, "trace_structured", self._on_artifact):
            self.watched += ("graph-break", "frame-skip")
        if self._hang(convert_frame, "get_and_maybe_log_recompilation_reasons", self._on_recompile):
            self.watched += ("recompile",)
        if self._hang(convert_frame.ConvertFrameAssert, "__call__", self._on_frame):
            self.watched += ("recompile-limit",)
        self._listen(convert_frame, "graph_break_log")
        self._hang(translator, "starts_line", self._on_line)
        self._hang(translator, "run", self._on_run)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open.close()

    def _hang(self, owner: Any, name: str, observe: Callable[..., Any]) -> bool:
        """Put `observe(original, *args, **kwargs)` in the place of `owner.name` until the watch closes.

        False if this torch has no such place.
        """
        original = getattr(owner, name, None)
        if original is None:
            self._recorder.send("note", text=f"this torch has no {getattr(owner, '__name__', owner)}.{name} to watch")
            return False

        def watched(*args: Any, **kwargs: Any) -> Any:
            return observe(original, *args, **kwargs)

        setattr(owner, name, watched)
        self._open.callback(setattr, owner, name, original)
        return True

    def _listen(self, owner: Any, name: str) -> None:
        """Have torch take the log `owner.name` for one that is listened to.

        Only then does it write the artifact for breaks that are decided outside symbolic conversion.
        """
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, ListenedTo(original))
            self._open.callback(setattr, owner, name, original)

    # -- breaks -------------------------------------------------------------------------------------------------

    def _on_artifact(self, original: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        metadata_of = kwargs.get("metadata_fn") or (args[0] if args else None)
        if name == "artifact" and metadata_of is not None:
            metadata = metadata_of()
            if isinstance(metadata, dict) and metadata.get("name") == "dynamo_graph_break_reason":
                with self._observing():
                    self._add_break(str(kwargs["payload_fn"]()))
        return original(name, *args, **kwargs)

    def _add_break(self, text: str) -> None:
        report = breaks.parse_report(text)
        if report is None:
            return
        stack = user_stack(report.stack)
        if not stack:
            self._recorder.send("note", text=f"a break without a place: {report.text.reason}")
            return
        stack = (*stack[:-1], _at_instruction(stack[-1]))
        self._recorder.observe(
            "frame-skip" if report.skipped else "graph-break",
            stack[-1],
            report.reason,
            gb=report.text.gb,
            hint=report.text.hint,
            stack=stack,
        )

    # -- recompiles ---------------------------------------------------------------------------------------------

    def _on_recompile(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        reasons = original(*args, **kwargs)
        if not kwargs.get("skip_logging") and not (len(args) > 3 and args[3]):
            with self._observing():
                self._add_recompile(args[1] if len(args) > 1 else kwargs["frame"], [str(reason) for reason in reasons])
        return reasons

    def _add_recompile(self, frame: Any, reasons: list[str]) -> None:
        code: CodeType = frame.f_code
        failure = guards.newest_failure(reasons)
        if failure is None:
            return
        own = absolute(code.co_filename)
        place = guards.place_of(failure, [own, *self._files])
        seen = self._recorder.observe(
            "recompile",
            place or self._definition(code),
            failure.reason,
            guard=failure.guard,
            hint=failure.hint,
            stack=(user_stack(failure.stack) or (place,)) if place else (),
        )
        self.recompiles.setdefault(key_of(code), []).append(seen)

    # -- frames that Dynamo refuses -----------------------------------------------------------------------------

    def _on_frame(self, original: Callable[..., Any], converter: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(converter, frame, *args, **kwargs)
        except Exception as error:
            with self._observing():
                self._add_refusal(frame.f_code, error, fullgraph=getattr(converter, "_one_graph", False))
            raise

    def _add_refusal(self, code: CodeType, error: Exception, *, fullgraph: bool) -> None:
        """What no artifact tells: the recompile limit is reached, it is a generator, or `fullgraph=True` refuses it."""
        import torch._dynamo.exc as exc

        self.failing_frame = self._definition(code)
        kind = getattr(error, "gb_type", None) or getattr(error.__cause__, "gb_type", None)
        if kind == _LIMIT_TYPE:
            self._add_limit(code, error)
        elif kind == _GENERATOR_TYPE and _called_by_dynamo():
            text = breaks.parse_message(str(error))
            self._recorder.observe(
                "frame-skip",
                self.failing_frame,
                f"{text.reason} Nothing of this function is compiled.",
                gb=text.gb,
                hint=text.hint,
                stack=(self.failing_frame,),
            )
        elif fullgraph and isinstance(error, (exc.Unsupported, exc.UserError)):
            text = breaks.parse_message(str(error))
            place = place_of_error(error) or self.failing_frame
            reason = f"{text.reason} With fullgraph=True this is an error."
            self._recorder.observe("fullgraph", place, reason, gb=text.gb, hint=text.hint, stack=(place,))

    def _add_limit(self, code: CodeType, error: Exception) -> None:
        last = self.recompiles.get(key_of(code), [None])[-1]
        text = breaks.parse_message(str(error if getattr(error, "gb_type", None) else error.__cause__))
        place = Step(last.path, last.line, last.function) if last else self._definition(code)
        self._recorder.observe(
            "recompile-limit",
            place,
            guards.limit_reached(plain_name(code.co_name)),
            gb=text.gb,
            guard=last.guard if last else None,
            hint=last.hint if last and last.hint else text.hint,
            stack=last.stack if last and last.stack else (place,),
        )

    def _definition(self, code: CodeType) -> Step:
        """Where a frame begins: its `def`, the line it resumes at, or, for one of torch's own frames, its caller."""
        path, name = absolute(code.co_filename), plain_name(code.co_name)
        if not user_owned(code.co_filename):
            caller = _calling_user_frame()
            if caller is not None:
                return caller
        resumed = name != code.co_name
        return Step(path, code.co_firstlineno if resumed else definition_line(path, code.co_firstlineno), name)

    # -- lines that Dynamo traced -------------------------------------------------------------------------------

    def _on_line(self, original: Callable[..., Any], translator: Any, lineno: int) -> Any:
        if self._frames:
            self._frames[-1].setdefault(translator.f_code.co_filename, set()).add(lineno)
        return original(translator, lineno)

    def _on_run(self, original: Callable[..., Any], translator: Any) -> Any:
        """Keep a frame's lines only if its translation comes to its end: a frame that is skipped raises instead."""
        import torch._dynamo.symbolic_convert as symbolic_convert

        if not isinstance(translator, symbolic_convert.InstructionTranslator):
            return original(translator)
        lines: dict[str, set[int]] = {}
        self._frames.append(lines)
        try:
            result = original(translator)
        finally:
            self._frames.pop()
            self._files.update((absolute(path), None) for path in lines if user_owned(path))
        with self._observing():
            self._recorder.lines("traced", {absolute(path): seen for path, seen in lines.items() if user_owned(path)})
        return result

    @contextmanager
    def _observing(self) -> Iterator[None]:
        """An observer that fails costs its observation, never the program it watches."""
        try:
            yield
        except Exception as error:
            with suppress(OSError):  # the program may have no file left to open
                self._recorder.send("note", text=f"an observation was lost: {breaks.one_line(repr(error))}")


def _at_instruction(reported: Step) -> Step:
    """A break's place as Dynamo tells it, or, in what follows another break, where the instruction really stands.

    The code that Dynamo makes for what follows a break can have its lines shifted (torch 2.13, Python 3.11), not its
    columns: the place is on the nearest line where the function it was made from has an instruction with these columns.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "log_graph_break":
        frame = frame.f_back
    translator = frame.f_locals.get("self") if frame is not None else None
    code: CodeType | None = getattr(translator, "f_code", None)
    positions = getattr(getattr(translator, "current_instruction", None), "positions", None)
    if code is None or positions is None:
        return reported
    here = Step(absolute(code.co_filename), positions.lineno, plain_name(code.co_name))
    lines = _lines_with(positions.col_offset, positions.end_col_offset, code)
    if here != reported or not lines:
        return reported
    return replace(reported, line=min(lines, key=lambda line: abs(line - reported.line)))


def _lines_with(start: int, end: int, resumed: CodeType) -> set[int]:
    """The lines of the function that `resumed` is the rest of, on which an instruction has these columns."""
    resume_execution: Any = sys.modules["torch._dynamo.resume_execution"]
    made_from = resume_execution.ContinueExecutionCache.generated_code_metadata.get(resumed)
    if made_from is None:
        return set()
    positions = made_from.code.co_positions()
    return {line for line, _, *columns in positions if line is not None and columns == [start, end]}


def _calling_user_frame() -> Step | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if user_owned(code.co_filename):
            return Step(absolute(code.co_filename), frame.f_lineno, plain_name(code.co_name))
        frame = frame.f_back
    return None


def _called_by_dynamo() -> bool:
    """Whether the frame under conversion was called by `torch.compile` itself and not by code that runs eagerly.

    A generator inside a function that Dynamo gave up on is refused as well; that follows from the first break.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if Path(path).parts[-3:] == ("torch", "_dynamo", "eval_frame.py"):
            return True
        if user_owned(path):
            return False
        frame = frame.f_back
    return False
