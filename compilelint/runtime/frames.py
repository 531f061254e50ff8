"""Whose code a file is. Everything outside torch, the standard library and compilelint is the user's code."""

from __future__ import annotations

import importlib.util
import os
import re
import sysconfig
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from types import FrameType

from compilelint.model import Step

_TORCH_PACKAGES = ("torch", "torchgen", "functorch", "triton")
_RESUME = re.compile(r"^torch_dynamo_resume_in_(?P<name>.+)_at_\d+$")
_FOREIGN = re.compile(
    r"[/\\](?:site|dist)-packages[/\\](?:torch|torchgen|functorch|triton|compilelint)[/\\]"
    r"|[/\\]torch[/\\](?:_dynamo|_inductor|nn[/\\]modules)[/\\]"
    r"|[/\\]lib(?:64)?[/\\]python3\.\d+[/\\](?!(?:site|dist)-packages[/\\])"
)
"""Where torch and Python lie on other machines."""
_FRAME_LINE = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S.*?))?\s*$')


@lru_cache(maxsize=4096)
def absolute(path: str) -> str:
    """The path that every record names a file by: absolute, symbolic links left as they are."""
    return str(Path(path).absolute())


def user_owned(path: str) -> bool:
    """Whether the file at `path` is the user's own or a library's, and not torch, Python or compilelint."""
    return _user_owned(absolute(path)) if path and not path.startswith("<") else False


@lru_cache(maxsize=4096)
def _user_owned(path: str) -> bool:
    if inductor_wrote(path) or _FOREIGN.search(path):
        return False
    if any(path.startswith(folder) for folder in _torch_folders()) or path.startswith(_own_folder()):
        return False
    return not any(path.startswith(folder) for folder in _python_folders()) or _in_site_packages(path)


def inductor_wrote(path: str) -> bool:
    """Whether the file at `path` is code that Inductor generated: it lies in Inductor's cache folder."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return "torchinductor_" in path or bool(folder and path.startswith(absolute(folder) + os.sep))


def _in_site_packages(path: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path


@lru_cache(maxsize=1)
def _own_folder() -> str:
    return str(Path(__file__).resolve().parent.parent) + os.sep


@lru_cache(maxsize=1)
def _python_folders() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})


@lru_cache(maxsize=1)
def _torch_folders() -> tuple[str, ...]:
    """Where torch and the packages it brings along lie, found without importing them."""
    return tuple(absolute(folder) + os.sep for package in _TORCH_PACKAGES for folder in _package_folders(package))


def _package_folders(package: str) -> Sequence[str]:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return ()
    return list(spec.submodule_search_locations or ()) if spec else ()


def plain_name(function: str) -> str:
    """The function a frame belongs to, without the name that Dynamo gives to what follows a break."""
    resumed = _RESUME.match(function)
    return resumed["name"] if resumed else function


def parse_stack(text: str) -> tuple[Step, ...]:
    """The frames in the lines of a formatted traceback, outermost first; other lines are passed over."""
    found = (_FRAME_LINE.match(line) for line in text.splitlines())
    return tuple(
        Step(absolute(frame["path"]), int(frame["line"]), plain_name(frame["function"] or ""))
        for frame in found
        if frame and not frame["path"].startswith("<")
    )


def user_stack(frames: Iterable[Step]) -> tuple[Step, ...]:
    """The user's frames of a stack, or, where it has none (a torch module as the target), all of them but ours."""
    frames = tuple(frames)
    users = tuple(frame for frame in frames if user_owned(frame.path))
    return users or tuple(frame for frame in frames if not frame.path.startswith(_own_folder()))


def line_in(frame: FrameType) -> int:
    """The line that a frame is at; that of the `def` for one that is still at its decorators, as compiled code is.

    What Dynamo made to go on behind a break has no decorators: its first line is the one that it goes on at.
    """
    code = frame.f_code
    line = frame.f_lineno
    at_its_head = line == code.co_firstlineno and plain_name(code.co_name) == code.co_name
    return definition_line(code.co_filename, line) if at_its_head else line


def definition_line(path: str, first_line: int) -> int:
    """The line of the `def` of a code object: its first line is that of the first decorator."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return first_line
    for number in range(first_line, min(first_line + 50, len(lines) + 1)):
        if re.match(r"\s*(?:async\s+def|def|class)\b|.*\blambda\b", lines[number - 1]):
            return number
    return first_line
