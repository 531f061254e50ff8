"""What functions asked of the tracer while they were walked, and what they were answered.

All that the walk of a function can learn of the rest of the project, or do to it, goes through the tracer: what a name
means, what an attribute holds, what a call returns. A *transcript* is the list of these questions with their answers. A
function that was edited is walked again with the answers from its transcripts. Where it asks the same questions in the
same order and returns the same, nobody else can tell the difference: what was found elsewhere stands.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from compilelint.record import record
from compilelint.static.facts.renewals import renewed_in
from compilelint.static.facts.state import root_of
from compilelint.static.object_attributes import Postponed
from compilelint.static.project.definitions import ClassAttribute, ClassRef, FunctionRef, Outside, is_small
from compilelint.static.project.index import ModuleIndex, Scope
from compilelint.static.project.naming import is_library
from compilelint.static.project.syntax import walked_statements
from compilelint.static.tracer.binding import uses
from compilelint.static.tracer.frame import Frame, Mode
from compilelint.static.tracer.tracer import Tracer
from compilelint.static.tracer.written import CannotBeToldError, Reader, Writer
from compilelint.static.values import Compiled, External, Function, Instance, Value

if TYPE_CHECKING:
    from compilelint.static.tracer.frame import Env

Answer = TypeVar("Answer")
Words = tuple[object, ...]
"""What a question is about: texts, values, references."""
Replayed = tuple[Frame, list[int]]
"""A frame walked again, and the line of the file of each question that it asked, 0 for one that is no call."""
Told = dict[str, Any]
"""What is kept of a function: what is `seen` of it without walking it, whether it was `shown` to rules, the `table` of
its values, and its `frames`, each as mode, depth, how its caller runs, whether it drives models, its variables, what it
asked, what it returned, and on which line of its body it asked each, -1 where that is not known."""
Number = Callable[[FunctionRef, int], int]
"""Which line of a function's body, from 0, a line of the file is; -1 where it is none."""

MOST_FRAMES = 50
"""Of a function that was walked in more ways than this nothing is kept."""
MOST_QUESTIONS = 100_000
"""Once a unit has asked as many, nothing more is kept of it: a hundred questions take 20 KB. Most units ask 5,000."""
_MODES: frozenset[Mode] = frozenset({"compiled", "host", "construct"})
_OF_COMPILER = ("torch.compile", "torch._dynamo")
_OTHERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal)
"""What is not inside a function of which transcripts are kept."""


@record(slots=True)
class Transcript:
    """What one frame began with, asked and returned."""

    mode: Mode
    depth: int
    called_from: Mode | None
    variables: tuple[tuple[str, Value], ...]
    asked: list[tuple[str, Words, object, int]]
    drives: bool = False
    result: Value | None = None


class AskedTracer(Tracer):
    """A tracer that hears each question of a frame. What it asks itself to find an answer is no question."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._answering = True
        self._fixed: dict[tuple[str, str], bool] = {}

    def heard(self, how: str, words: Words, answer: Callable[[], Answer], line: int = 0) -> Answer:
        """The answer to a question: to be worked out by `answer`, or known. Calls are on a `line` of the file."""
        raise NotImplementedError

    def global_value(self, module: ModuleIndex, name: str) -> Value:
        """As `Tracer.global_value`."""
        if self._answering or self._is_fixed(module, name):
            return super().global_value(module, name)
        return self.heard("global", (module.name, name), partial(super().global_value, module, name))

    def _is_fixed(self, module: ModuleIndex, name: str) -> bool:
        """Whether a name means a class or something outside of the project: to ask for that changes nothing."""
        key = (module.name, name)
        if key not in self._fixed:
            found = self.program.resolve(module, name)
            self._fixed[key] = found is None or isinstance(found, (Outside, ClassRef))
        return self._fixed[key]

    def member_value(self, module: str, name: str) -> Value:
        """As `Tracer.member_value`."""
        if self._answering:
            return super().member_value(module, name)
        return self.heard("member", (module, name), partial(super().member_value, module, name))

    def imported(self, module: str, name: str, outside: External) -> Value:
        """As `Tracer.imported`."""
        if self._answering or is_library(module):
            return super().imported(module, name, outside)
        return self.heard("imported", (module, name, outside), partial(super().imported, module, name, outside))

    def annotation(self, node: ast.expr, module: ModuleIndex) -> Value:
        """As `Tracer.annotation`."""
        if self._answering:
            return super().annotation(node, module)
        return self.heard("annotation", (node, module.name), partial(super().annotation, node, module))

    def default(self, node: ast.expr, module: ModuleIndex) -> Value:
        """As `Tracer.default`."""
        if self._answering:
            return super().default(node, module)
        return self.heard("default", (node, module.name), partial(super().default, node, module))

    def alias_value(self, node: ast.expr, home: ModuleIndex) -> Value:
        """As `Tracer.alias_value`."""
        if self._answering:
            return super().alias_value(node, home)
        return self.heard("alias", (node, home.name), partial(super().alias_value, node, home))

    def class_value(self, member: ClassAttribute) -> Value:
        """As `Tracer.class_value`."""
        if self._answering:
            return super().class_value(member)
        return self.heard("class", (member.owner, member.value), partial(super().class_value, member))

    def decorated(self, ref: FunctionRef) -> Value:
        """As `Tracer.decorated`."""
        if self._answering:
            return super().decorated(ref)
        return self.heard("decorated", (Function(ref),), partial(super().decorated, ref))

    def instance_of(self, ref: ClassRef) -> Value:
        """As `Tracer.instance_of`."""
        if self._answering:
            return super().instance_of(ref)
        return self.heard("instance", (ref,), partial(super().instance_of, ref))

    def attribute(self, owner: Instance, name: str, frame: Frame) -> Value:
        """As `Tracer.attribute`."""
        if self._answering:
            return super().attribute(owner, name, frame)
        return self.heard("attribute", (owner, name), partial(super().attribute, owner, name, frame))

    def keep(self, owner: Instance, name: str, value: Value, *, alone: bool = False) -> None:
        """As `Tracer.keep`."""
        if self._answering:
            return super().keep(owner, name, value, alone=alone)
        return self.heard("keep", (owner, name, value, alone), partial(super().keep, owner, name, value, alone=alone))

    def put_off(self, owner: Instance, what: Postponed, node: ast.stmt, variables: Env) -> None:
        """As `Tracer.put_off`. What is to be done is told by the text of the statement and what it sees."""
        if self._answering:
            return super().put_off(owner, what, node, variables)
        words = (owner, node, tuple(variables.items()))
        return self.heard("put off", words, partial(super().put_off, owner, what, node, variables))

    def assigned_elsewhere(self, owner: Instance, name: str) -> Value | None:
        """As `Tracer.assigned_elsewhere`."""
        if self._answering:
            return super().assigned_elsewhere(owner, name)
        return self.heard("elsewhere", (owner, name), partial(super().assigned_elsewhere, owner, name))

    def enter(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        node: ast.AST | None,
        caller: Frame,
    ) -> Value:
        """As `Tracer.enter`."""
        if self._answering:
            return super().enter(function, args, keywords, node, caller)
        work = partial(super().enter, function, args, keywords, node, caller)
        return self.heard("enter", (function, args, tuple(keywords.items()), _is_own(node)), work, _line(node))

    def construct(
        self, ref: ClassRef, args: tuple[Value, ...], keywords: dict[str, Value], node: ast.AST | None, caller: Frame
    ) -> Value:
        """As `Tracer.construct`."""
        if self._answering:
            return super().construct(ref, args, keywords, node, caller)
        work = partial(super().construct, ref, args, keywords, node, caller)
        return self.heard("construct", (ref, args, tuple(keywords.items()), _is_own(node)), work, _line(node))


class NotingTracer(AskedTracer):
    """A tracer that keeps transcripts of functions, but for those of the modules `own`."""

    def __init__(self, *args: Any, own: Collection[str] = ()) -> None:
        super().__init__(*args)
        self._own = own
        self._asked: list[tuple[str, Words, object, int]] = []
        self._transcripts: dict[FunctionRef, list[Transcript]] = {}
        self._questions = 0
        self._untold: set[FunctionRef] = set()
        self._shown: set[FunctionRef] = set()
        self._guessed: dict[Scope, set[str]] = {}
        show = self.on_frame

        def noting(frame: Frame) -> None:
            self._shown.add(frame.ref)
            show(frame)

        self.on_frame = noting

    def heard(self, how: str, words: Words, answer: Callable[[], Answer], line: int = 0) -> Answer:
        """Note a question with its answer."""
        self._answering = True
        try:
            found = answer()
        finally:
            self._answering = False
        self._asked.append((how, words, found, line))
        self._questions += 1
        return found

    def _walk(self, frame: Frame) -> Value:
        before = self._answering, self._asked
        told = frame.ref not in self._untold and self._may_be_told(frame)
        self._answering, self._asked = not told, []
        variables = tuple(frame.env.items())
        noticed = len(self.driven.nested), len(self.hooks)
        try:
            result = super()._walk(frame)
            if told and _only_asks(frame) and noticed == (len(self.driven.nested), len(self.hooks)):
                transcripts = self._transcripts.setdefault(frame.ref, [])
                called = frame.caller.mode if frame.caller is not None else None
                transcripts.append(
                    Transcript(frame.mode, frame.depth, called, variables, self._asked, frame.drives, result)
                )
                told = len(transcripts) <= MOST_FRAMES
            else:
                told = False
            if not told:
                self._untold.add(frame.ref)
            return result
        finally:
            self._answering, self._asked = before

    def _may_be_told(self, frame: Frame) -> bool:
        return (
            self._questions < MOST_QUESTIONS
            and frame.module.name not in self._own
            and frame.mode in _MODES
            and frame.closure is None
            and _can_be_told(frame.ref.node)
        )

    def guess_by_use(self, scope: Scope, parameter: str) -> None:
        """As `Tracer.guess_by_use`."""
        self._guessed.setdefault(scope, set()).add(parameter)

    def compile_site(self, inner: Value, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Compiled:
        """As `Tracer.compile_site`."""
        self._untold.add(frame.ref)
        return super().compile_site(inner, keywords, node, frame)

    def enter_compiled(
        self,
        function: Compiled,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        node: ast.AST | None,
        caller: Frame,
    ) -> Value:
        """As `Tracer.enter_compiled`."""
        self._untold.add(caller.ref)
        return super().enter_compiled(function, args, keywords, node, caller)

    def forget(self) -> None:
        """As `Tracer.forget`."""
        super().forget()
        self._transcripts.clear()
        del self.on_frame  # which holds this tracer

    def told(
        self, others: Collection[tuple[str, int]], name_of: Callable[[FunctionRef], str], number: Number
    ) -> Iterator[tuple[FunctionRef, Told]]:
        """What is kept of the functions that were walked, without `others`, by module and line.

        Where it was seen how something is compiled or driven, rules are told that in functions below.
        """
        driven = self.driven
        drives = bool(driven.entries or driven.changed or driven.singly or driven.made)
        drives = drives or any(self.compile_options.values())
        for ref, transcripts in self._transcripts.items():
            if drives and (ref in self._shown or any(one.mode == "host" for one in transcripts)):
                continue
            if ref not in self._untold and (ref.module, ref.node.lineno) not in others:
                with suppress(CannotBeToldError):
                    writer = Writer(name_of, [], {})
                    frames = [_written(one, writer, partial(number, ref)) for one in transcripts]
                    about = {"seen": _seen(ref, self._guessed_of(ref), self), "shown": ref in self._shown}
                    yield ref, {**about, "table": writer.table, "frames": frames}

    def _guessed_of(self, ref: FunctionRef) -> list[str]:
        """The parameters of which it counts how the function uses them: all, where it is the root of a region."""
        transcripts = self._transcripts[ref]
        if any(one.called_from is None for one in transcripts):
            return [name for name, _ in transcripts[0].variables]
        return sorted(self._guessed.get(ref.node, ()))


class ReplayingTracer(AskedTracer):
    """A tracer that has frames answered what they were answered before; another question is a CannotBeToldError."""

    def __init__(self, *args: Any, writer: Writer, reader: Reader) -> None:
        super().__init__(*args)
        self._writer = writer
        self._reader = reader
        self._left: list[list[Any]] = []
        self._lines: list[int] = []
        self._answering = False

    def heard(self, how: str, words: Words, answer: Callable[[], Answer], line: int = 0) -> Answer:
        """What a question was answered."""
        if not self._left:
            raise CannotBeToldError(how)
        *question, place = self._left.pop()
        if question != [how, *_worded(words, self._writer)]:
            raise CannotBeToldError(how)
        self._lines.append(line)
        found: Answer = self._reader.value(place)
        return found

    def enter_compiled(self, *_: Any) -> Value:
        """That is in no transcript."""
        raise CannotBeToldError("compiled")

    compile_site = enter_compiled  # type: ignore[assignment]

    def replayed(self, ref: FunctionRef, told: list[Any], module: ModuleIndex) -> Replayed | None:
        """Walk a function as it was walked before; None where that can be told from outside."""
        mode, depth, called_from, drives, variables, asked, result, _ = told
        env: Env = {name: self._reader.value(place) for name, place in variables}
        frame = Frame(self, ref, module, env, mode, depth=depth)
        frame.caller = _Anybody(called_from) if called_from else None  # type: ignore[assignment]
        self._left, self._lines = asked[::-1], []
        found = self._walk(frame)
        same = not self._left and frame.drives == drives and self._writer.place(found) == result
        same = same and not self.driven.nested and not self.hooks
        return (frame, self._lines) if same and _only_asks(frame) else None


class CallerMattersError(Exception):
    """What is asked hangs on who leads to the function."""


class _Anybody:
    """Stands for a caller of whom nothing is known but how it runs."""

    drives = True
    """So that nobody is told above it."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode

    def __getattr__(self, name: str) -> Any:
        raise CallerMattersError(name)


def replay(told: Told, ref: FunctionRef, module: ModuleIndex, tracer: ReplayingTracer) -> list[Replayed] | None:
    """The frames of a function as it is now; None where others can tell them from those that are `told`."""
    if told["seen"] != _seen(ref, told["seen"][1], tracer) or not _can_be_told(ref.node):
        return None
    frames = [tracer.replayed(ref, one, module) for one in told["frames"]]
    return [frame for frame in frames if frame is not None] if None not in frames else None


def _seen(ref: FunctionRef, parameters: Collection[str], tracer: Tracer) -> list[Any]:
    """What is seen of the body of a function without walking it: whether it is small, how it uses parameters, and
    which objects it renews, on any path."""
    used = uses(ref, tracer.table) if parameters else {}
    return [is_small(ref.node), parameters, [used.get(name) for name in parameters], *map(sorted, renewed_in(ref.node))]


def _is_own(site: ast.AST | None) -> bool:
    """Whether a call is of something of the object's own: rules are told that in the function that is called."""
    root = root_of(site.func) if isinstance(site, ast.Call) else None
    return isinstance(root, ast.Name) and root.id == "self"


def _line(site: ast.AST | None) -> int:
    return getattr(site, "lineno", 0)


def _written(transcript: Transcript, writer: Writer, number: Callable[[int], int]) -> list[Any]:
    place = writer.place
    return [
        *(transcript.mode, transcript.depth, transcript.called_from, transcript.drives),
        [[name, place(value)] for name, value in transcript.variables],
        [[how, *_worded(words, writer), place(answer)] for how, words, answer, _ in transcript.asked],
        place(transcript.result),
        [number(line) for *_, line in transcript.asked],
    ]


def _worded(words: Words, writer: Writer) -> list[Any]:
    place = writer.place
    return [
        word if word.__class__ is str else _text_of(word) if isinstance(word, ast.AST) else place(word)
        for word in words
    ]


@cache
def _text_of(node: ast.AST) -> str:
    return ast.unparse(node)


@cache
def _can_be_told(node: Scope) -> bool:
    """Whether a function has nothing inside that outlasts it. (Lambdas that do are found where they are handed on.)"""
    return isinstance(node, ast.FunctionDef) and not any(
        isinstance(inner, _OTHERS) for inner in walked_statements(node) if inner is not node
    )


def _only_asks(frame: Frame) -> bool:
    """Whether a frame has left nothing behind but what it asked and returned."""
    if frame.effects:
        return False
    for value in frame.kinds.values():
        kind = value.__class__
        if kind is Compiled or (kind is External and value.name.startswith(_OF_COMPILER)):  # type: ignore[union-attr]
            return False
    return True
