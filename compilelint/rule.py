"""What a rule file is made of, and what a rule may ask.

A file `rules/clNNN_some_name.py` gives the rule its code (`CLNNN`) and name (`some-name`). Inside:

- the module docstring: first line = summary (one sentence, becomes the SARIF short description), then Markdown sections
  `## What it does`, `## Why it costs`, `## Write instead`, optionally `## Limits`, `## References`;
- `HAZARD`: the hazard class its findings carry unless a hit says otherwise;
- `WATCH`: what makes the check run at all;
- `BAD` and `GOOD`: examples, each an experiment with its measured outcome; a reported line ends in `# ~`, one that
  another rule reports on the way in `# ~ CL202`, one that both report in `# ~ CL202  # ~`;
- `check(node, view)`: yields a `Hit` for each hazard at `node`, with a `rewrite` where one change mends it (see
  `compilelint.static.flagging.rewrites`);
- optionally `FALLBACK = True`: the rule's findings give way to those of any other rule in the same place;
- optionally `CAPTURED = "numbers"` or `"sizes"`: what the rule reports does not happen where Dynamo is set to capture
  numbers, or sizes, that depend on data.

Nothing else needs editing to add a rule.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, Protocol, TypeVar

from compilelint.model import Confidence, Engine, Hazard, Rewrite, RuleCard, Span
from compilelint.record import record
from compilelint.static.values import Class, Function, Instance, Value

RegionKind = Literal["compiled", "decode-loop", "batch-loop", "host"]
"""`compiled`: Dynamo traces this code. `decode-loop`: Python that calls a model each turn and feeds back what it gave.
`batch-loop`: Python that calls what its file compiles each turn and feeds nothing back: it trains, validates or serves.
`host`: any other code that mentions torch.compile, where placement rules look."""

Fact = TypeVar("Fact", bound=bool | str | tuple[str, ...])
"""What can be told of a file."""

Captured = Literal["numbers", "sizes"]
"""What `capture_scalar_outputs` and `capture_dynamic_output_shape_ops` keep in the graph, and `fullgraph=True` both."""

Varying = Literal["size", "int", "float"]
"""What Dynamo may make a symbol of once it has found it changed."""

Outcome = Literal["break", "skip", "recompile", "clean", "stale", "unmeasured"]


@record(frozen=True, slots=True)
class Example:
    """A complete small module that the test suite lints *and* compiles.

    `code` has its own imports. `run` is an expression, evaluated in the module, giving `(callable, [args, args, ...])`:
    what is compiled and the positional arguments of successive calls. `default` and `fullgraph` are what torch does in
    the two regimes: `break` (a graph break, graphs on both sides), `skip` (no graph for the frame), `recompile` (more
    than one compilation of a frame, no break), `stale` (output differs from eager), `clean`; for `fullgraph`, `break`
    means that it raises.
    `unmeasured` is for what a CPU cannot show (syncs, CUDA graphs, placement); the linter's half is still tested.
    `inside` marks code that calls torch.compile itself, so that `run`'s callable is not compiled again. `engine` is the
    setting with which the example is linted.
    """

    code: str
    run: str = ""
    default: Outcome = "unmeasured"
    fullgraph: Outcome = "unmeasured"
    inside: bool = False
    engine: Engine = "torch"


@record(frozen=True, slots=True)
class Watch:
    """What a rule looks at.

    `nodes`: the syntax node types `check` is called with. `names`: for calls, the last part of the called name (`item`
    for `x.sum().item()`); empty means every call. `tests`: `check` is called with every expression whose truth Python
    asks for (the parts of `if`, `while`, `assert`, ternary, `and`/`or`/`not`, comprehension conditions), with `not`,
    `and` and `or` taken apart.
    `callees` and `syntax` spare `check` most of those nodes: of the calls only those are shown whose dotted name (see
    `View.callee`) satisfies `callees`, of all nodes only those that satisfy `syntax`, which also gets the file. A call
    that satisfies one of both is shown. Each is asked once per name or node, so it must depend on nothing else.
    `files`: only nodes of files that satisfy it, which is asked before `syntax`, once per function.
    `kinds`: of the nodes that `syntax` leaves, only those with an alternative of this kind; for a call, what is called.
    `entered`: only code below functions that code which was seen calls compiled, see `View.passed`.
    `regions`: the kinds of code it speaks about.
    """

    nodes: tuple[type[ast.AST], ...] = ()
    names: frozenset[str] = frozenset()
    tests: bool = False
    callees: Callable[[str], bool] | None = None
    syntax: Callable[[ast.AST, ast.Module], bool] | None = None
    files: Callable[[ast.Module], bool] | None = None
    kinds: Callable[[Value], bool] | None = None
    entered: bool = False
    regions: frozenset[RegionKind] = frozenset({"compiled"})


@record(frozen=True, slots=True)
class Hit:
    """One hazard: where, how sure, and in the user's own names what happens (`message`), what to write (`instead`).

    `rewrite` is that change where compilelint can make it: data, made by `compilelint.static.flagging.rewrites`.
    `if_begun_anew`: it counts only where a break below makes Dynamo begin anew with this function, or with an
    `__init__` that calls it. `if_broken`: only where this function, or what it always calls, always breaks.
    """

    node: ast.expr | ast.stmt
    message: str
    instead: str
    confidence: Confidence = "certain"
    hazard: Hazard | None = None
    rewrite: Rewrite | None = None
    if_begun_anew: bool = False
    if_broken: Function | None = None


@record(frozen=True, slots=True)
class Place:
    """A line of code, 1-based, in a file of the project."""

    path: str
    line: int


@record(frozen=True, slots=True)
class Setting:
    """An attribute `name` that driving code sets to `value` between two calls of what is compiled.

    `steps`: a loop gives it another value from turn to turn.
    """

    name: str
    value: Value
    steps: bool
    place: Place


@record(frozen=True, slots=True)
class Passing:
    """What one stretch of driving code passes for a parameter in its calls of a compiled function, in turn.

    `values` has one entry per call; a call in a loop counts as two. `lasting`: it is the same object each time.
    `varies`: it is another one each time, as far as the text of the code tells. `grows`: it is a list or dict that gets
    longer. `carried`: it is a function that carries other numbers each time, these. `sizes`: it is a tensor of another
    size each time in these dimensions, 0-based or counted from the last as `-1`. `entries`: it is a dict written down
    with something else under these keys each time. `of_model`: it runs through the parameters of a model or an
    optimizer.
    """

    values: tuple[Value, ...]
    lasting: bool
    varies: bool
    grows: bool
    carried: tuple[Value, ...]
    sizes: frozenset[int]
    entries: frozenset[str]
    of_model: bool
    place: Place


@record(frozen=True, slots=True)
class Checkpointed:
    """How code runs under `torch.utils.checkpoint.checkpoint`.

    `direct`: it is the function that was handed over, not one that this calls. `optional`: a flag asks for it.
    """

    direct: bool
    optional: bool


class View(Protocol):
    """What a rule may ask about the function it looks at. All is answered for one way of calling the function."""

    def __hash__(self) -> int:
        """By identity: an answer may be kept for several rules that ask the same."""

    @property
    def region(self) -> RegionKind:
        """How this code runs."""

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module:
        """The function that is being looked at; the module for code at module level (`host` regions only)."""

    @property
    def qualname(self) -> str:
        """Its qualified name, `Decoder.forward`."""

    @property
    def module(self) -> ast.Module:
        """The whole file: what else it does with a global, a class attribute or a compiled callable."""

    def fact(self, question: Callable[[ast.Module], Fact]) -> Fact:
        """What a function at the top of some module answers about the whole file, without lines.

        Unlike what is read off `module`, it is asked again after an edit: while the answer stays, nothing else is.
        """

    def makers(self, name: str) -> frozenset[str]:
        """What the file calls to make what it binds to a name or attribute, as written: `{"tqdm", "torch.jit.load"}`.

        For what kinds do not tell: an object that some wrapper made of another one.
        """

    @property
    def entry(self) -> bool:
        """Whether this function is the region's outermost one, whose parameters are the region's inputs."""

    @property
    def same_self(self) -> bool:
        """Whether `self` is the object whose method the region starts with, or one reached from it by attributes.

        Such an object is the same one at the next call; one that was handed in or made in the region may be another.
        """

    @property
    def of_module(self) -> bool:
        """Whether `self` is a module, or an object reached from one, or from a global, by attributes and entries.

        Dynamo keeps the ints it finds there as constants.
        """

    @property
    def checkpointed(self) -> Checkpointed | None:
        """How the way from the region's start to this function leads through activation checkpointing, if it does."""

    @property
    def assumed(self) -> bool:
        """Whether nothing in the project says that this code is compiled.

        True where the region starts at a public function on tensors, which may be called from a compiled model or not.
        """

    @property
    def measures(self) -> bool:
        """Whether this file, by its name or that of its folder, is a benchmark or a test: what it sets is for that."""

    @property
    def options(self) -> Mapping[str, object]:
        """The constant keywords of the `torch.compile` that makes this region: `{"mode": "reduce-overhead"}`.

        `dynamic` is False, too, where the file that compiles switches `automatic_dynamic_shapes` off.
        """

    def keeps(self, what: Varying) -> bool:
        """Whether this region is compiled so that sizes, or numbers of a type, are constants however often they change.

        Each value compiles again then, up to the recompile limit; else a second one makes it a symbol.
        """

    @property
    def engine(self) -> Engine:
        """What runs the compiled code, as the settings say."""

    @property
    def torch(self) -> tuple[int, int]:
        """The minor version of torch that findings speak about, `(2, 13)`: for what a later one does differently."""

    def kind(self, node: ast.expr) -> Value:
        """What the value of `node` is; `UNKNOWN` when nothing tells."""

    def definition(self, value: Class | Function | Instance) -> ast.AST:
        """The function that a value is, or the class that it is or is an object of, bodies and all.

        What stands around bodies (decorators, parameters, bases) a rule may also read from `value.ref.node`.
        """

    def callee(self, call: ast.Call) -> str:
        """The dotted name of what is called.

        `torch.nonzero`, `builtins.print`, `torch.Tensor.item`, `numpy.ndarray.item`, `logging.Logger.info`,
        `list.append`, `dict.get`, `torch.nn.LSTM.__call__`, `project.module.Class.method`. `?.item` when the receiver
        of a method is unknown, `?` when the callee is.
        """

    def handed_back(self, asks: ast.Call | ast.Compare) -> Value:
        """What the function gives back that a call was handed: the key of `sorted`, the test of `filter`.

        Of `item in container`, what the container's own `__contains__` gives. `UNKNOWN` where there is none.
        """

    def classes(self, value: Value) -> tuple[ast.ClassDef, ...]:
        """The project's classes that one of them, or an object of it, is made of, in method resolution order."""

    def outside(self, value: Value) -> tuple[str, ...]:
        """The classes of libraries that exactly one class, or an object of it, inherits from: `pydantic.BaseModel`."""

    def decorators(self, value: Value) -> tuple[tuple[str, ast.expr], ...]:
        """What a function or class of the project is decorated with out of libraries: dotted name and expression."""

    def changed(self, node: ast.Attribute) -> Setting | None:
        """How driving code gives an attribute another value between two calls of what is compiled; None if nowhere.

        Driving code is what calls the result of torch.compile, in the file that compiles it.
        """

    def settings(self, node: ast.expr) -> tuple[Setting, ...]:
        """What driving code changes like that on the module of torch at `node`, such as `p` of a dropout."""

    def put_in_global(self, node: ast.Attribute) -> Place | None:
        """Where a context manager makes the object with this value, which it keeps in a global while its body runs."""

    def made_with(self, node: ast.Attribute | ast.Subscript) -> Place | None:
        """Where driving code makes objects, or dicts, anew that have another value each time where `node` reads them.

        None unless it passes such objects to what is compiled, and this function is handed one of them, or sets an
        attribute to one of them between two calls.
        """

    def singly(self) -> Place | None:
        """Where a loop compiles the module that this code belongs to as one of several; None if none does."""

    def where(self, place: Place) -> str:
        """A place in words: `line 12` in this file, `pkg/engine.py:12` in another."""

    def passed(self, name: str) -> tuple[Passing, ...]:
        """What driving code passes for a parameter of the region's outermost function, or of one it is handed on to."""

    def lasting(self, name: str) -> bool:
        """Whether driving code passes the same object at each call for this parameter, here or in the callers."""

    def handed_in(self, name: str) -> bool:
        """Whether a parameter is, as it is, a parameter of the region's outermost function."""

    def reached(self, node: ast.expr) -> bool:
        """False for code on a path that cannot run here (`if not is_compiling()`, `x is None` with x given)."""

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """The syntax nodes around `node`, innermost first, up to the function."""

    def argument(self, call: ast.Call, position: int, name: str) -> ast.expr | None:
        """The argument expression at a 0-based position (receiver not counted) or by keyword."""

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Where `node` stands in the file; a compound statement up to the end of its first line."""

    def text(self, node: ast.AST) -> str:
        """The source text of `node`, on one line, shortened for use in a message."""

    def breaks(self, call: ast.Call) -> str | None:
        """The GB id with which torch's own table says this call breaks in default mode for these argument kinds.

        None when it compiles or the table does not know.
        """

    def on_cuda(self, call: ast.Call) -> frozenset[str]:
        """What a GPU was seen to do with a call of these argument kinds; empty when nothing, or when that is unknown.

        `waits`: called eagerly, it makes the host wait. Under CUDA graphs: `error` (recording fails), `skip` (the whole
        graph goes without), `split` (the call is left out).
        """


@record(frozen=True, slots=True, eq=False)
class Rule:
    """A rule file, loaded."""

    card: RuleCard
    watch: Watch
    check: Callable[[ast.AST, View], Iterator[Hit]]
    bad: tuple[Example, ...]
    good: tuple[Example, ...]
    captured: Captured | None = None
    """What has to be captured for its hazard not to happen."""
    fallback: bool = False
    """Speaks only where no other rule does: its finding gives way to another's that overlaps it."""

    @property
    def code(self) -> str:
        """`CL201`."""
        return self.card.code
