"""Reading exceptions: which of them are Dynamo's, and where in the user's code they belong."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator

from compilelint.model import Step
from compilelint.runtime.breaks import one_line
from compilelint.runtime.frames import parse_stack, user_owned


def told(error: BaseException) -> str:
    """One line: the exception's type, the first line of its message, and the user's line that raised it."""
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if user_owned(frame.filename)]
    at = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return one_line(f"{type(error).__name__}: {first}".rstrip(": ")) + at


def dynamo_error(error: BaseException) -> BaseException | None:
    """The exception of Dynamo that `error` is or was raised from; None if the program raised it by itself."""
    import torch._dynamo.exc as exc

    for link in _chain(error):
        if getattr(link, "gb_type", None) or getattr(link, "real_stack", None) is not None:
            return link
        if isinstance(link, exc.TorchDynamoException):
            deeper = dynamo_error(link.__cause__) if link.__cause__ is not None else None
            return deeper or link
    return None


def place_of_error(error: BaseException) -> Step | None:
    """The innermost frame of the user's code: from the stack Dynamo kept, or from its message."""
    frames = [Step(frame.filename, frame.lineno or 0, frame.name) for frame in getattr(error, "real_stack", None) or ()]
    if not frames:
        told_frames = re.split(r"^(?:from user code|User stack):", str(error), maxsplit=1, flags=re.MULTILINE)
        frames = list(parse_stack(told_frames[1])) if len(told_frames) == 2 else []
    return next((frame for frame in reversed(frames) if user_owned(frame.path)), frames[-1] if frames else None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__
