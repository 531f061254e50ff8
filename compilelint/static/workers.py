"""Child processes that share the tasks of one run.

Each child does one batch of tasks and ends, which also gives back the memory of everything it parsed; one that has
grown large ends earlier, and another does the rest. Children are forked: they start with the rules and the table
loaded.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection, wait

from compilelint.model import Failure
from compilelint.static.work import Outcome, Task

BATCH_FILES = 200
"""A child does tasks over about this many files: with fewer, it parses what they share too often."""

MOST_MEGABYTES = 300
"""A child whose resident memory has been larger than this, and has grown by a third of it, begins no other task."""

Walk = Callable[[Sequence[Task]], Iterable[Outcome]]
Arrived = Callable[[int, Outcome, bool], None]


def can_fork() -> bool:
    """Whether children can be forked safely: elsewhere than on Linux, system libraries may not survive it."""
    return sys.platform == "linux"


def batches(sizes: Sequence[int], jobs: int) -> list[list[int]]:
    """Positions of neighbouring tasks to be done by one child; `sizes` says how much work each task is.

    Each is an even share of what is left: the later, the smaller, so that the children end at about the same time.
    """
    found: list[list[int]] = []
    room, left = 0, sum(sizes)
    for position, size in enumerate(sizes):
        if room <= 0:
            found.append([])
            room = min(BATCH_FILES, max(1, left // jobs))
        found[-1].append(position)
        room -= size
        left -= size
    return found


def in_workers(
    tasks: Sequence[Task],
    batched: Sequence[Sequence[int]],
    walk: Walk,
    jobs: int,
    arrived: Arrived = lambda _, __, ___: None,
) -> list[Outcome]:
    """What `walk` gives for the tasks, in their order; up to `jobs` children at a time do a batch each.

    `arrived` gets each outcome as it comes, with its position, and whether children are still to start that will find
    done what it does here.

    A child that dies (killed, out of memory) costs what it had left to do, as a failure of each of its modules.
    """
    outcomes: list[Outcome | None] = [None] * len(tasks)
    context = multiprocessing.get_context("fork")
    running: dict[Connection, tuple[multiprocessing.context.ForkProcess, list[int]]] = {}
    waiting = list(reversed(batched))
    while waiting or running:
        while waiting and len(running) < jobs:
            positions = list(waiting.pop())
            ours, theirs = context.Pipe(duplex=False)
            child = context.Process(target=_work, args=([tasks[p] for p in positions], walk, theirs))
            child.start()
            theirs.close()
            running[ours] = child, positions
        for ready in wait(list(running)):
            assert isinstance(ready, Connection)
            child, positions = running[ready]
            try:
                outcome, position = ready.recv(), positions.pop(0)
                outcomes[position] = outcome
                arrived(position, outcome, len(waiting) > jobs)
            except EOFError:
                del running[ready]
                child.join()
                if positions and child.exitcode == _GREW:
                    waiting.append(positions)
                    continue
                for position in positions:
                    outcomes[position] = lost = _lost(tasks[position], child.exitcode)
                    arrived(position, lost, False)
    return [outcome for outcome in outcomes if outcome is not None]


_GREW = 77
"""The exit code of a child that has left tasks to another one."""


def _work(tasks: Sequence[Task], walk: Walk, results: Connection) -> None:
    before = peak_megabytes()
    for outcome in walk(tasks):
        results.send(outcome)
        if peak_megabytes() > max(MOST_MEGABYTES, before + MOST_MEGABYTES / 3):
            results.close()
            sys.exit(_GREW)
    results.close()


def peak_megabytes() -> float:
    """The largest resident memory that this process has had, the parent's before the fork included."""
    from resource import RUSAGE_SELF, getrusage  # there is none on Windows, where nothing is forked

    return getrusage(RUSAGE_SELF).ru_maxrss / 1024


def _lost(task: Task, code: int | None) -> Outcome:
    text = f"internal error, please report it: the process that read this file ended with {code}"
    return Outcome(failures=tuple(Failure(module, text) for module in (*task.modules, *task.entry_points)))
