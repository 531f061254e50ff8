"""Telling a terminal which target is at work, at what, and for how long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def progress(names: Sequence[str]) -> Iterator[Callable[[str, str], None] | None]:
    """What to call with a target's name and its stage; `names` are all targets in order.

    One line on standard error, which is gone when the context closes. None if that is not a terminal that can rewrite a
    line: nothing is told then.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        yield None
        return
    text = TextColumn("compilelint: {task.description}", markup=False)
    with Progress(SpinnerColumn(), text, TimeElapsedColumn(), console=console, transient=True) as shown:
        line = shown.add_task(_description(names, 0, "starting"))
        current = 0

        def tell(name: str, stage: str) -> None:
            nonlocal current
            if names[current] != name:
                current = names.index(name)
                shown.reset(line)
            shown.update(line, description=_description(names, current, stage))

        yield tell


def _description(names: Sequence[str], at: int, stage: str) -> str:
    return f"target {at + 1} of {len(names)}: {names[at]}: {stage}"
