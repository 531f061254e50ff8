"""The finding and what surrounds it: the types every other part of compilelint meets in.

Frozen data, standard library only. No syntax tree, tensor or open file ever sits in one of these, so each can cross a
process boundary, be cached, or be written out as it is.

Positions everywhere: lines and columns are 1-based, columns count Unicode code points, and an end column is
exclusive (one past the last character), as in ruff's and SARIF's output.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, get_args

from compilelint.record import record

Hazard = Literal[
    "graph-break", "frame-skip", "recompile", "host-sync", "cudagraph-skip", "stale-result", "placement", "suppression"
]
Confidence = Literal["certain", "likely", "possible"]
Verdict = Literal["static", "confirmed", "handled", "not-reached", "runtime-only"]
Safety = Literal["safe", "unsafe"]
Channel = Literal["graph-break", "frame-skip", "recompile", "recompile-limit", "fullgraph", "sync", "cudagraph"]
Leaf = tuple[str, tuple[float, ...]]
"""A value that a call returned: what it is, and numbers to compare it by; see `compilelint.runtime.results`."""
TargetStatus = Literal["ok", "failed", "crashed", "timeout", "interrupted", "missing"]

Engine = Literal["torch", "vllm"]
"""What runs the compiled code: `vllm` compiles a model once and drops the guards, so nothing compiles again."""
ENGINES: tuple[Engine, ...] = get_args(Engine)
HAZARDS: tuple[Hazard, ...] = get_args(Hazard)
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@record(frozen=True, slots=True)
class Span:
    """A stretch of source; see the module's note on positions."""

    line: int
    column: int
    end_line: int
    end_column: int


@record(frozen=True, slots=True)
class Step:
    """One place on a path through the program: a region's call path, or a frame of a user stack."""

    path: str
    line: int
    function: str
    note: str = ""


@record(frozen=True, slots=True)
class Rewrite:
    """A change that a rule proposes, before anybody has asked for its edits (`compilelint.fix` works them out).

    `guard`: the statement at `span` goes under `if not torch.compiler.is_compiling():`. `replace`: the expression at
    `span` becomes `template`, in which `{part}` stands for the expression at `part`.
    """

    how: Literal["guard", "replace"]
    title: str
    safety: Safety
    span: Span
    template: str = ""
    part: Span | None = None


@record(frozen=True, slots=True)
class Edit:
    """Replace the text in `span` by `replacement`."""

    span: Span
    replacement: str


@record(frozen=True, slots=True)
class Fix:
    """A suggested change. `safe` cannot change results; `verified` is None until the fix has been tried."""

    title: str
    safety: Safety
    edits: tuple[Edit, ...]
    verified: bool | None = None


@record(frozen=True, slots=True)
class Evidence:
    """One thing the compiler was seen to do, de-duplicated by place and reason.

    `path`, `line` and `function` are the innermost frame of the user's own code. `gb` is torch's graph-break id
    (`"GB0170"`, from torch/_dynamo/graph_break_registry.json) or None where torch gives none. `stack` is outermost
    first.
    """

    target: str
    channel: Channel
    hazard: Hazard
    path: str
    line: int
    function: str
    reason: str
    gb: str | None = None
    hits: int = 1
    guard: str | None = None
    hint: str | None = None
    stack: tuple[Step, ...] = ()
    cost: str | None = None
    tried: tuple[str, ...] = ()
    """What was seen when the calls were made again under other terms, one sentence each."""


@record(frozen=True, slots=True)
class Finding:
    """One hazard at one place, with everything known about it. See the JSON reporter for the outside form."""

    rule: str
    name: str
    hazard: Hazard
    path: str
    span: Span
    function: str
    message: str
    instead: str
    confidence: Confidence
    statement: tuple[int, int] = (0, 0)
    """First and last line of the statement around the span; what a break's line is matched against."""
    region: tuple[Step, ...] = ()
    definition: Step | None = None
    """Where the value that the hazard is about was set, if on another line; its note is the value's name."""
    verdict: Verdict = "static"
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    fingerprint: str = ""
    rewrite: Rewrite | None = None
    """What `fixes` are made from when they are asked for; no format shows it."""


@record(frozen=True, slots=True)
class RuleCard:
    """What a user reads about a rule: the part of a rule file that is data. `help` is Markdown."""

    code: str
    name: str
    hazard: Hazard
    summary: str
    help: str


@record(frozen=True, slots=True)
class Failure:
    """An input that could not be checked: a file that does not parse, a path that is missing. One line of text."""

    path: str
    message: str
    line: int | None = None


@record(frozen=True, slots=True)
class Fullgraph:
    """What `fullgraph=True` did: it passed, or raised its first error here."""

    passes: bool
    reason: str = ""
    gb: str | None = None
    path: str | None = None
    line: int | None = None


@record(frozen=True, slots=True)
class TargetRun:
    """Everything one target showed, complete or up to the moment it died.

    `executed` are the lines the eager pass ran (none where that was not watched) and `traced` the lines Dynamo traced
    into a graph, by file; the merge needs both to tell `handled` from `not-reached`. `calls` is how often the compiled
    callable was called, and `watched` the channels that were open to the end: only on those does silence mean that
    nothing happened. `results` is what each call returned, by pass, where that was asked for.
    """

    name: str
    status: TargetStatus
    detail: str = ""
    device: str = "cpu"
    torch: str = ""
    seconds: float = 0.0
    calls: int = 0
    watched: frozenset[Channel] = frozenset()
    fullgraph: Fullgraph | None = None
    evidence: tuple[Evidence, ...] = ()
    executed: dict[str, frozenset[int]] = field(default_factory=dict)
    traced: dict[str, frozenset[int]] = field(default_factory=dict)
    results: dict[str, tuple[tuple[Leaf, ...], ...]] = field(default_factory=dict)


@record(frozen=True, slots=True)
class Report:
    """One run of compilelint, ready to be written in any format.

    `files` counts the Python files that were checked, those that could not be read left out; `accepted` the findings
    that are not among `findings` because the baseline accepts them.
    """

    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...] = ()
    targets: tuple[TargetRun, ...] = ()
    cards: tuple[RuleCard, ...] = ()
    torch: str = ""
    files: int = 0
    accepted: int = 0
