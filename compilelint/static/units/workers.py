"""Child processes that share the tasks of one run.

A child lives as long as the run: the second pass over a unit finds there what the first one has parsed. One that has
grown large ends earlier, which gives back the memory of all that, and another takes its place. Children are forked:
they start with the rules and the table loaded.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import TracebackType

from compilelint.model import Failure
from compilelint.static.units.work import Outcome, Task

BATCH_FILES = 200
"""Neighbouring tasks over about this many files are handed to one child: neighbours share most of what they read."""

MOST_MEGABYTES = 300
"""A child whose resident memory has been larger than this, and has grown by a third of it, begins no other task."""

Walk = Callable[[Task], Outcome]
Arrived = Callable[[int, Outcome], None]


def can_fork() -> bool:
    """Whether children can be forked safely: elsewhere than on Linux, system libraries may not survive it."""
    return sys.platform == "linux"


@dataclass(slots=True, eq=False)
class _Child:
    """A process, what it is to do, by position, and the units it has walked."""

    process: ForkProcess
    tasks: Connection
    left: deque[int] = field(default_factory=deque)
    doing: int | None = None
    units: set[tuple[str, ...]] = field(default_factory=set)


class Workers:
    """Up to `jobs` children at a time, that do tasks by `walk`. Leaving the context ends them.

    `before_another` is called before a child starts that takes the place of an earlier one: it will find done what is
    done there.
    """

    def __init__(self, walk: Walk, jobs: int, before_another: Callable[[], object] = lambda: None) -> None:
        self._walk = walk
        self._jobs = jobs
        self._before_another = before_another
        self._children: list[_Child] = []
        self._started = 0

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            child.tasks.close()
            if kind is not None:
                child.process.terminate()
        for child in self._children:
            child.process.join()
        self._children.clear()

    def outcomes(
        self, tasks: Sequence[Task], sizes: Sequence[int], arrived: Arrived = lambda _, __: None
    ) -> list[Outcome]:
        """What `walk` gives for the tasks, in their order; `sizes` says how much work each is.

        `arrived` gets each outcome as it comes, with its position. A child that dies (killed, out of memory) costs the
        task it was at, as a failure of each of its modules.
        """
        outcomes: dict[int, Outcome] = {}
        waiting = self._handed_back(tasks, sizes)
        while len(outcomes) < len(tasks):
            self._hand_out(tasks, waiting)
            for ready in wait([child.tasks for child in self._children if child.doing is not None]):
                child = next(child for child in self._children if child.tasks is ready)
                position, outcome = self._received(child, tasks, waiting)
                self._hand_out(tasks, waiting)  # so that no child waits for what is done about the outcome
                outcomes[position] = outcome
                arrived(position, outcome)
        return [outcomes[position] for position in range(len(tasks))]

    def _handed_back(self, tasks: Sequence[Task], sizes: Sequence[int]) -> deque[deque[int]]:
        """Hand the tasks over units that a child has walked to that one; the others, in batches."""
        others: list[int] = []
        for position, task in enumerate(tasks):
            home = next((child for child in self._children if task.modules in child.units), None)
            (others if home is None else home.left).append(position)
        cut = batches([sizes[position] for position in others], self._jobs)
        return deque(deque(others[number] for number in batch) for batch in cut)

    def _hand_out(self, tasks: Sequence[Task], waiting: deque[deque[int]]) -> None:
        """Give each child something to do, and start as many as there is something for."""
        for child in self._children:
            if child.doing is None:
                self._give(child, tasks, waiting)
        while waiting and len(self._children) < self._jobs:
            self._give(self._another(), tasks, waiting)

    def _give(self, child: _Child, tasks: Sequence[Task], waiting: deque[deque[int]]) -> None:
        if not child.left:
            child.left = waiting.popleft() if waiting else self._taken_over()
        if child.left:
            child.doing = child.left.popleft()
            with suppress(OSError):  # it has died, which `_received` finds out
                child.tasks.send(tasks[child.doing])

    def _taken_over(self) -> deque[int]:
        """The later half of what the child with most to do has left."""
        most = max(self._children, key=lambda child: len(child.left)).left
        return deque([most.pop() for _ in range((len(most) + 1) // 2)][::-1])

    def _another(self) -> _Child:
        self._started += 1
        if self._started > self._jobs:
            self._before_another()
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(self._walk, theirs, ours))
        process.start()
        theirs.close()
        self._children.append(_Child(process, ours))
        return self._children[-1]

    def _received(self, child: _Child, tasks: Sequence[Task], waiting: deque[deque[int]]) -> tuple[int, Outcome]:
        """The outcome of what a child was doing, and its position. One that has ended leaves the rest to others."""
        assert child.doing is not None
        position, child.doing = child.doing, None
        child.units.add(tasks[position].modules)
        try:
            outcome, ends = child.tasks.recv()
        except (EOFError, OSError):  # it died before it sent anything, or amid
            child.process.join()
            outcome, ends = _lost(tasks[position], child.process.exitcode), True
        if ends:
            child.tasks.close()
            child.process.join()
            self._children.remove(child)
            if child.left:
                waiting.appendleft(child.left)
        return position, outcome


def batches(sizes: Sequence[int], jobs: int) -> list[list[int]]:
    """Positions of neighbouring tasks to be handed to one child; `sizes` says how much work each task is."""
    limit = min(BATCH_FILES, max(1, sum(sizes) // jobs))
    found: list[list[int]] = []
    room = 0
    for position, size in enumerate(sizes):
        if room <= 0:
            found.append([])
            room = limit
        found[-1].append(position)
        room -= size
    return found


def _work(walk: Walk, tasks: Connection, parents: Connection) -> None:
    """Do the tasks that come, until there are no more or this process has grown large."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all at once: the parent tells of it, and ends us
    parents.close()
    before = peak_megabytes()
    ends = False
    while not ends:
        try:
            task = tasks.recv()
        except EOFError:
            return
        outcome = walk(task)
        ends = peak_megabytes() > max(MOST_MEGABYTES, before + MOST_MEGABYTES / 3)
        tasks.send((outcome, ends))


def peak_megabytes() -> float:
    """The largest resident memory that this process has had, the parent's before the fork included."""
    from resource import RUSAGE_SELF, getrusage  # there is none on Windows, where nothing is forked

    return getrusage(RUSAGE_SELF).ru_maxrss / 1024


def _lost(task: Task, code: int | None) -> Outcome:
    text = f"internal error, please report it: the process that read this file ended with {code}"
    return Outcome(failures=tuple(Failure(module, text) for module in (*task.modules, *task.entry_points)))
