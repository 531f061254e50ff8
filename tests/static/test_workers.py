"""Child processes: the same outcomes in the same order, and one that dies costs the task it was at."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from compilelint.static.units.work import MOST_BYTES, Outcome, Task, units
from compilelint.static.units.workers import Workers, batches, can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="children are forked on Linux only")
TASKS = [Task((f"m{number}",)) for number in range(7)]
PUBLIC = [Task(task.modules, public=("f",)) for task in TASKS]
SIZES = [1] * len(TASKS)


def walk(task: Task) -> Outcome:
    """Gives back what it was asked, and who did it; the task `m4` kills its process."""
    if task.modules == ("m4",) and os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(public=task.modules, asked=frozenset({str(os.getpid())}))


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_outcomes_come_in_the_order_of_tasks(jobs: int) -> None:
    with Workers(walk, jobs) as workers:
        outcomes = workers.outcomes(TASKS, SIZES)
        assert workers.outcomes([], []) == []
    assert [outcome.public for outcome in outcomes] == [task.modules for task in TASKS]
    assert len({outcome.asked for outcome in outcomes}) <= jobs


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_child_that_dies_costs_what_it_was_doing(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIE", "1")
    with Workers(walk, jobs) as workers:
        outcomes = workers.outcomes(TASKS, SIZES)
        again = workers.outcomes(PUBLIC[:4], SIZES[:4])
    assert [failure.path for outcome in outcomes for failure in outcome.failures] == ["m4"]
    assert "-9" in outcomes[4].failures[0].message
    assert not any(outcome.failures for outcome in again)


def test_a_child_that_dies_while_it_answers_costs_that_task() -> None:
    def torn(connection: Connection, outcome: object) -> None:
        os.write(connection.fileno(), b"\0\0\1\0half of what it had to say")
        os.kill(os.getpid(), signal.SIGKILL)

    def walk_torn(task: Task) -> Outcome:
        if task.modules == ("m4",):
            Connection.send = torn  # type: ignore[method-assign,assignment]  # in the child only
        return walk(task)

    with Workers(walk_torn, 2) as workers:
        outcomes = workers.outcomes(TASKS, SIZES)
    assert [failure.path for outcome in outcomes for failure in outcome.failures] == ["m4"]


def test_an_interrupt_is_the_parents_to_tell_of() -> None:
    def interrupted(task: Task) -> Outcome:
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C sends it to all of them
        return walk(task)

    with Workers(interrupted, 2) as workers:
        outcomes = workers.outcomes(TASKS, SIZES)
    assert not any(outcome.failures for outcome in outcomes)


def test_outcomes_are_told_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIE", "1")
    told: list[tuple[int, Outcome]] = []
    with Workers(walk, 1) as workers:
        outcomes = workers.outcomes(TASKS, SIZES, lambda *arrived: told.append(arrived))
    assert told == list(enumerate(outcomes))


def test_the_second_pass_over_a_unit_comes_to_the_child_that_knows_it() -> None:
    def slow(task: Task) -> Outcome:
        time.sleep(0.05)  # so that no child runs out of work while another has some left
        return walk(task)

    with Workers(slow, 2) as workers:
        first, second = workers.outcomes(TASKS[:6], SIZES[:6]), workers.outcomes(PUBLIC[:6], SIZES[:6])
    moved = [one.public for one, two in zip(first, second, strict=True) if one.asked != two.asked]
    assert len({outcome.asked for outcome in first}) == 2
    assert len(moved) <= 1  # one is taken over where a child is done earlier


def test_who_is_done_takes_over_half_of_what_another_has_left(tmp_path: Path) -> None:
    def waits(task: Task) -> Outcome:
        if task.modules == ("m0",):
            while len(list(tmp_path.iterdir())) < len(TASKS) - 1:
                time.sleep(0.01)
        else:
            (tmp_path / task.modules[0]).touch()
        return walk(task)

    with Workers(waits, 2) as workers:
        outcomes = workers.outcomes(TASKS, SIZES)
    done = defaultdict(list)
    for outcome in outcomes:
        done[outcome.asked].extend(outcome.public)
    assert sorted(done.values(), key=len) == [["m0"], [f"m{number}" for number in range(1, 7)]]


def test_a_child_that_has_grown_leaves_the_rest_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = iter(range(0, 10_000, 200))
    monkeypatch.setattr("compilelint.static.units.workers.peak_megabytes", lambda: next(grown))
    prepared: list[int] = []
    with Workers(walk, 1, lambda: prepared.append(1)) as workers:
        outcomes = workers.outcomes(TASKS, SIZES)
    assert [outcome.public for outcome in outcomes] == [task.modules for task in TASKS]
    assert len({outcome.asked for outcome in outcomes}) == 4  # each does two tasks until 400 is more than allowed
    assert len(prepared) == 3


def test_children_end_where_the_run_breaks_off() -> None:
    def slow(task: Task) -> Outcome:
        time.sleep(0 if task == TASKS[0] else 60)
        return walk(task)

    def fail(position: int, outcome: Outcome) -> None:
        raise KeyError(position)

    started = time.monotonic()
    with pytest.raises(KeyError), Workers(slow, 2) as workers:
        workers.outcomes(TASKS, SIZES, fail)
    assert time.monotonic() - started < 30


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
