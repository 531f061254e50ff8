"""The static pass from end to end: files -> findings."""

from __future__ import annotations

import ast
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from compilelint.knowledge.table import load
from compilelint.model import Failure, Finding
from compilelint.rulebook import load_rules
from compilelint.static import link
from compilelint.static.definitions import FunctionRef
from compilelint.static.explanation import explanation
from compilelint.static.flag import Flagger
from compilelint.static.index import ModuleIndex
from compilelint.static.program import Program
from compilelint.static.tracer import statements
from compilelint.static.tracer.attributes import is_opaque
from compilelint.static.tracer.binding import root_arguments, takes_tensor
from compilelint.static.tracer.frame import Frame, Mode
from compilelint.static.tracer.tracer import Tracer
from compilelint.static.values import (
    UNKNOWN,
    Compiled,
    Const,
    Function,
    Instance,
    Scalar,
    Value,
    gives_tensors,
    options,
)

if TYPE_CHECKING:
    from compilelint.config import Settings

Result = TypeVar("Result")

STACK_BYTES = 512 * 1024 * 1024
"""The tracer recurses as deep as the code it follows; its thread gets a stack to match."""
RECURSION_LIMIT = 60_000

_OPEN: dict[str, Value] = {"*": UNKNOWN, "**": UNKNOWN}
"""A root's arguments: nobody knows which are passed."""


@dataclass(frozen=True, slots=True)
class StaticResult:
    """Findings of all confidences, before any selection, and the files that could not be read."""

    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...]


def lint(files: Sequence[Path], settings: Settings) -> StaticResult:
    """Lint `files` together, as one program. Nothing of them is imported or run."""
    return _with_deep_stack(lambda: _Session(tuple(files), settings).run())


def explain(path: Path, line: int, settings: Settings, files: Sequence[Path] = ()) -> str:
    """Why the 1-based `line` of `path` counts as compiled and what its values are; `files` is the code around it."""
    return _with_deep_stack(lambda: _explain(path.resolve(), line, settings, tuple(files)))


def _explain(path: Path, line: int, settings: Settings, files: tuple[Path, ...]) -> str:
    session = _Session((*files, *([] if path in files else [path])), settings)
    frames: list[Frame] = []
    look = session.tracer.on_frame

    def watch(frame: Frame) -> None:
        node = frame.ref.node
        if frame.module.path == path and node.lineno <= line <= (node.end_lineno or node.lineno):
            frames.append(frame)
        look(frame)

    session.tracer.on_frame = watch
    result = session.run()
    shown = session.tracer.display_path(path)
    here = tuple(f for f in result.findings if f.path == shown and f.span.line <= line <= f.span.end_line)
    frames.sort(key=lambda frame: ("compiled", "decode-loop", "host", "construct").index(frame.mode))
    return explanation(shown, line, frames, here, len(session.program.linted) - 1)


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
    # Syntax trees hold no cycles worth collecting, and looking for some takes three quarters of the time it takes to
    # parse (15 MB of transformers: 7.3 s with the collector, 1.9 s without).
    collecting = gc.isenabled()
    gc.disable()
    try:
        thread = threading.Thread(target=work, name="compilelint-static")
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(before)
        threading.stack_size(size)
        if collecting:
            gc.enable()
    if errors:
        raise errors[0]
    return outcome[0]


class _Session:
    """One run over one set of files."""

    def __init__(self, files: tuple[Path, ...], settings: Settings) -> None:
        self.program = Program(tuple(path.resolve() for path in files))
        self.settings = settings
        self.flagger = Flagger(load_rules(), frozenset(self.program.linted))
        self.tracer = Tracer(self.program, load(settings.target_torch), self.flagger.look, Path.cwd())
        self.failures: list[Failure] = []

    def run(self) -> StaticResult:
        """Trace every region of every linted file."""
        modules = [module for name in self.program.linted if (module := self.program.module(name))]
        for module in modules:
            self._guarded(module, self._host)
        for module in modules:
            self._guarded(module, self._regions)
        for _, hook, how in list(self.tracer.hooks):
            if isinstance(hook, Function):
                self._enter(hook, f"a forward hook ({how})")
        for entry in self.settings.entry_points:
            self._entry_point(entry)
        # Last, so that what a real region reaches is reported as that region's.
        for module in modules:
            self._guarded(module, self._public)
        unread = [
            Failure(self.tracer.display_path(path), str(error), error.line)
            for path, error in sorted(self.program.failures.items())
        ]
        return StaticResult(self.flagger.findings(), (*unread, *self.failures))

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
        """Code around regions: who compiles what, and loops that call a model."""
        if link.speaks_of_compile(module):
            self._module_level(module)
        for ref in link.functions(module):
            loops = link.decode_loops(ref)
            if loops:
                self.flagger.loops[ref.node] = loops
                self._start(ref, "decode-loop", "a loop here calls a model each turn")
            if link.host_function(ref, module):
                self._start(ref, "host", "this code compiles a model")

    def _module_level(self, module: ModuleIndex) -> None:
        frame = self.tracer.module_frame(module, "host")
        frame.is_module_level = True
        body = [s for s in module.tree.body if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
        statements.run_block([s for s in body if not isinstance(s, (ast.Import, ast.ImportFrom))], frame)
        self.flagger.look(frame)

    def _regions(self, module: ModuleIndex) -> None:
        frame = self.tracer.module_frame(module)
        for root in link.module_roots(self.program, module):
            receiver = self.tracer.instance_of(root.receiver) if root.receiver is not None else None
            self._enter(Function(root.ref, receiver), root.why)
        for ref in link.functions(module):
            value = self.tracer.decorated(ref, frame)
            if isinstance(value, Compiled) and isinstance(value.inner, Function):
                receiver = self.tracer.instance_of(ref.owner) if ref.owner is not None else None
                inner = Function(value.inner.ref, receiver, value.inner.closure)
                self._enter(inner, "decorated with torch.compile")
        for compiled, why in self.tracer.take_compiled(module):
            self._compiled(compiled, why)

    def _public(self, module: ModuleIndex) -> None:
        """Functions on tensors that a model outside the project may call; see `link.public_functions`."""
        for root in link.public_functions(self.program, module):
            if root.ref not in self.tracer.entered and not is_opaque(root.ref):
                with self._contained(module):
                    self._assumed(root, module)

    def _assumed(self, root: link.Root, module: ModuleIndex) -> None:
        """Walk one public function, and let its frames be looked at if it can be part of a model."""
        receiver = self.tracer.instance_of(root.receiver) if root.receiver is not None else None
        result, way = self.tracer.assume(Function(root.ref, receiver), dict(_OPEN), root.why)
        if way is None:
            return
        returns_number = all(isinstance(option, (Const, Scalar)) for option in options(result))
        drives = self.tracer.drives(way)
        if drives or gives_tensors(result) or (takes_tensor(root.ref, module, self.tracer) and not returns_number):
            self.flagger.most = "certain" if drives else "likely"
            self.tracer.show(way, root.why)
        # Else it is a metric or a check: its answer is Python's, so it stands outside the model.

    def _compiled(self, compiled: Compiled, why: str) -> None:
        inner = compiled.inner
        if isinstance(inner, Instance):
            forward = self.program.method(inner.ref, "forward")
            inner = Function(forward, inner) if isinstance(forward, FunctionRef) else UNKNOWN
        if isinstance(inner, Function):
            self._enter(inner, why)

    def _enter(self, function: Function, why: str) -> None:
        """Trace a compiled region from its root."""
        module = self.program.module(function.ref.module)
        if module is not None:
            with self._contained(module):
                arguments = root_arguments(function.ref, function.bound is not None, self.tracer.table)
                self.tracer.run(function, (), {**_OPEN, **arguments}, "compiled", None, None, why)

    def _start(self, ref: FunctionRef, mode: Mode, why: str) -> None:
        receiver = self.tracer.instance_of(ref.owner) if ref.owner is not None else None
        arguments = root_arguments(ref, receiver is not None, self.tracer.table)
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
        for ref in link.functions(module):
            if ref.qualname == dotted:
                with self._contained(module):
                    self._start(ref, "compiled", "named in entry-points")
                return
        self.failures.append(Failure(entry, f"entry point: {name} defines no function {dotted!r}"))
