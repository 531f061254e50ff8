"""Traced frames -> findings: every rule is asked about the nodes it watches, in the regions it speaks about."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from compilelint.fingerprint import fingerprint
from compilelint.model import CONFIDENCES, Confidence, Engine, Finding, Span
from compilelint.rule import Hit, RegionKind, Rule
from compilelint.static.flagging.broken import Broken
from compilelint.static.flagging.capture import as_captured
from compilelint.static.flagging.combine import Key
from compilelint.static.flagging.debugging import is_for_debugging
from compilelint.static.flagging.dispatch import Dispatch, asking
from compilelint.static.flagging.failing import is_after_failure, may_not_fail
from compilelint.static.flagging.origins import definition
from compilelint.static.flagging.view import FrameView, Scope
from compilelint.static.project.parts import PLAN, Pattern
from compilelint.static.project.places import span_of
from compilelint.static.tracer.frame import Frame, Mode
from compilelint.static.values import UNKNOWN, Const, Function, Union, Value

_RESUMABLE_CONTEXTS = frozenset(
    [
        "no_grad",
        "enable_grad",
        "inference_mode",
        "set_grad_enabled",
        "autocast",
        "record_function",
        "nullcontext",
        "profile",
    ]
)
"""Context managers Dynamo can leave and enter again around a break (docs: torch.compiler_dynamo, 2.13)."""

_REGIONS: dict[Mode, tuple[RegionKind, ...]] = {
    "compiled": ("compiled",),
    "decode-loop": ("decode-loop",),
    "turn": ("host", "decode-loop"),
    "batch-loop": ("batch-loop",),
    "batch-turn": ("host", "batch-loop"),
    "host": ("host",),
}
"""What kinds of code a frame is by how it runs; nothing is asked about the others."""


class Flagger:
    """Collects the findings of all frames. `engine` is what runs the compiled code."""

    def __init__(self, dispatch: Dispatch, linted: frozenset[str], engine: Engine) -> None:
        self._dispatch = dispatch
        self._linted = linted
        self._engine = engine
        self._found: dict[Key, Finding] = {}
        self._broken = Broken()
        # Most ways of calling a function differ in nothing a rule can see; each distinct one is looked at once.
        self._seen: dict[Scope, set[object]] = {}
        self.most: Confidence = "certain"
        """Findings are at most this sure from here on."""

    @property
    def pattern(self) -> Pattern:
        """See `parts.Parts`."""
        return self._dispatch.pattern

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The rules that give way to others."""
        return self._dispatch.fallbacks

    def look(self, frame: Frame) -> None:
        """Ask the rules about one finished frame."""
        if frame.module.name not in self._linted:
            return
        self._broken.note_call(frame, lambda caller: self._dispatch.nodes_of(_scope(caller)))
        scope = _scope(frame)
        for region in _REGIONS.get(frame.mode, ()):
            view = FrameView(frame, region, scope, self._dispatch.nodes_of(scope), self._engine)
            signature = (self.most, frame.mode, view.signature())
            if signature in self._seen.setdefault(scope, set()):
                continue
            self._seen[scope].add(signature)
            for rule, node in self._asked(view, region):
                for hit in rule.check(node, view):
                    kept = hit if rule.captured is None else as_captured(hit, rule.captured, view)
                    if kept is not None:
                        self._keep(rule, kept, view)

    def is_silent(self, frame: Frame, kind: type[FrameView]) -> bool:
        """Whether no rule says anything about a finished frame, seen in a view of this kind."""
        return frame.module.name not in self._linted or not any(
            True
            for region in _REGIONS.get(frame.mode, ())
            for view in [kind(frame, region, frame.ref.node, self._dispatch.nodes_of(frame.ref.node), self._engine)]
            for rule, node in self._asked(view, region)
            for _ in rule.check(node, view)
        )

    def is_of_concern(self, value: Value) -> bool:
        """Whether some rule looks at nodes for their being of this kind."""
        return self._dispatch.is_of_concern(value)

    def _asked(self, view: FrameView, region: RegionKind) -> Iterator[tuple[Rule, ast.AST]]:
        """The rules to ask, each with a node that some path reached."""
        looping = view.frame.tracer.each_turn.get(view.frame.mode)
        kinds, callees, module = view.frame.kinds, view.frame.callees, view.frame.module
        if not view.frame.is_module_level:  # else all of the file has been noted
            asked = asking(region, view.entered)
            view.frame.tracer.program.note(module.name, PLAN, asked, view.frame.ref.line)
        by_callee = self._dispatch.by_callee(region)
        for node, rules, by_kind, witness in self._dispatch.plan(view.scope, module.tree, region, view.entered):
            concerned = by_callee[callees.get(node)]  # type: ignore[call-overload]
            if by_kind:
                value = kinds.get(node.func if isinstance(node, ast.Call) else node, UNKNOWN)
                alternatives = value.options if isinstance(value, Union) else (value,)
                _note_not_entered(alternatives, view)
                rules += tuple([rule for rule, asked in by_kind if any(map(asked, alternatives))])
            if not (rules or concerned) or not (witness is None or witness in kinds):
                continue
            if looping is None or node in looping:
                for rule in (*rules, *[rule for rule in concerned if rule not in rules]):
                    yield rule, node
        for node in list(view.frame.tests):
            if node in view.nodes.parent and (looping is None or node in looping):
                for rule in self._dispatch.by_test(region):
                    yield rule, node

    def _keep(self, rule: Rule, hit: Hit, view: FrameView) -> None:
        """Record a hit, or strengthen the finding that an earlier frame of the same function left."""
        span = span_of(hit.node, view.frame.module)
        path = view.frame.tracer.display(view.frame.module)
        key = (rule.code, path, span)
        most: Confidence = (
            "likely" if _may_be_passed_over(hit.node, view) or may_not_fail(hit.node, view) else self.most
        )
        if is_for_debugging(hit.node, view) or is_after_failure(hit.node, view):
            most = "possible"
        confidence = max(hit.confidence, self.most, most, key=CONFIDENCES.index)
        known = self._found.get(key)
        if known is not None and CONFIDENCES.index(known.confidence) <= CONFIDENCES.index(confidence):
            return
        hazard, message = hit.hazard or rule.card.hazard, hit.message
        around = _unresumable(hit.node, view) if hazard == "graph-break" and view.region == "compiled" else None
        if around is not None:
            hazard, message = (
                "frame-skip",
                f"{message}; within this {around} that leaves all of `{view.qualname}` uncompiled",
            )
        finding = Finding(
            rule=rule.code,
            name=rule.card.name,
            hazard=hazard,
            path=path,
            span=span,
            function=view.qualname,
            message=message,
            instead=hit.instead,
            confidence=confidence,
            statement=statement_lines(view.statement(hit.node), span),
            region=view.frame.path(),
            definition=definition(hit.node, view.frame),
            fingerprint=fingerprint(path, view.qualname, rule.code, view.frame.module.lines[span.line - 1]),
            rewrite=hit.rewrite,
        )
        if hit.if_begun_anew or hit.if_broken is not None:
            self._broken.wait(key, finding, view.frame, None if hit.if_broken is None else hit.if_broken.ref)
            return
        self._found[key] = finding
        if hazard in ("graph-break", "frame-skip") and confidence != "possible":
            self._broken.note_break(hit.node, view.frame, view.nodes)

    def findings(self) -> tuple[Finding, ...]:
        """Everything found so far, in the order it was found, then what hangs on that; see `combined`."""
        return (*self._found.values(), *self._broken.counting())


def _scope(frame: Frame) -> Scope:
    return frame.module.tree if frame.is_module_level else frame.ref.node


def _note_not_entered(values: Iterable[Value], view: FrameView) -> None:
    """Note the functions among values that nobody has entered: rules look into them to tell if they are concerned."""
    program = view.frame.tracer.program
    for value in values:
        if isinstance(value, Function):
            place = value.ref.module, value.ref.node.lineno
            if (place[0], "walked", "", place[1]) not in program.noted:
                program.note(place[0], "body", line=place[1])


def _may_be_passed_over(node: ast.AST, view: FrameView) -> bool:
    """Whether an undecided `and`, `or` or ternary on the same line may keep an expression from running."""
    below = node
    for parent in view.parents(node):
        if isinstance(parent, ast.BoolOp) and below is not parent.values[0]:
            return True
        if isinstance(parent, ast.IfExp) and below is not parent.test:
            return not isinstance(view.kind(parent.test), Const)
        if isinstance(parent, ast.stmt):
            return False
        below = parent
    return False


def _unresumable(node: ast.AST, view: FrameView) -> str | None:
    """What a break at `node` stands in from which Dynamo cannot resume: no graph is left of the whole frame then.

    A loop, a `try` or a foreign `with` (GB7000, GB0066, GB0142), in words; None where it resumes.
    """
    below = node
    for parent in view.parents(node):
        if isinstance(parent, (ast.For, ast.While)) and below is not getattr(parent, "iter", None):
            if below not in parent.orelse:
                return "loop"
        elif isinstance(parent, ast.Try) and below in parent.body:
            return "`try`"
        elif isinstance(parent, ast.With) and below in parent.body and not _resumes(parent):
            return "`with`"
        below = parent
    return None


def _resumes(node: ast.With) -> bool:
    """Whether every context manager of the statement is one that Dynamo can resume in."""
    for item in node.items:
        target = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name not in _RESUMABLE_CONTEXTS:
            return False
    return True


def statement_lines(statement: ast.stmt | None, span: Span) -> tuple[int, int]:
    """First and last line of a statement, of its header where it has a body of its own."""
    if statement is None:
        return span.line, span.end_line
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return statement.lineno, max(span.end_line, min(body[0].lineno - 1, statement.end_lineno or statement.lineno))
    return statement.lineno, statement.end_lineno or statement.lineno
