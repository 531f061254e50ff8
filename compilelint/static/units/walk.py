"""One unit of files: what is walked in it, from where, and on whose behalf."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from compilelint.knowledge.table import Table
from compilelint.model import Failure, Finding
from compilelint.static.flagging.flag import Flagger
from compilelint.static.project import contents
from compilelint.static.project.compiled_names import compiled_by, compiles_parameter
from compilelint.static.project.definitions import ClassRef, FunctionRef
from compilelint.static.project.index import ModuleIndex
from compilelint.static.project.parts import STARTS
from compilelint.static.project.program import Program
from compilelint.static.regions import link
from compilelint.static.regions.batch_loops import batch_loops
from compilelint.static.regions.decode_loops import converts, decode_loops, each_turn
from compilelint.static.regions.public import public_functions
from compilelint.static.tracer import statements
from compilelint.static.tracer.attributes import entry_of, is_opaque
from compilelint.static.tracer.binding import counts, root_arguments, step_of_schedule, takes_tensor
from compilelint.static.tracer.construction import numbers_of_part
from compilelint.static.tracer.frame import TURN_OF, Frame, Mode
from compilelint.static.tracer.tracer import Tracer
from compilelint.static.tracer.transcripts import NotingTracer
from compilelint.static.units.reading import all_told, name_of, readings
from compilelint.static.units.work import Outcome, Reading, Task
from compilelint.static.values import (
    UNKNOWN,
    Compiled,
    Const,
    Function,
    Instance,
    Partial,
    Scalar,
    Value,
    gives_arrays,
    gives_module,
    gives_tensors,
    options,
)

_OPEN: dict[str, Value] = {"*": UNKNOWN, "**": UNKNOWN}
"""A root's arguments: nobody knows which are passed."""


class Walk:
    """One task being done.

    `watch` sees every frame that rules are asked about. `kept` says whether to tell what is read.
    """

    def __init__(
        self,
        task: Task,
        program: Program,
        table: Table,
        flagger: Flagger,
        base: Path,
        watch: Callable[[Frame], None] | None = None,
        *,
        kept: bool = False,
    ) -> None:
        self.task = task
        self.program = program
        self.flagger = flagger
        about = (program, table, self._finished, base)
        self.tracer = NotingTracer(*about, own=task.modules) if kept else Tracer(*about)
        self.failures: list[Failure] = []
        self._watch = watch
        self._waiting: list[Frame] | None = None
        self._around: set[FunctionRef] = set()
        """What loops around a model in the same file call, and what making objects calls: it is not part of a model."""

    def _finished(self, frame: Frame) -> None:
        if self._watch is not None:
            self._watch(frame)
        if frame.mode == "construct" or (frame.mode in TURN_OF.values() and _loop_around(frame) is frame.module):
            self._around.add(frame.ref)
        if self._waiting is not None and frame.mode == "compiled":
            self._waiting.append(frame)
        else:
            self.flagger.look(frame)

    def outcome(self) -> Outcome:
        """Do the task."""
        self.program.begin(self.task.modules)
        named = [module for name in self.task.modules if (module := self.program.module(name))]
        modules = [module for module in named if not link.is_template(self.program, module)]
        if self.task.public is None:
            self._first_pass(modules)
        else:
            wanted = frozenset(self.task.public)
            for module in modules:
                for root in self._public(module):
                    if self._name(root.ref) in wanted and root.ref not in self.tracer.entered:
                        with self._contained(module):
                            self._assumed(root, module)
        public = [root.ref for module in (modules if self.task.public is None else ()) for root in self._public(module)]
        unread = sorted(self.program.unread().items())
        findings = self.flagger.findings()
        read, told = self._read(findings)
        return Outcome(
            findings=findings,
            failures=tuple(self.failures),
            fallbacks=self.flagger.fallbacks,
            unread=tuple(Failure(self.tracer.display_path(path), str(error), error.line) for path, error in unread),
            entered=frozenset(name for ref in self.tracer.entered | self._around if (name := self._name(ref))),
            public=tuple(map(self._name, public)),
            read=read,
            absent=frozenset(path.as_posix() for path in self.program.absent),
            asked=frozenset(self.program.asked),
            told=told,
        )

    def _read(self, findings: tuple[Finding, ...]) -> tuple[dict[str, Reading], bytes]:
        if not isinstance(self.tracer, NotingTracer):
            return {}, b""
        found = readings(self.program, self.task, findings, self.tracer.display_path, self.flagger.pattern)
        return found, all_told(self.program, found, self.tracer)

    def _name(self, ref: FunctionRef) -> str:
        """What a function is known by from one task to the next, which have no syntax node in common; "" for others."""
        name = name_of(ref, self.program)
        return name and f"{ref.module}:{name}"

    def _first_pass(self, modules: list[ModuleIndex]) -> None:
        """Trace every region that starts in the unit, or that something in it compiles."""
        # What driving code changes between two calls of compiled code is known when all of it has been walked.
        self._waiting = []
        for module in modules:
            self._guarded(module, self._host)
        waiting, self._waiting = self._waiting, None
        for frame in waiting:
            with self._contained(frame.module):
                self.flagger.look(frame)
        for module in modules:
            self._guarded(module, self._regions)
        for name, compiled, why in self.tracer.compile_sites():
            if name not in self.task.modules:
                self._compiled(compiled, why)
        for _, hook, how in list(self.tracer.hooks):
            if isinstance(hook, Function) and not (hook.disabled or self._is_disabled(hook.ref)):
                self._enter(hook, f"a forward hook ({how})")
        for module in modules:
            self._guarded(module, self._loops)
        for module in modules:
            self._guarded(module, self._drivers)
        for entry in self.task.entry_points:
            self._entry_point(entry)

    def _guarded(self, module: ModuleIndex, step: Callable[[ModuleIndex], None]) -> None:
        with self._contained(module):
            step(module)

    @contextmanager
    def _contained(self, module: ModuleIndex) -> Iterator[None]:
        """A mistake of ours costs the region it happens in, and is told once for each file."""
        try:
            yield
        except Exception as error:
            if os.environ.get("COMPILELINT_DEBUG"):
                raise
            path = self.tracer.display(module)
            if all(failure.path != path for failure in self.failures):
                text = f"internal error, please report it: {type(error).__name__}: {error}"
                self.failures.append(Failure(path, text))

    def _host(self, module: ModuleIndex) -> None:
        """Code around regions: who compiles what."""
        speaks = contents.speaks_of_compile(module)
        if speaks:
            self._module_level(module)
        for ref in contents.functions(module):
            if contents.host_function(ref, module):
                self._start(ref, "host", "this code compiles a model")
        using = self._using(module)
        for ref in using:
            self._start(ref, "driving", "this code uses what is compiled")
        # What leads there tells which of its arguments are others each time, and what a function is given to compile.
        compiling = [ref for ref in contents.functions(module) if compiles_parameter(ref.node)] if speaks else []
        for ref in link.leading_to([*using, *compiling], module):
            if ref not in using and not contents.host_function(ref, module):
                self._start(ref, "driving", "this code leads to what is compiled")
        for ref in link.hooking(self.program, module):
            if not any(self.tracer.walked(ref, mode) for mode in ("host", "driving")):
                self._start(ref, "driving", "this code makes a model that hooks may be put on")
        self._nested()

    def _drivers(self, module: ModuleIndex) -> None:
        """Functions that use what their file compiles; last, since a decode loop may lead to one of them."""
        for ref in self._using(module):
            self._start(ref, "host", "this code uses what is compiled")

    def _using(self, module: ModuleIndex) -> list[FunctionRef]:
        """The functions that use what their file compiles and do not compile it."""
        functions = contents.functions(module) if contents.speaks_of_compile(module) else ()
        return [
            ref
            for ref in functions
            if not contents.host_function(ref, module) and link.drives(ref, self.program, module)
        ]

    def _nested(self) -> None:
        """Functions that driving code defines: what it calls them with is not known."""
        done = {site.inner.ref for _, site, _ in self.tracer.compile_sites() if isinstance(site.inner, Function)}
        nested = self.tracer.driven.nested
        while nested:
            function = nested.pop(0)
            home = self.program.module(function.ref.module)
            if home is not None:
                self.program.note(home.name, "code" if contents.speaks_of_compile(home) else STARTS)
            if home is not None and function.ref not in done and link.mentions_compiled(function.ref.node, home):
                done.add(function.ref)
                arguments = root_arguments(function.ref, function.bound is not None, self.tracer.table)
                self.tracer.run(function, (), {**_OPEN, **arguments}, "driving", None, None, "driving code defines it")

    def _loops(self, module: ModuleIndex) -> None:
        """Loops that call a model; one that is compiled itself is unrolled into the graph, and waits for nothing."""
        if contents.only_tests(module):
            return
        looping: dict[FunctionRef, Mode] = {}
        for ref in contents.functions(module):
            if ref not in self.tracer.entered and not converts(ref, module):
                decoding = decode_loops(ref, module)
                others = batch_loops(ref, module, decoding)
                self._loop("batch-loop", others, ref, "a loop here calls what is compiled each turn", looping)
                self._loop("decode-loop", decoding, ref, "a loop here calls a model each turn", looping)
        # What leads to a loop tells what its parameters are: the schedule, the callback, the tensors it starts from.
        self.tracer.looping = looping
        leading = link.leading_to(looping, module)
        for ref in [*link.outermost(leading), *leading]:
            if not self.tracer.walked(ref, "leading"):
                self._start(ref, "leading", "this code runs a loop that calls a model each turn")
        self.tracer.looping = {}

    def _loop(
        self,
        mode: Mode,
        loops: list[ast.For | ast.While],
        ref: FunctionRef,
        why: str,
        looping: dict[FunctionRef, Mode],
    ) -> None:
        if loops:
            self.tracer.each_turn[mode].update(part for loop in loops for part in each_turn(loop))
            self._start(ref, mode, why)
            looping[ref] = mode

    def _module_level(self, module: ModuleIndex) -> None:
        frame = self.tracer.module_frame(module, "host")
        frame.is_module_level = True
        self.program.note(module.name, "code")
        body = [s for s in module.tree.body if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
        statements.run_block([s for s in body if not isinstance(s, (ast.Import, ast.ImportFrom))], frame)
        self.flagger.look(frame)
        self.tracer.driven.study(frame)

    def _regions(self, module: ModuleIndex) -> None:
        for root in link.module_roots(self.program, module):
            if self._is_disabled(root.ref):
                continue
            receiver = self.tracer.instance_of(root.receiver) if root.receiver is not None else None
            numbers = numbers_of_part(root.ref, root.receiver, self.tracer) if root.receiver is not None else {}
            self._enter(Function(root.ref, receiver), root.why, numbers)
        for ref in contents.functions(module):
            value = self.tracer.decorated(ref)
            if isinstance(value, Compiled) and isinstance(value.inner, Function):
                receiver = self.tracer.instance_of(ref.owner) if ref.owner is not None else None
                inner = Function(value.inner.ref, receiver, value.inner.closure)
                self._enter(inner, "decorated with torch.compile")
        for name, compiled, why in self.tracer.compile_sites():
            if name == module.name:
                self._compiled(compiled, why)

    def _public(self, module: ModuleIndex) -> Iterator[link.Root]:
        """Functions on tensors that a model outside the project may call; see `public.public_functions`."""
        return (root for root in public_functions(self.program, module) if not is_opaque(root.ref))

    def _is_disabled(self, ref: FunctionRef) -> bool:
        """Whether `torch.compiler.disable` decorates a function: compiled code that calls it ends before its body."""
        value = self.tracer.decorated(ref)
        return isinstance(value, Function) and value.disabled

    def _assumed(self, root: link.Root, module: ModuleIndex) -> None:
        """Walk one public function, and let its frames be looked at if it can be part of a model."""
        if self._is_disabled(root.ref) or self._says_it_builds(root.ref, module):
            return
        receiver = self.tracer.instance_of(root.receiver) if root.receiver is not None else None
        keywords = {**_OPEN, **step_of_schedule(root.ref)}
        result, way = self.tracer.assume(Function(root.ref, receiver), keywords, root.why)
        if way is None:
            return
        returns_number = all(isinstance(option, (Const, Scalar)) for option in options(result))
        drives = self.tracer.drives(way)
        if (gives_module(result) or gives_arrays(result)) and not drives:
            return  # it builds models, or hands what they made over to numpy
        gives = gives_tensors(result) or (root.receiver is not None and _holds_tensors(result))
        if drives or gives or (takes_tensor(root.ref, module, self.tracer) and not returns_number):
            self.flagger.most = "certain" if drives else "likely"
            self.tracer.show(way, root.why)
        # Else it is a metric or a check: its answer is Python's, so it stands outside the model.

    def _says_it_builds(self, ref: FunctionRef, module: ModuleIndex) -> bool:
        """Whether a function is annotated to give back a module, and takes no tensor: what it does builds models."""
        returned = None if isinstance(ref.node, ast.Lambda) else ref.node.returns
        made = self.program.dotted(returned, module) if returned is not None else None
        return (
            isinstance(made, ClassRef) and self.program.is_module(made) and not takes_tensor(ref, module, self.tracer)
        )

    def _compiled(self, compiled: Compiled, why: str) -> None:
        for inner in options(compiled.inner):
            given = inner if isinstance(inner, Partial) else Partial(inner)
            function = given.function
            if isinstance(function, Instance):
                entry = self.program.method(function.ref, entry_of(function, self.program))
                function = Function(entry, function) if isinstance(entry, FunctionRef) else UNKNOWN
            if isinstance(function, Function):
                self._enter(function, why, dict(given.keywords), given.args)

    def _enter(
        self, function: Function, why: str, told: dict[str, Value] | None = None, first: tuple[Value, ...] = ()
    ) -> None:
        """Trace a compiled region from its root.

        `first` are its first arguments, `told` are parameters of which more is known than they say.
        """
        module = self.program.module(function.ref.module)
        if module is not None:
            with self._contained(module):
                arguments = root_arguments(function.ref, function.bound is not None, self.tracer.table)
                settings = self.tracer.driven.settings_passed(function.ref)
                known = {name: settings.get(name, value) for name, value in arguments.items()} | (told or {})
                self.tracer.run(function, first, {**_OPEN, **known}, "compiled", None, None, why)

    def _start(self, ref: FunctionRef, mode: Mode, why: str) -> None:
        receiver = self.tracer.instance_of(ref.owner) if ref.owner is not None else None
        arguments = root_arguments(ref, receiver is not None, self.tracer.table)
        if mode != "compiled" and not compiled_by(ref.node):
            arguments |= counts(ref)
        if mode in ("driving", "leading", "batch-loop"):
            arguments |= self.tracer.driven.compiled_arguments(ref)
        self.tracer.run(Function(ref, receiver), (), {**_OPEN, **arguments}, mode, None, None, why)

    def _entry_point(self, entry: str) -> None:
        """`pkg.engine:Engine.step` from the settings."""
        name, _, dotted = entry.partition(":")
        module = self.program.module(name)
        if module is None:
            self.failures.append(
                Failure(entry, "entry point: no such module in the project; write pkg.module:Class.method")
            )
            return
        for ref in contents.functions(module):
            if ref.qualname == dotted:
                with self._contained(module):
                    self._start(ref, "compiled", "named in entry-points")
                return
        self.failures.append(Failure(entry, f"entry point: {name} defines no function {dotted!r}"))


def _loop_around(frame: Frame) -> ModuleIndex | None:
    """The file of the loop around a model that leads to a frame."""
    caller = frame.caller
    while caller is not None and caller.mode not in TURN_OF:
        caller = caller.caller
    return None if caller is None else caller.module


def _holds_tensors(value: Value) -> bool:
    """Whether a value may be an object that keeps tensors: `Solution(times, states)`."""
    return any(
        isinstance(option, Instance) and not option.is_module and any(map(gives_tensors, option.attributes.values()))
        for option in options(value)
    )
