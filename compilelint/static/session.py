"""The static pass from end to end: files -> findings."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

from compilelint.knowledge.table import chosen, load
from compilelint.model import Failure, Finding
from compilelint.record import record
from compilelint.rulebook import load_rules
from compilelint.source import Sources
from compilelint.static.flagging.combine import Surest, reported, surest_of
from compilelint.static.project.places import real_paths, shown
from compilelint.static.project.program import Program
from compilelint.static.units.cache import Cache
from compilelint.static.units.context import context_of, own_code
from compilelint.static.units.idle import outcome_of_idle
from compilelint.static.units.work import Outcome, Task, second_pass, units

if TYPE_CHECKING:
    from compilelint.config import Settings
    from compilelint.static.flagging.dispatch import Dispatch
    from compilelint.static.flagging.flag import Flagger
    from compilelint.static.project.answers import Answers
    from compilelint.static.project.bodies import Outline
    from compilelint.static.tracer.frame import Frame
    from compilelint.static.units.retrial import Read, Retrial
    from compilelint.static.units.workers import Arrived, Workers

Result = TypeVar("Result")

STACK_BYTES = 512 * 1024 * 1024
"""The tracer recurses as deep as the code it follows; its thread gets a stack to match."""
RECURSION_LIMIT = 60_000
SHARED_BY = 3
"""A module that this many tasks have asked for is parsed once for all that follow."""
MOST_SHARED_MEGABYTES = 150
"""When this process has been larger than this, it parses no more of them: every child starts with all it has."""


@record(frozen=True, slots=True)
class StaticResult:
    """Findings of all confidences, before any selection, and the files that could not be read.

    `without_words` are files, by real path, that need not be read to tell that they hold none of some words.
    """

    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...]
    without_words: frozenset[str] = frozenset()


def lint(
    files: Sequence[Path],
    settings: Settings,
    jobs: int = 0,
    cache: Path | None = None,
    words: Collection[bytes] = (),
) -> StaticResult:
    """Lint `files` together, as one program. Nothing of them is imported or run.

    Up to `jobs` child processes share the work where there is enough of it for several, with 0 this process does it.
    `cache` is a folder where outcomes are kept, and which files hold none of some `words`. What is found is the same
    with and without either.
    """
    return _Session(tuple(files), settings, jobs, cache, words).run()


def explain(path: Path, line: int, settings: Settings, files: Sequence[Path] = ()) -> str:
    """Why the 1-based `line` of `path` counts as compiled and what its values are; `files` is the code around it.

    In a notebook, lines are those of its joined module. Raises ConfigError for a file that is no Python.
    """
    from compilelint.config import ConfigError
    from compilelint.static.flagging.explanation import explanation
    from compilelint.static.tracer.frame import Mode

    path = path.resolve()
    frames: list[Frame] = []

    def watch(frame: Frame) -> None:
        node = frame.ref.node
        if frame.module.path == path and node.lineno <= line <= (node.end_lineno or node.lineno):
            frames.append(frame)

    session = _Session((*files, *([] if path in files else [path])), settings, watch=watch)
    result = session.run()
    shown = session.shown(path)
    for failure in result.failures:
        if failure.path == shown:
            raise ConfigError(f"{shown}: {failure.message}")
    here = tuple(f for f in result.findings if f.path == shown and f.span.line <= line <= f.span.end_line)
    frames.sort(key=lambda frame: get_args(Mode).index(frame.mode))
    return explanation(shown, line, frames, here, len(session.linted) - 1, Sources(session.base))


def _with_deep_stack(job: Callable[[], Result]) -> Result:
    """Run `job` on a thread whose stack is deep enough for the tracer; what it raises is raised here."""
    outcome: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(job())
        except BaseException as error:
            errors.append(error)

    before, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(RECURSION_LIMIT)
    try:
        thread = threading.Thread(target=work, name="compilelint-static")
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(before)
        threading.stack_size(size)
    if errors:
        raise errors[0]
    return outcome[0]


@contextmanager
def _without_collector() -> Iterator[None]:
    """No cyclic garbage collection: syntax trees hold no cycles worth collecting, and looking for some takes long.

    Three quarters of the time it takes to parse, and an eighth of the time of the walk where the collector was only
    switched on from task to task.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.freeze()  # else the next look would go through all that was made meanwhile
            gc.enable()


class _UnknownError(Exception):
    """What was kept of the run before does not tell all that this one needs."""


class _Session:
    """One run over one set of files. `watch` sees every frame, for which all is walked in this process."""

    def __init__(
        self,
        files: tuple[Path, ...],
        settings: Settings,
        jobs: int = 0,
        cache: Path | None = None,
        words: Collection[bytes] = (),
        watch: Callable[[Frame], None] | None = None,
    ) -> None:
        self.files = tuple(map(real_paths(), files))
        self.settings = settings
        self.jobs = jobs if watch is None else 0
        self.base = Path.cwd()
        self.watch = watch
        self.program = Program(self.files)
        self.linted = self.program.linted
        self._workers: Workers | None = None
        self._asked: Counter[str] = Counter()
        self._entered: set[str] = set()
        self._surest = Surest()
        self._outlined: dict[str, Outline] = {}
        self._answers: dict[str, Answers] = {}
        self._done = 0
        """How many tasks the passes before had."""
        self.cache: Cache | None = None
        if cache is not None:
            names = {name: str(path) for name, path in zip(self.linted, self.files, strict=True)}
            folders = [str(folder) for folder in self.program.roots], [str(folder) for folder in self.program.above]
            about = f"{chosen(settings.target_torch)} {settings.engine} {sorted(self.program.run_in_place)} {folders}"
            context = context_of(self.base, names, about, own_code())
            asked = (lambda *about: self._dispatch.pattern(*about), self._tried)
            self.cache = Cache(cache, context, self.base, *asked, words)

    def run(self) -> StaticResult:
        """What an earlier run gave, if nothing that it read has changed, else what this one does."""
        kept = self.cache.last_run(self.settings.entry_points) if self.cache is not None else None
        if kept is not None:
            return StaticResult(kept.findings, kept.unread, self._without_words())
        try:
            return self._run()
        except _UnknownError:
            assert self.cache is not None
            self.cache.forget_last_run()
            return self._run()

    def _run(self) -> StaticResult:
        """Walk every region of every file, then the public functions that none of them entered."""
        self._workers, self._entered, self._surest, self._done = None, set(), Surest(), 0
        tasks = [Task(unit) for unit in units([*zip(self.linted, map(_size_of, self.files), strict=True)])]
        if self.settings.entry_points:
            tasks.append(Task((), self.settings.entry_points))
        with ExitStack() as stack:
            first = self._outcomes(tasks, stack)
            if self.cache is not None and not self.cache.knows(name for outcome in first for name in outcome.public):
                raise _UnknownError
            # What a real region reaches is reported as that region's.
            others = second_pass(zip(tasks, first, strict=True), self._entered)
            second = self._outcomes(others, stack)
        outcomes, tasks = [*first, *second], [*tasks, *others]
        self._fetch_claimed(tasks, outcomes)
        fallbacks = frozenset(code for outcome in outcomes for code in outcome.fallbacks)
        surest = surest_of(outcome.findings for outcome in outcomes)
        unread = tuple(_one_each(failure for outcome in outcomes for failure in outcome.unread))
        failures = tuple(_one_each(failure for outcome in outcomes for failure in outcome.failures))
        if self.cache is not None:
            if not failures:
                self.cache.keep_run(self.settings.entry_points, tasks, surest, unread)
                self.cache.keep_outlines({**self.program.outlined, **self._outlined}, self._answers)
            self.cache.trim()
        return StaticResult(reported(surest.values(), fallbacks), (*unread, *failures), self._without_words())

    def _without_words(self) -> frozenset[str]:
        return self.cache.texts.without_words() if self.cache is not None else frozenset()

    def _fetch_claimed(self, tasks: Sequence[Task], outcomes: Sequence[Outcome]) -> None:
        """Have the findings that count now, and were kept with a task that no longer has them."""
        for key, position in self._surest.wanted():
            assert self.cache is not None
            try:
                outcomes[position].findings += (self.cache.finding(tasks[position], key),)
            except LookupError:
                raise _UnknownError from None

    def shown(self, path: Path) -> str:
        """A file's path as findings show it."""
        return shown(path, self.base)

    def _outcomes(self, tasks: Sequence[Task], stack: ExitStack) -> list[Outcome]:
        """What the tasks give, in their order: kept from an earlier run, or worked out now.

        Leaving `stack` ends what is started for it.
        """
        found = [self.cache.get(task) if self.cache is not None else None for task in tasks]
        missing = [position for position, outcome in enumerate(found) if outcome is None]
        for position, outcome in enumerate(found):
            if outcome is not None:
                self._settle(position, outcome)

        def arrived(number: int, outcome: Outcome) -> None:
            position = missing[number]
            found[position] = outcome
            if self.cache is not None:
                self.cache.put(tasks[position], outcome)
            self._outlined.update(outcome.outlined)
            for content, answers in outcome.answers.items():
                self._answers.setdefault(content, {}).update(answers)
            self._asked.update(outcome.asked)
            self._settle(position, outcome)

        if missing:
            self._look_up_outlines()
        self._work_out([tasks[position] for position in missing], arrived, stack)
        self._done += len(tasks)
        return [outcome for outcome in found if outcome is not None]

    def _settle(self, position: int, outcome: Outcome) -> None:
        """Keep of an outcome what the end of the run asks for: there may be hundreds, each about the same files."""
        outcome.findings = self._surest.of(outcome.findings, self._done + position)
        self._surest.claim(outcome.claims, self._done + position)
        self._entered |= outcome.entered
        outcome.entered = outcome.asked = outcome.absent = frozenset()
        outcome.read, outcome.outlined, outcome.answers, outcome.told, outcome.claims = {}, {}, {}, b"", ()

    def _look_up_outlines(self) -> None:
        if self.cache is not None and not self.program.outlines:
            outlines, answers = self.cache.outlines()
            self.program.outlines.update(outlines)
            self.program.answers.update(answers)
            self.program.part_digests = self.cache.part_digests

    def _work_out(self, tasks: Sequence[Task], arrived: Arrived, stack: ExitStack) -> None:
        if self._workers is None and self.jobs and len(tasks) > 1:
            from compilelint.static.units.workers import Workers, can_fork

            if can_fork():
                load_rules(), load(self.settings.target_torch)  # so that the children need not
                stack.enter_context(_without_collector())
                self._workers = stack.enter_context(Workers(self._walked, self.jobs, self._prepare))
        if self._workers is not None:
            self._workers.outcomes(tasks, [*map(_size_of_task, tasks)], arrived)
            return
        with _without_collector():
            for position, task in enumerate(tasks):
                arrived(position, self._walked(task))

    def _prepare(self) -> None:
        """Parse here, for a child to come, what several tasks have asked for: it would parse that for itself."""
        from compilelint.static.units.workers import peak_megabytes

        if peak_megabytes() < MOST_SHARED_MEGABYTES:
            most = self._asked.most_common(1)[0][1] if self._asked else 0
            shared = [name for name, count in self._asked.items() if count >= max(SHARED_BY, most // 2)]
            _with_deep_stack(lambda: [self.program.module(name) for name in shared])

    def _tried(self, path: str, name: str, told: str) -> Read | None:
        """See `retrial.Retrial.read`."""
        return _with_deep_stack(lambda: self._retrial.read(path, name, told))

    @cached_property
    def _retrial(self) -> Retrial:
        from compilelint.static.units.retrial import Retrial

        self._look_up_outlines()
        names = {path.as_posix(): name for name, path in zip(self.linted, self.files, strict=True)}
        table = load(self.settings.target_torch)
        return Retrial(self.program, names, table, self._flagger, self.shown, self.base)

    def _flagger(self) -> Flagger:
        from compilelint.static.flagging.flag import Flagger

        return Flagger(self._dispatch, frozenset(self.linted), self.settings.engine)

    @cached_property
    def _dispatch(self) -> Dispatch:
        from compilelint.static.flagging.dispatch import Dispatch

        return Dispatch(load_rules())

    def _walked(self, task: Task) -> Outcome:
        """Do a task in this process. All that it does share the parsed files and nothing else."""
        return _with_deep_stack(partial(self._walk, task))

    def _walk(self, task: Task) -> Outcome:
        kept = self.cache is not None
        self.program.outlined = {}
        outcome = outcome_of_idle(task, self.program, self.shown, kept=kept) or self._walk_all(task, kept)
        outcome.outlined, outcome.answers = self.program.outlined, self.program.new_answers()
        return outcome

    def _walk_all(self, task: Task, kept: bool) -> Outcome:
        from compilelint.static.units.walk import Walk

        table = load(self.settings.target_torch)
        walk = Walk(task, self.program, table, self._flagger(), self.base, self.watch, kept=kept)
        outcome = walk.outcome()
        walk.tracer.forget()
        return outcome


def _size_of_task(task: Task) -> int:
    """How many files or functions it is about."""
    return len(task.modules if task.public is None else task.public)


def _size_of(file: Path) -> int:
    """In bytes; 0 if it cannot be told."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _one_each(failures: Iterable[Failure]) -> Iterator[Failure]:
    """The first failure of each path, in the order of paths."""
    first: dict[str, Failure] = {}
    for failure in failures:
        first.setdefault(failure.path, failure)
    return (first[path] for path in sorted(first))
