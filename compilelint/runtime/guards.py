"""Reading why Dynamo compiled again: the guard-failure reasons behind `recompile_reasons` (torch 2.5 to 2.14).

A reason reads `0/3: self.known == 5  # if n > self.known:  # project/rope.py:14 in ensure (HINT: …)`, sometimes
followed by `User stack trace:` and frames with full paths. torch cuts the path after the `#` on the left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compilelint.model import Step
from compilelint.runtime.breaks import one_line
from compilelint.runtime.frames import parse_stack, plain_name, user_owned

_ENTRY = re.compile(r"\s*!?(?:\d*/)+(?P<entry>\d+):\s*")
_PLACE = re.compile(r"# (?P<path>[^\s#][^#\n]*?\.py):(?P<line>\d+) in (?P<function>[\w<>]+)")
_HINT = re.compile(r"\(HINT: (?P<hint>.*?)\)\s*(?:$|\n)", re.DOTALL)
_SIZE = re.compile(r"\bsize mismatch at index \d+|\.size\(\)\[\d+\]")
_ZERO_ONE = re.compile(r"size mismatch at index \d+\. expected (?:[01], actual|\d+, actual [01]$)|\b2 <= .*\.size\(\)")
_STACK_HEAD = "\nUser stack trace:\n"


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """One guard that no longer held. `places` are where it comes from; their paths may be cut on the left."""

    entry: int
    guard: str
    hint: str | None
    places: tuple[Step, ...]
    stack: tuple[Step, ...]

    @property
    def reason(self) -> str:
        """What the failure means."""
        why = " Sizes 0 and 1 are always compiled for on their own." if _ZERO_ONE.search(self.guard) else ""
        return f"A guard failed: {self.guard}{'.' + why if why else ''}"


def is_about_size(guard: str) -> bool:
    """Whether a guard is about the size of a tensor in one dimension."""
    return _SIZE.search(guard) is not None


def plain_source(source: str) -> str:
    """A source as guards tell it: `x` for the local variable that Dynamo writes as `L['x']`."""
    return re.sub(r"\b[LG]\['(\w+)'\]", r"\1", source)


def limit_reached(function: str) -> str:
    """What it means that a function was compiled as often as Dynamo will."""
    return f"{function} reached the recompile limit and runs eagerly from here on."


def newest_failure(reasons: Sequence[str]) -> GuardFailure | None:
    """The failure that made Dynamo compile again, of the reasons it gives, one per compiled entry of that function.

    The newest entry is the one that the call would have used otherwise; the others failed on earlier calls already.
    """
    failures = [parse_reason(reason) for reason in reasons]
    return max(failures, key=lambda failure: failure.entry) if failures else None


def parse_reason(reason: str) -> GuardFailure:
    """Read one guard-failure reason."""
    head, _, frames = reason.partition(_STACK_HEAD)
    entry = _ENTRY.match(head)
    text = head[entry.end() :] if entry else head
    hint = _HINT.search(text)
    return GuardFailure(
        entry=int(entry["entry"]) if entry else -1,
        guard=_expression(text),
        hint=one_line(hint["hint"]) if hint else None,
        places=tuple(
            Step(place["path"].strip(), int(place["line"]), plain_name(place["function"]))
            for place in _PLACE.finditer(text)
        ),
        stack=parse_stack(frames),
    )


def _expression(text: str) -> str:
    """The guard itself: without torch's comment, and without object ids, which differ from run to run."""
    expression = re.split(r"\s+# |\s+\(HINT: ", text, maxsplit=1)[0]
    return one_line(re.sub(r"(?<![.\d])\d{9,}\b", "…", expression))


def place_of(failure: GuardFailure, known_files: Iterable[str]) -> Step | None:
    """The user's line that the guard stands for, or None if it names none (the size of an input, a global state).

    `known_files` are the absolute paths of files that were traced; they complete the paths that torch cut.
    """
    stack_files = [frame.path for frame in failure.stack]
    files = [*stack_files, *known_files]
    for place in failure.places:
        path = next((file for file in files if file.endswith(place.path)), None)
        if path and user_owned(path):
            return Step(path, place.line, place.function)
    return next((frame for frame in reversed(failure.stack) if user_owned(frame.path)), None)
