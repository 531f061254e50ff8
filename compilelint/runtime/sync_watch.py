"""The host syncs of a program observed as it is: torch's sync debug mode, from the first compiled function on.

The mode speaks in Python warnings, which a program may silence, record or turn into errors. Those of the mode are taken
out before any of that, and no others; so what the program sees of warnings stays what it was. A place that waits once
is part of starting up; it is recorded from the second time on.
"""

from __future__ import annotations

import atexit
import re
import warnings
from collections import Counter
from typing import Any

from compilelint.model import Step
from compilelint.runtime.rewritten import FirstBreaks
from compilelint.runtime.sync import MESSAGE, WAITS, current
from compilelint.runtime.wire import Recorder

_ALWAYS = ("always", re.compile(MESSAGE), UserWarning, None, 0)
_USED = ("_add_filter", "_filters_mutated", "_showwarnmsg")
"""What this needs of the `warnings` module, in Python 3.10 to 3.13."""


class SyncWatch:
    """Counts by user stack where the host waits. `breaks` tells where the frame of a compiled function is."""

    def __init__(self, recorder: Recorder, breaks: FirstBreaks) -> None:
        self._recorder = recorder
        self._breaks = breaks
        self._started = False
        self._hits: Counter[tuple[Step, ...]] = Counter()
        self._recorded: Counter[tuple[Step, ...]] = Counter()

    def start(self) -> None:
        """Start, once the program uses a GPU, and unless it has set the debug mode itself."""
        import torch

        cuda: Any = torch.cuda
        if self._started or not cuda.is_initialized():
            return
        self._started = True
        if not all(hasattr(warnings, name) for name in _USED):
            self._recorder.send("note", text="host syncs are not watched in programs under this version of Python")
        elif cuda.get_sync_debug_mode() == 0:
            self.take_warnings()
            cuda.set_sync_debug_mode("warn")
            atexit.register(self.record_rest)

    def _heard(self) -> None:
        stack = current(self._breaks)
        if not stack:
            return
        self._hits[stack] += 1
        hits = self._hits[stack]
        if hits > 1 and hits & (hits - 1) == 0:  # 2, 4, 8, ...: a program that waits always must not write always
            self._record(stack)

    def _record(self, stack: tuple[Step, ...]) -> None:
        new = self._hits[stack] - self._recorded[stack]
        if new and self._hits[stack] > 1:
            self._recorded[stack] += new
            self._recorder.observe("sync", stack[-1], WAITS, hits=new, stack=stack)

    def record_rest(self) -> None:
        """Record the waits that were counted since the last record of each place."""
        for stack in self._hits:
            self._record(stack)

    def take_warnings(self) -> None:
        """Hear the mode's warnings before the program does, whatever filters it has or comes to have."""
        module: Any = warnings
        show, add_filter, reset = module._showwarnmsg, module._add_filter, module.resetwarnings

        def show_others(message: Any) -> None:
            if MESSAGE in str(message.message):
                self._heard()
            elif not _is_about_the_mode(message):
                show(message)

        def add_behind(*item: Any, **kwargs: Any) -> None:
            add_filter(*item, **kwargs)
            _come_first()

        def reset_others() -> None:
            reset()
            _come_first()

        module._showwarnmsg, module._add_filter, module.resetwarnings = show_others, add_behind, reset_others
        _come_first()


def _is_about_the_mode(message: Any) -> bool:
    """Whether it is the warning that torch gives once when the mode is set: that it is a prototype."""
    return "ynchronization debug mode is" in str(message.message)


def _come_first() -> None:
    module: Any = warnings
    if _ALWAYS in module.filters:
        module.filters.remove(_ALWAYS)
    module.filters.insert(0, _ALWAYS)
    module._filters_mutated()
