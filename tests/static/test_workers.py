"""Child processes: the same outcomes in the same order, and one that dies costs its own tasks only."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence

import pytest

from compilelint.static.work import MOST_BYTES, Outcome, Task, units
from compilelint.static.workers import batches, can_fork, in_workers

pytestmark = pytest.mark.skipif(not can_fork(), reason="children are forked on Linux only")
TASKS = [Task((f"m{number}",)) for number in range(7)]


def walk(tasks: Sequence[Task]) -> Iterator[Outcome]:
    """Gives back what it was asked; the task `m4` kills its process."""
    for task in tasks:
        if task.modules == ("m4",) and os.environ.get("DIE"):
            os.kill(os.getpid(), signal.SIGKILL)
        yield Outcome(public=task.modules, asked=frozenset({str(os.getpid())}))


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_outcomes_come_in_the_order_of_tasks(jobs: int) -> None:
    outcomes = in_workers(TASKS, batches([3] * len(TASKS), jobs), walk, jobs)
    assert [outcome.public for outcome in outcomes] == [task.modules for task in TASKS]


def test_a_child_that_dies_costs_what_it_had_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIE", "1")
    outcomes = in_workers(TASKS, [[0, 1], [2, 3, 4, 5], [6]], walk, 2)
    assert [bool(outcome.failures) for outcome in outcomes] == [False] * 4 + [True, True, False]
    assert [failure.path for failure in outcomes[5].failures] == ["m5"]
    assert "-9" in outcomes[5].failures[0].message


def test_outcomes_are_told_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIE", "1")
    told: list[tuple[int, Outcome, bool]] = []
    outcomes = in_workers(TASKS, [[0, 1], [2], [3, 4, 5], [6]], walk, 1, lambda *arrived: told.append(arrived))
    assert [position for position, _, _ in told] == list(range(7))
    assert [outcome for _, outcome, _ in told] == outcomes
    assert [more for _, _, more in told] == [True, True, True, False, False, False, False]


def test_a_child_that_has_grown_leaves_the_rest_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = iter(range(0, 10_000, 200))
    monkeypatch.setattr("compilelint.static.workers.peak_megabytes", lambda: next(grown))
    outcomes = in_workers(TASKS, [[0, 1, 2, 3, 4], [5, 6]], walk, 2)
    assert [outcome.public for outcome in outcomes] == [task.modules for task in TASKS]
    assert len({outcome.asked for outcome in outcomes}) == 4  # each does the tasks until 400 is more than allowed


@pytest.mark.parametrize("sizes", [[], [1], [500, 1, 1, 500], [40] * 30])
@pytest.mark.parametrize("jobs", [1, 2, 16])
def test_batches_hold_every_task_once(sizes: list[int], jobs: int) -> None:
    assert [position for batch in batches(sizes, jobs) for position in batch] == list(range(len(sizes)))


def test_a_new_file_moves_few_cuts() -> None:
    files = [(f"pkg.mod{number:04}", number * 97 % 70_000) for number in range(2000)]
    before = set(units(files))
    more = [*files[:700], ("pkg.mod0699b", 9000), *files[700:]]
    after = list(units(more))
    assert [name for unit in after for name in unit] == [name for name, _ in more]
    assert len([unit for unit in after if unit not in before]) <= 5
    sizes = dict(more)
    assert all(sum(map(sizes.__getitem__, unit)) <= MOST_BYTES for unit in after)


def test_an_edit_moves_no_cut_and_a_large_file_is_a_unit() -> None:
    files = [(f"pkg.mod{number:04}", 5000) for number in range(200)]
    assert list(units(files)) == list(units([(name, size + 40) for name, size in files]))
    assert ("pkg.large",) in list(units([*files[:50], ("pkg.large", 2 * MOST_BYTES), *files[50:]]))


def test_packages_share_no_unit() -> None:
    first, second = ["a", *(f"a.m{number:03}" for number in range(100))], ["b", "b.c", "b.d"]
    scripts = [f"s{number}" for number in range(50)]

    def cut(names: list[str]) -> list[tuple[str, ...]]:
        return list(units([(name, 9000) for name in names]))

    assert cut([*first, *second, *scripts]) == [*cut(first), *cut(second), *cut(scripts)]
