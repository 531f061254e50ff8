"""What rules are shown of a traced frame: the implementation of `compilelint.rule.View`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping

from compilelint.knowledge.cuda import on_cuda
from compilelint.model import Engine, Span
from compilelint.rule import Checkpointed, Fact, Passing, Place, RegionKind, Setting, Varying
from compilelint.static.facts.shapes import fits, probe_of
from compilelint.static.facts.state import parameters
from compilelint.static.flagging import between_calls, checkpoints, passings, receiver
from compilelint.static.project.bindings import makers_of
from compilelint.static.project.contents import is_benchmark_or_test
from compilelint.static.project.definitions import ClassRef, Outside
from compilelint.static.project.parts import FACT, MADE
from compilelint.static.project.places import span_of
from compilelint.static.project.syntax import children
from compilelint.static.regions.public import PUBLIC_FUNCTION
from compilelint.static.tracer import regime
from compilelint.static.tracer.effects import Write
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import (
    UNKNOWN,
    Class,
    ExternalInstance,
    Function,
    Instance,
    Method,
    Value,
    options,
)

MAX_TEXT = 60
"""Source quoted in a message is cut to this many characters."""

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _defaults(made: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef) -> list[ast.AST]:
    """What the parameters of a nested function start with, which is evaluated where the function is made."""
    if isinstance(made, ast.ClassDef):
        return []
    return [default for default in (*made.args.defaults, *made.args.kw_defaults) if default is not None]


class ScopeNodes:
    """The nodes of one function's own body, and what stands around each; of nested functions only the defaults."""

    def __init__(self, scope: Scope) -> None:
        self.parent: dict[ast.AST, ast.AST] = {}
        self.by_type: dict[type[ast.AST], list[ast.AST]] = {}
        body: list[ast.AST] = [scope.body] if isinstance(scope, ast.Lambda) else list(scope.body)
        for node in body:
            self.parent[node] = scope
        pending = list(reversed(body))
        while pending:
            node = pending.pop()
            self.by_type.setdefault(type(node), []).append(node)
            inner = _defaults(node) if isinstance(node, _NESTED) else children(node)
            for child in inner:
                self.parent[child] = node
            pending += inner[::-1]
        self.expressions = tuple(
            node for nodes in self.by_type.values() for node in nodes if isinstance(node, ast.expr)
        )


class FrameView:
    """One frame as rules see it. `scope` and `nodes` are shared by all frames of a function."""

    def __init__(self, frame: Frame, region: RegionKind, scope: Scope, nodes: ScopeNodes, engine: Engine) -> None:
        self.engine = engine
        self.frame = frame
        self.region = region
        self.scope = scope
        self.nodes = nodes

    @property
    def function(self) -> Scope:
        """See View."""
        return self.scope

    @property
    def qualname(self) -> str:
        """See View."""
        return self.frame.ref.qualname

    @property
    def module(self) -> ast.Module:
        """See View."""
        self.frame.tracer.program.note(self.frame.module.name, "code")
        return self.frame.module.tree

    def fact(self, question: Callable[[ast.Module], Fact]) -> Fact:
        """See View."""
        module = self.frame.module
        self.frame.tracer.program.note(module.name, FACT, f"{question.__module__}:{question.__qualname__}")
        return question(module.tree)

    def makers(self, name: str) -> frozenset[str]:
        """See View."""
        module = self.frame.module
        self.frame.tracer.program.note(module.name, MADE, name)
        return makers_of(module.tree, name)

    @property
    def entry(self) -> bool:
        """See View."""
        return self.frame.caller is None or self.frame.caller.mode != self.frame.mode

    @property
    def same_self(self) -> bool:
        """See View."""
        return receiver.is_of_first_object(self.frame)

    @property
    def of_module(self) -> bool:
        """See View."""
        return receiver.is_of_module(self.frame)

    @property
    def checkpointed(self) -> Checkpointed | None:
        """See View."""
        return checkpoints.checkpointed(self.frame)

    def classes(self, value: Value) -> tuple[ast.ClassDef, ...]:
        """See View."""
        return tuple(ref.node for ref in self._order(value) if isinstance(ref, ClassRef))

    def outside(self, value: Value) -> tuple[str, ...]:
        """See View."""
        return tuple(ref for ref in self._order(value) if isinstance(ref, str))

    def _order(self, value: Value) -> tuple[ClassRef | str, ...]:
        """What exactly one class, or an object of it, is made of, in method resolution order."""
        owners = {option.ref for option in options(value) if isinstance(option, (Instance, Class))}
        if len(owners) != 1:
            return ()
        program = self.frame.tracer.program
        found = program.mro(owners.pop())
        for ref in found:
            if isinstance(ref, ClassRef):
                program.note(ref.module, "class", ref.qualname, ref.node.lineno)
        return found

    def decorators(self, value: Value) -> tuple[tuple[str, ast.expr], ...]:
        """See View."""
        program = self.frame.tracer.program
        ref = value.ref if isinstance(value, (Class, Function)) else None
        module = None if ref is None else program.module(ref.module)
        if ref is None or module is None:
            return ()
        found = []
        for decorator in getattr(ref.node, "decorator_list", ()):
            target = program.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator, module)
            if isinstance(target, Outside):
                found.append((target.name, decorator))
        return tuple(found)

    def changed(self, node: ast.Attribute) -> Setting | None:
        """See View."""
        write = between_calls.change_of(node, self.frame)
        return None if write is None else _setting(write)

    def settings(self, node: ast.expr) -> tuple[Setting, ...]:
        """See View."""
        changed = self.frame.tracer.driven.changed
        found: list[Setting] = []
        for option in options(self.kind(node)) if changed else ():
            if isinstance(option, ExternalInstance):
                for (owner, name), write in changed.items():
                    if self._sets(owner, name, option, node):
                        found.append(_setting(write))
        return tuple(found)

    def _sets(self, owner: ClassRef | str, name: str, module: ExternalInstance, node: ast.expr) -> bool:
        """Whether what driving code sets, see `effects.Write`, belongs to the `module` at `node`."""
        if isinstance(owner, str):  # `_BatchNorm` stands for all that are made of it
            return module.name == owner or owner.rpartition("._")[2] in module.name.rpartition(".")[2]
        return isinstance(node, ast.Attribute) and any(
            isinstance(keeper, Instance) and keeper.ref == owner and name.rpartition(".")[0] == node.attr
            for keeper in options(self.kind(node.value))
        )

    def put_in_global(self, node: ast.Attribute) -> Place | None:
        """See View."""
        found = between_calls.in_global(node, self.frame)
        return None if found is None else Place(found.path, found.line)

    def made_with(self, node: ast.Attribute | ast.Subscript) -> Place | None:
        """See View."""
        made = self.frame.tracer.driven.made
        for passing in self.passed(node.value.id) if isinstance(node.value, ast.Name) else ():
            if isinstance(node, ast.Subscript):
                if isinstance(node.slice, ast.Constant) and node.slice.value in passing.entries:
                    return passing.place
                continue
            for option in (part for value in passing.values for part in options(value)):
                found = made.get((option.ref, node.attr)) if isinstance(option, Instance) else None
                if found is not None:
                    return Place(found.path, found.line)
        new = between_calls.made_for(node, self.frame) if isinstance(node, ast.Attribute) else None
        return None if new is None else Place(new.path, new.line)

    def singly(self) -> Place | None:
        """See View."""
        singly = self.frame.tracer.driven.singly
        frame: Frame | None = self.frame if singly else None
        while frame is not None and frame.mode == "compiled":
            called_on = frame.env.get(next(iter(parameters(frame.ref.node)), ""), UNKNOWN)
            for option in options(called_on):
                if isinstance(option, Instance) and option.ref in singly:
                    return Place(*singly[option.ref])
            frame = frame.caller
        return None

    def where(self, place: Place) -> str:
        """See View."""
        here = place.path == self.frame.tracer.display(self.frame.module)
        return f"line {place.line}" if here else f"{place.path}:{place.line}"

    @property
    def entered(self) -> bool:
        """Whether `passed` may say something."""
        return self._outermost().ref in self.frame.tracer.driven.entries

    def passed(self, name: str) -> tuple[Passing, ...]:
        """See View."""
        return passings.passed(name, self.frame) if self.entered else ()

    def lasting(self, name: str) -> bool:
        """See View."""
        return passings.lasting(name, self.frame)

    def handed_in(self, name: str) -> bool:
        """See View."""
        return passings.handed_from(name, self.frame) is not None

    @property
    def options(self) -> Mapping[str, object]:
        """See View."""
        return self.frame.tracer.compile_options.get(self._outermost().ref, {})

    def keeps(self, what: Varying) -> bool:
        """See View."""
        return regime.keeps(what, self.options)

    @property
    def assumed(self) -> bool:
        """See View."""
        return self._outermost().why == PUBLIC_FUNCTION

    @property
    def measures(self) -> bool:
        """See View."""
        return is_benchmark_or_test(self.frame.module.path)

    @property
    def torch(self) -> tuple[int, int]:
        """See View."""
        return self.frame.tracer.table.target

    def signature(self) -> object:
        """What two frames have in common when no rule can tell them apart."""
        kinds = tuple(_coarse(self.frame.kinds.get(node)) for node in self.nodes.expressions)
        site = self.frame.site if self.entered else None  # what is passed there, see `passed`
        options = tuple(self.options.items())
        handed_in = tuple(map(self.handed_in, parameters(self.frame.ref.node))) if options else ()
        handed_back = tuple(map(_coarse, self.frame.handed_back.values()))
        whose = (self.same_self, self.of_module, self.checkpointed)
        return (self.region, self.entry, *whose, self.assumed, options, handed_in, handed_back, site, kinds)

    def _outermost(self) -> Frame:
        """The frame with which the compiled region starts."""
        outermost = self.frame
        while outermost.caller is not None and outermost.caller.mode == "compiled":
            outermost = outermost.caller
        return outermost

    def kind(self, node: ast.expr) -> Value:
        """See View."""
        return self.frame.kinds.get(node, UNKNOWN)

    def definition(self, value: Class | Function | Instance) -> ast.AST:
        """See View."""
        ref, sort = value.ref, "body" if isinstance(value, Function) else "class"
        self.frame.tracer.program.note(ref.module, sort, ref.qualname, ref.node.lineno)
        return ref.node

    def callee(self, call: ast.Call) -> str:
        """See View."""
        return self.frame.callees.get(call, "?")

    def reached(self, node: ast.expr) -> bool:
        """See View."""
        return node in self.frame.kinds

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """See View."""
        current = self.nodes.parent.get(node)
        while current is not None and current is not self.scope:
            yield current
            current = self.nodes.parent.get(current)

    def argument(self, call: ast.Call, position: int, name: str) -> ast.expr | None:
        """See View."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        if position < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: position + 1]):
            return call.args[position]
        return None

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """See View."""
        return span_of(node, self.frame.module)

    def text(self, node: ast.AST) -> str:
        """See View."""
        segment = ast.get_source_segment("\n".join(self._lines(node)), _moved(node)) if _located(node) else None
        text = re.sub(r"\s+", " ", segment if segment is not None else ast.unparse(node)).strip()
        return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"

    def _lines(self, node: ast.AST) -> list[str]:
        return self.frame.module.lines[node.lineno - 1 : node.end_lineno]  # type: ignore[attr-defined]

    def breaks(self, call: ast.Call) -> str | None:
        """See View."""
        fact = self.frame.tracer.table.fact(self.callee(call))
        if fact is None or call not in self.frame.arguments:
            return None
        args, keywords = self.frame.arguments[call]
        probe = probe_of(fact, args, keywords, self._receiver(call))
        # A probe that failed without an id says more about its arguments than about Dynamo.
        return probe.default if probe is not None and probe.default != "?" else None

    def handed_back(self, asks: ast.Call | ast.Compare) -> Value:
        """See View."""
        return self.frame.handed_back.get(asks, UNKNOWN)

    def on_cuda(self, call: ast.Call) -> frozenset[str]:
        """See View."""
        seen = on_cuda(self.callee(call))
        if not seen or call not in self.frame.arguments:
            return frozenset()
        args, keywords = self.frame.arguments[call]
        return frozenset(what for what, shapes in seen.items() if fits(shapes, args, keywords, self._receiver(call)))

    def _receiver(self, call: ast.Call) -> Value | None:
        """The object a method is called on, where the callee is a method."""
        if not isinstance(call.func, ast.Attribute):
            return None
        for option in options(self.kind(call.func)):
            if isinstance(option, Method):
                return option.receiver
        return None

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement around `node`, or `node` itself."""
        if isinstance(node, ast.stmt):
            return node
        return next((parent for parent in self.parents(node) if isinstance(parent, ast.stmt)), None)


def _setting(write: Write) -> Setting:
    return Setting(write.name.rpartition(".")[2], write.value, write.steps, Place(write.path, write.line))


def _coarse(value: Value | None) -> object:
    """A value without which of several like objects it is."""
    if isinstance(value, (Instance, Function)):
        return value.ref
    return value


def _located(node: ast.AST) -> bool:
    return getattr(node, "end_lineno", None) is not None


def _moved(node: ast.AST) -> ast.AST:
    """A stand-in for `node` whose lines count from its own first line."""
    first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
    return ast.Constant(
        None,
        lineno=1,
        col_offset=node.col_offset,  # type: ignore[attr-defined]
        end_lineno=last - first + 1,
        end_col_offset=node.end_col_offset,  # type: ignore[attr-defined]
    )
