"""What `dynamic=True` or `mark_dynamic` would do about sizes for which Dynamo compiled again: tried, in own passes.

Nothing is tried unless the default pass saw a function compiled again for a size, or for an integer argument, which
`dynamic=True` makes dynamic as well; and not for the one time that Dynamo takes to make a size dynamic by itself, which
no finding is made of. `mark_dynamic` is put on every dimension that was seen to vary, at the entry of the
function that was compiled again, as its caller would do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from types import CodeType
from typing import Any

from compilelint.model import Evidence, Step
from compilelint.runtime import guards
from compilelint.runtime.breaks import one_line
from compilelint.runtime.capture import CodeKey, DynamoWatch, key_of
from compilelint.runtime.exercise import Job, build, call_all, compiling
from compilelint.runtime.failures import dynamo_error, place_of_error
from compilelint.runtime.frames import user_owned
from compilelint.runtime.inside import Heard
from compilelint.runtime.wire import Recorder, evidence_of, read_records

_DYNAMIC = "dynamic=True"
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Varied:
    """A function that was compiled again for its sizes, and what of it varied.

    `sizes` are sources of tensors, as Dynamo writes them (`L['x']`), with their dimensions; `again` counts the
    compilations after the first, and `evidence` tells what of them was reported.
    """

    code: CodeKey
    sizes: Mapping[str, Sequence[int]]
    again: int
    evidence: tuple[Evidence, ...]


def record_varied(watch: DynamoWatch, recorder: Recorder) -> None:
    """Record what of the functions that `watch` saw compiled again varied in size."""
    for code, recompiles in watch.recompiles.items():
        sizes, numbers = _varying(code)
        about = [item for item in recompiles if _is_about(item.guard or "", numbers)]
        if len(about) > 1 or any(item.stack for item in about):
            fields = {"code": code, "sizes": sizes, "again": len(recompiles)}
            recorder.send("varied", **fields, evidence=[asdict(item) for item in about])


def varied(records: Path) -> list[Varied]:
    """What the default pass recorded."""
    return [
        Varied(
            code=tuple(record["code"]),
            sizes=record["sizes"],
            again=record["again"],
            evidence=tuple(map(evidence_of, record["evidence"])),
        )
        for record in read_records(records)[0]
        if record["kind"] == "varied"
    ]


def try_dynamic(job: Job, recorder: Recorder) -> None:
    """Make the target's calls again with everything compiled under `dynamic=True`, and record what came of it."""
    functions = varied(Path(job.records))
    outcome = _outcome(job, dynamic=True)
    for function in functions:
        _record(recorder, function, _DYNAMIC, outcome)


def try_marks(job: Job, recorder: Recorder) -> None:
    """Make the calls again with `mark_dynamic` on the dimensions that varied, and record what came of it."""
    functions = [function for function in varied(Path(job.records)) if function.sizes]
    marks = _Marks(functions)
    with marks.put():
        outcome = _outcome(job)
    for function in functions:
        done = marks.done.get(function.code)
        if done:
            _record(recorder, function, _named(list(done)), outcome)


# -- what varied ----------------------------------------------------------------------------------------------------


def _varying(code: CodeKey) -> tuple[dict[str, list[int]], set[str]]:
    """The dimensions and the integers that Dynamo noticed to vary, by their sources in that function."""
    import torch._dynamo.pgo as pgo

    sizes: dict[str, list[int]] = {}
    numbers: set[str] = set()
    for key, state in pgo.get_code_state().items():
        if (key.firstlineno, key.name) != code[1:] or not code[0].endswith(key.filename):
            continue
        for source, entry in state.automatic_dynamic.items():
            dimensions = [at for at, size in enumerate(_sizes(entry)) if size is pgo.auto_dynamic]
            if dimensions:
                sizes[source] = dimensions
            elif entry.scalar is pgo.auto_dynamic and source.endswith("']"):  # attributes of modules stay static
                numbers.add(guards.plain_source(source))
    return sizes, numbers


def _sizes(entry: Any) -> Sequence[Any]:
    return entry.size if isinstance(entry.size, tuple) else ()


def _is_about(guard: str, numbers: set[str]) -> bool:
    return guards.is_about_size(guard) or guard.partition(" == ")[0] in numbers


# -- mark_dynamic ---------------------------------------------------------------------------------------------------


class _Marks:
    """Marks the varying dimensions of the tensors that a function is called with, whenever Dynamo compiles it.

    `done` has the marks that could be put, by function: not every source is one that a caller holds.
    """

    def __init__(self, functions: Sequence[Varied]) -> None:
        self._sizes = {function.code: function.sizes for function in functions}
        self.done: dict[CodeKey, dict[str, None]] = {}

    @contextmanager
    def put(self) -> Iterator[None]:
        """Put the marks while the context is open."""
        import torch._dynamo.convert_frame as convert_frame

        owner: Any = convert_frame.ConvertFrameAssert
        original = owner.__call__

        def marked(converter: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
            self._mark(frame.f_code, {"L": frame.f_locals, "G": frame.f_globals})
            return original(converter, frame, *args, **kwargs)

        owner.__call__ = marked
        try:
            yield
        finally:
            owner.__call__ = original

    def _mark(self, code: CodeType, scope: Mapping[str, Any]) -> None:
        import torch

        for source, dimensions in self._sizes.get(key_of(code), {}).items():
            tensor = _value(source, scope)
            if isinstance(tensor, torch.Tensor):
                for dimension in dimensions:
                    torch._dynamo.mark_dynamic(tensor, dimension)
                    mark = f"mark_dynamic({guards.plain_source(source)}, {dimension})"
                    self.done.setdefault(key_of(code), {})[mark] = None


def _value(source: str, scope: Mapping[str, Any]) -> Any:
    """What a source of Dynamo's (`L['batch']['ids']`, `L['self'].cache`) stands for; None for other expressions."""
    try:
        tree = ast.parse(source, mode="eval")
        return _read(tree.body, scope)
    except (SyntaxError, LookupError, AttributeError, TypeError, ValueError):
        return None


def _read(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name():
            return scope[node.id]
        case ast.Attribute():
            return getattr(_read(node.value, scope), node.attr)
        case ast.Subscript():
            return _read(node.value, scope)[ast.literal_eval(node.slice)]
    raise ValueError(ast.unparse(node))


# -- what came of it ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the calls showed: recompiles by function, places that broke, and what failed that had not failed before."""

    recompiles: Mapping[CodeKey, Sequence[Evidence]]
    new_breaks: tuple[Step, ...]
    failure: str


def _outcome(job: Job, **terms: Any) -> _Outcome:
    before = read_records(Path(job.records))[0]
    failed = {record["call"] for record in before if record["kind"] == "raised" and record["name"] == "default"}
    broke = {(item.path, item.line) for item in _breaks(before)}
    heard = Heard(job.name)
    failure = ""
    with DynamoWatch(heard) as watch, compiling(fullgraph=False, backend="eager", **terms) as compile_:
        target = build(job)
        model = compile_(target.model) if target.compile else target.model
        for call, error in call_all(model, target):
            if error is not None and call not in failed and not failure:
                failure = f"call {call} fails: {_refusal(error)}"
    seen = heard.run().evidence
    new = {
        Step(item.path, item.line, item.function): None
        for item in seen
        if item.channel in ("graph-break", "frame-skip") and (item.path, item.line) not in broke
    }
    return _Outcome(watch.recompiles, tuple(new), failure)


def _breaks(records: Sequence[Mapping[str, Any]]) -> Iterator[Evidence]:
    for record in records:
        if record["kind"] == "evidence" and record["evidence"]["channel"] in ("graph-break", "frame-skip"):
            yield evidence_of(record["evidence"])


def _refusal(error: BaseException) -> str:
    """What was refused, and where: of a constraint that was violated, how (torch lists these behind dashes)."""
    told = dynamo_error(error) or error
    listed = [line[4:].partition(". ")[0] for line in str(told).splitlines() if line.startswith("  - ")]
    first = next((line for line in [*listed, *str(told).splitlines()] if line.strip()), "")
    place = place_of_error(told)
    at = f" ({_short(place)})" if place is not None and user_owned(place.path) else ""
    return one_line(f"{type(told).__name__}: {first}") + at


def _record(recorder: Recorder, function: Varied, how: str, outcome: _Outcome) -> None:
    text = f"with {how}: {_told(function, outcome)}"
    for item in function.evidence:
        recorder.send("tried", evidence=asdict(item), text=text)


def _told(function: Varied, outcome: _Outcome) -> str:
    if outcome.failure:
        return outcome.failure
    again = outcome.recompiles.get(function.code, ())
    if not again:
        text = "compiled once for the same calls"
    else:
        guard = next((item.guard for item in reversed(again) if item.guard), "")
        text = f"still compiled {len(again) + 1} times instead of {function.again + 1}; the last time for {guard}"
    if outcome.new_breaks:
        text += f"; breaks anew at {_named([_short(place) for place in outcome.new_breaks])}"
    return text


def _short(place: Step) -> str:
    return f"{PurePath(place.path).name}:{place.line}"


def _named(items: Sequence[str]) -> str:
    rest = len(items) - _MOST_NAMED
    return ", ".join(items[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
