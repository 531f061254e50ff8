"""The tracer itself: entering functions with what is known of their arguments, once per way of calling them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from compilelint.static.object_attributes import Postponed
from compilelint.static.project.definitions import ClassAttribute, ClassRef, FunctionRef, Outside
from compilelint.static.project.index import ModuleIndex, Scope
from compilelint.static.project.naming import is_library
from compilelint.static.project.places import shown
from compilelint.static.project.program import Definition, Program
from compilelint.static.tracer import (
    assignment,
    attributes,
    binding,
    calls,
    construction,
    ducks,
    expressions,
    library,
    noting,
    rebound,
    regime,
    statements,
)
from compilelint.static.tracer.agreement import in_common
from compilelint.static.tracer.annotations import value_of_alias, value_of_annotation
from compilelint.static.tracer.decoration import decorate
from compilelint.static.tracer.effects import Driven
from compilelint.static.tracer.frame import TURN_OF, Env, Frame, Mode
from compilelint.static.tracer.held import HeldFrames, Way, most_ways
from compilelint.static.tracer.optional import imported, or_otherwise
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Class,
    Closure,
    Compiled,
    External,
    Function,
    Instance,
    Partial,
    ProjectModule,
    Sequence,
    Union,
    Value,
    join,
    join_all,
)

if TYPE_CHECKING:
    from compilelint.knowledge.table import Table


class Tracer:
    """Walks the functions of one program.

    `on_frame` is called with every finished frame. Results are kept per function, argument kinds and mode, so that each
    way of running a function is walked once however many regions reach it.
    """

    def __init__(self, program: Program, table: Table, on_frame: Callable[[Frame], None], base: Path) -> None:
        self.program = program
        self.table = table
        self.on_frame = on_frame
        self._base = base
        self._results: dict[Way, Value] = {}
        self._ways: dict[tuple[FunctionRef, Mode, Closure | None], list[Way]] = {}
        self._globals: dict[tuple[str, str], Value] = {}
        self._aliases: dict[ast.expr, Value] = {}
        self._annotations: dict[ast.expr, Value] = {}
        self._defaults: dict[ast.expr, Value] = {}
        self._decorated: dict[FunctionRef, Value] = {}
        self._elsewhere: dict[tuple[ClassRef, str], Value | None] = {}
        self.constructions = construction.Constructions()
        self.compile_options: dict[FunctionRef, dict[str, object]] = {}
        self._in_sight: dict[str, list[tuple[ClassRef, frozenset[str]]]] = {}
        self.hooks: list[tuple[str, Value, str]] = []
        """Forward hooks seen being registered: the module that does it, the function, and how."""
        self._compile_sites: list[tuple[str, Compiled, str]] = []
        self.entered: set[FunctionRef] = set()
        """The functions that compiled regions have reached."""
        self.looping: dict[FunctionRef, Mode] = {}
        """Functions with loops around a model of which what calls them is to tell the arguments."""
        self.each_turn: dict[Mode, set[ast.AST]] = {mode: set() for mode in TURN_OF}  # what runs on each turn
        self._held: HeldFrames | None = None
        self.driven = Driven()

    # What the walkers of expressions and statements ask for; here so that they need not know each other.

    evaluate = staticmethod(expressions.evaluate)

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Bind `value` to an assignment target."""
        assignment.store(target, value, frame)

    def store(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Rebind the place an expression was read from, if it is one that can be assigned to."""
        if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
            assignment.store(target, value, frame)

    def call(
        self, function: Value, args: tuple[Value, ...], keywords: dict[str, Value], node: ast.AST | None, frame: Frame
    ) -> Value:
        """What a call returns."""
        return calls.call(function, args, keywords, node, frame)

    def annotation(self, node: ast.expr, module: ModuleIndex) -> Value:
        """The kind an annotation names."""
        if node not in self._annotations:
            self._annotations[node] = value_of_annotation(node, module, self)
        return self._annotations[node]

    def guess_by_use(self, scope: Scope, parameter: str) -> None:
        """Is told of parameters that are taken for what their use says."""

    def display(self, module: ModuleIndex) -> str:
        """A module's path as findings show it: relative to the working directory where it lies inside."""
        return self.display_path(module.path)

    def display_path(self, path: Path) -> str:
        """As `display`, for a path."""
        return shown(path, self._base)

    def classes_in_sight(self, module: ModuleIndex) -> list[tuple[ClassRef, frozenset[str]]]:
        """As `ducks.classes_in_sight`, looked up once per file."""
        if module.name not in self._in_sight:
            self._in_sight[module.name] = ducks.classes_in_sight(module, self)
        return self._in_sight[module.name]

    # What is compiled

    def compile_site(self, inner: Value, keywords: dict[str, Value], node: ast.AST | None, frame: Frame) -> Compiled:
        """Note a call of torch.compile: what it compiles and with which constant options."""
        compiled = Compiled(inner)
        noting.note_compilation(inner, node, frame)
        options = regime.compile_options(keywords, frame.module)
        for function in attributes.starts(inner, frame):
            self.compile_options.setdefault(function.ref, {}).update(options)
        line = getattr(node, "lineno", frame.ref.line)
        why = f"compiled by torch.compile at {self.display(frame.module)}:{line}"
        self._compile_sites.append((frame.module.name, compiled, why))
        return compiled

    def compile_sites(self) -> tuple[tuple[str, Compiled, str], ...]:
        """What was seen to be compiled so far: in which module, what, and the place in words."""
        return tuple(self._compile_sites)

    # Names

    def global_value(self, module: ModuleIndex, name: str) -> Value:
        """What a module-level or builtin name holds."""
        key = (module.name, name)
        if key not in self._globals:
            self._globals[key] = UNKNOWN
            for before in self.program.earlier(module, name):  # what an expression made of the name itself sees
                self._globals[key] = UNKNOWN if before is None else self.value_of(before, module, name)
            self._globals[key] = self._global(module, name)
        return self._globals[key]

    def _global(self, module: ModuleIndex, name: str) -> Value:
        found = self.program.resolve(module, name)
        if found is not None:
            return self.value_of(found, module, name)
        return External(f"builtins.{name}") if hasattr(builtins, name) else UNKNOWN

    def value_of(self, found: Definition, module: ModuleIndex, name: str) -> Value:
        """A definition as a value; `module` and `name` are where it was looked up."""
        if isinstance(found, Outside):
            return imported(External(found.name), module, name, self.program)
        if isinstance(found, ModuleIndex):
            return ProjectModule(found.name)
        if isinstance(found, ClassRef):
            return Class(found)
        home = self.program.home(found, module, name)
        if isinstance(found, FunctionRef):
            return self.decorated(found)
        if isinstance(found, ast.Constant) and found.value is None:
            return rebound.value_of(home, name, self.module_frame(home))
        return or_otherwise(construction.as_kept(self.evaluate(found, self.module_frame(home))), home, found)

    def member_value(self, module: str, name: str) -> Value:
        """`module.name` for a module of the project."""
        index = self.program.module(module)
        if index is None:
            return UNKNOWN
        if name in index.bindings or index.stars:
            value = self.global_value(index, name)
            if value != UNKNOWN and not (isinstance(value, External) and value.name == f"builtins.{name}"):
                return value
        submodule = self.program.module(f"{module}.{name}")
        return ProjectModule(submodule.name) if submodule else UNKNOWN

    def imported(self, module: str, name: str, outside: External) -> Value:
        """What an import inside a function binds."""
        index = None if is_library(module) else self.program.module(module)
        if index is None:
            submodule = self.program.module(f"{module}.{name}") if name else None
            return ProjectModule(submodule.name) if submodule else outside
        return ProjectModule(module) if not name else self.member_value(module, name)

    def module_frame(self, module: ModuleIndex, mode: Mode = "construct") -> Frame:
        """A frame in which a module-level expression can be evaluated."""
        return Frame(self, FunctionRef(module.name, "<module>", 1, 0, _MODULE_SCOPE), module, {}, mode)

    def default(self, node: ast.expr, module: ModuleIndex) -> Value:
        """What a default argument or a class-level assignment holds: evaluated once, as Python does."""
        if node not in self._defaults:
            self._defaults[node] = construction.as_kept(self.evaluate(node, self.module_frame(module)))
        return self._defaults[node]

    def alias_value(self, node: ast.expr, home: ModuleIndex) -> Value:
        """A module-level assignment read as an annotation (`OptTensor = Optional[Tensor]`)."""
        if node not in self._aliases:
            self._aliases[node] = UNKNOWN  # an alias that names itself: `Tree = Union[Tensor, List["Tree"]]`
            self._aliases[node] = value_of_alias(node, home, self)
        return self._aliases[node]

    # Functions

    def decorated(self, ref: FunctionRef) -> Value:
        """A function after its decorators."""
        if ref not in self._decorated:
            self._decorated[ref] = Function(ref)
            module = self.program.module(ref.module)
            if module is not None and not isinstance(ref.node, ast.Lambda) and ref.node.decorator_list:
                self._decorated[ref] = decorate(Function(ref), ref.node, self.module_frame(module))
        return self._decorated[ref]

    def enter(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        node: ast.AST | None,
        caller: Frame,
    ) -> Value:
        """Walk a function of the project as called from `caller`, and give what it returns."""
        mode = self._mode(function.ref, node, caller)
        if caller.goes_too_deep(function.ref, mode):
            return UNKNOWN
        return self.run(function, args, keywords, mode, node, caller)

    def _mode(self, ref: FunctionRef, site: ast.AST | None, caller: Frame) -> Mode:
        """How a function runs that is called at `site`."""
        if caller.mode == "leading" and ref in self.looping:
            return self.looping[ref]
        if caller.mode == "compiled" and attributes.is_opaque(ref):
            return "host"
        if turn := caller.turn_at(site):
            # The model's own forward is no part of the loop around it.
            runs_model = ref.qualname.endswith((".forward", ".__call__"))
            return "host" if runs_model and ref.owner and self.program.is_module(ref.owner) else turn
        return "host" if caller.mode in TURN_OF else caller.mode

    def walked(self, ref: FunctionRef, mode: Mode) -> bool:
        """Whether a function of a file or a class has run in this mode."""
        return (ref, mode, None) in self._ways

    def enter_compiled(
        self,
        function: Compiled,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        node: ast.AST | None,
        caller: Frame,
    ) -> Value:
        """Call what torch.compile returned: a compiled region begins."""
        caller.mark_driver()
        inner = function.inner
        if isinstance(inner, Partial):
            given = {**dict(inner.keywords), **keywords}
            return self.enter_compiled(Compiled(inner.function), (*inner.args, *args), given, node, caller)
        if isinstance(inner, Union):
            several = [Compiled(option) for option in inner.options]
            return join_all(self.enter_compiled(option, args, keywords, node, caller) for option in several)
        inner = attributes.entered(inner, caller)
        noting.note_entry(inner, args, keywords, node, caller)
        if inner == UNKNOWN:
            return library.SOME_MODEL_GIVES
        if not isinstance(inner, Function):
            return self.call(function.inner, args, keywords, node, caller)
        return self.run(inner, args, keywords, "compiled", node, caller)

    def run(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        mode: Mode,
        node: ast.AST | None = None,
        caller: Frame | None = None,
        why: str = "",
    ) -> Value:
        """Walk `function` once for these argument kinds; `caller` is None at the root of a region."""
        bound = self._bound(function, args, keywords, mode)
        return UNKNOWN if bound is None else self._run(*bound, node, caller, why)

    def _bound(
        self, function: Function, args: tuple[Value, ...], keywords: dict[str, Value], mode: Mode
    ) -> tuple[Way, Env, ModuleIndex] | None:
        """The way in which these arguments run a function, and its variables; None without its file."""
        module = self.program.module(function.ref.module)
        if module is None:
            return None
        env = binding.bind_arguments(function, args, keywords, mode == "compiled", module, self)
        # The variables of one function come in one order.
        return Way(function.ref, mode, function.closure, tuple(env.items())), env, module

    def _run(
        self, way: Way, env: Env, module: ModuleIndex, node: ast.AST | None, caller: Frame | None, why: str
    ) -> Value:
        known = self._results.get(way)
        if known is not None:
            self._reached_again(way, node, caller)
            return known
        # A wrapper's closure holds what it wraps, so each is a function of its own.
        ref, mode, closure = way.ref, way.mode, way.closure
        ways = self._ways.setdefault((ref, mode, closure), [])
        if caller is not None and len(ways) >= most_ways(ref):
            for earlier in ways if self._held is not None or mode == "driving" else ():
                self._reached_again(earlier, node, caller)
            return in_common([self._results[earlier] for earlier in ways])
        ways.append(way)
        self._results[way] = UNKNOWN  # what a recursive call sees
        depth = caller.depth + 1 if caller is not None and mode not in TURN_OF else 0
        frame = Frame(self, ref, module, env, mode, closure, caller, node, why, depth=depth)
        result = self._walk(frame)
        self._results[way] = result
        self._finished(way, frame)
        self.driven.finished(way, frame)
        return result

    def _finished(self, way: Way, frame: Frame) -> None:
        if self._held is None:
            if frame.mode == "compiled" and frame.closure is None:
                self.entered.add(frame.ref)
            self.on_frame(frame)
            return
        self._held.hold(way, frame)
        if frame.caller is not None:
            self._held.note(frame.caller, way, frame.site)

    def _reached_again(self, way: Way, site: ast.AST | None, caller: Frame | None) -> None:
        self.driven.repeated(way, site, caller)
        if self._held is not None and caller is not None:
            self._held.note(caller, way, site)
            if self._held.drives(way):
                caller.mark_driver()

    def assume(self, function: Function, keywords: dict[str, Value], why: str) -> tuple[Value, Way | None]:
        """Walk a function as a region that may turn out to be none: what it returns, and the way it was run.

        From then on no frame is shown to `on_frame` unless `show` is asked to.
        """
        if self._held is None:
            self._held = HeldFrames()
        bound = self._bound(function, (), keywords, "compiled")
        return (UNKNOWN, None) if bound is None else (self._run(*bound, None, None, why), bound[0])

    def drives(self, way: Way) -> bool:
        """Whether a way that was assumed drives models, see `Frame.mark_driver`: then it is not compiled itself."""
        return self._held is not None and self._held.drives(way)

    def show(self, way: Way, why: str) -> None:
        """Show the frames that an assumed way leads to; of those that drive models, what is compiled below them."""
        drives = self.drives(way)
        if self._held is None:
            return
        for below, frame in self._held.leading(way, why):
            if frame.mode == "compiled" and frame.closure is None:
                self.entered.add(frame.ref)
            if not drives or frame.is_below_compiled():
                self._held.take(below)
                self.on_frame(frame)

    def forget(self) -> None:
        """Let go of the frames that were kept back."""
        if self._held is not None:
            self._held.clear()

    def _walk(self, frame: Frame) -> Value:
        node = frame.ref.node
        self.program.note(frame.ref.module, "walked", line=node.lineno)
        if isinstance(node, ast.Lambda):
            return self.evaluate(node.body, frame)
        if statements.run_block(node.body, frame):
            frame.give_back(NONE)
        if frame.yielded is not None:
            return Sequence("generator", None, frame.yielded)
        if isinstance(node, ast.AsyncFunctionDef):
            return UNKNOWN
        result = frame.returned if frame.returned is not None else UNKNOWN
        return self._declared(node, result, frame)

    def _declared(self, node: ast.FunctionDef, result: Value, frame: Frame) -> Value:
        """Fall back on the return annotation where walking the body told nothing."""
        if result == UNKNOWN and node.returns is not None:
            return self.annotation(node.returns, frame.module)
        return result

    # Objects

    def construct(
        self, ref: ClassRef, args: tuple[Value, ...], keywords: dict[str, Value], node: ast.AST | None, caller: Frame
    ) -> Value:
        """An instance of a project class, its `__init__` walked with these arguments."""
        return self.constructions.construct(ref, args, keywords, node, caller)

    def instance_of(self, ref: ClassRef) -> Value:
        """An instance of a project class of which only the class is known."""
        module = self.program.module(ref.module)
        return UNKNOWN if module is None else self.constructions.bare(ref, self.module_frame(module))

    def class_value(self, member: ClassAttribute) -> Value:
        """What a class-level assignment holds."""
        module = self.program.module(member.owner.module)
        return UNKNOWN if module is None or member.value is None else self.default(member.value, module)

    def attribute(self, owner: Instance, name: str, frame: Frame) -> Value:
        """What an attribute of an object holds."""
        return attributes.of_instance(owner, name, frame)

    def keep(self, owner: Instance, name: str, value: Value, *, alone: bool = False) -> None:
        """Let an attribute of an object hold `value`, besides what it held before or `alone`."""
        before = None if alone else owner.attributes.get(name)
        owner.attributes[name] = value if before is None else join(before, value)

    def put_off(self, owner: Instance, what: Postponed, node: ast.stmt, variables: Env) -> None:
        """Leave what a statement does to an object to be done later, with these variables."""
        owner.attributes.postpone(what)

    def assigned_elsewhere(self, owner: Instance, name: str) -> Value | None:
        """An attribute that `__init__` does not set but some other method does; None if no method assigns it."""
        key = (owner.ref, name)
        if key not in self._elsewhere:
            self._elsewhere[key] = None
            self._elsewhere[key] = construction.assigned_elsewhere(owner, name, self)
        return self._elsewhere[key]


_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
_MODULE_SCOPE = ast.Lambda(args=_NO_ARGUMENTS, body=ast.Constant(None), lineno=1, col_offset=0)
