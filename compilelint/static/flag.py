"""Traced frames -> findings: every rule is asked about the nodes it watches, in the regions it speaks about."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compilelint.fingerprint import fingerprint
from compilelint.model import CONFIDENCES, Confidence, Finding, Hazard, Span
from compilelint.rule import Hit, RegionKind, Rule
from compilelint.static.combine import Key
from compilelint.static.origins import definition
from compilelint.static.places import span_of
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import Const
from compilelint.static.view import FrameView, Scope, ScopeNodes

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


class Flagger:
    """Collects the findings of all frames. `loops` tells which loops of a function are decode loops."""

    def __init__(self, rules: Sequence[Rule], linted: frozenset[str]) -> None:
        self._linted = linted
        self.fallbacks = tuple(rule.code for rule in rules if rule.fallback)
        self._by_node: dict[RegionKind, dict[type[ast.AST], list[Rule]]] = {}
        self._by_name: dict[RegionKind, dict[str, list[Rule]]] = {}
        self._by_test: dict[RegionKind, list[Rule]] = {}
        for rule in rules:
            for region in rule.watch.regions:
                for name in rule.watch.names:
                    self._by_name.setdefault(region, {}).setdefault(name, []).append(rule)
                for node_type in () if rule.watch.names else rule.watch.nodes:
                    self._by_node.setdefault(region, {}).setdefault(node_type, []).append(rule)
                if rule.watch.tests:
                    self._by_test.setdefault(region, []).append(rule)
        self._nodes: dict[Scope, ScopeNodes] = {}
        self._found: dict[Key, Finding] = {}
        self.loops: dict[ast.AST, list[ast.For | ast.While]] = {}
        # Most ways of calling a function differ in nothing a rule can see; each distinct one is looked at once.
        self._seen: dict[Scope, set[object]] = {}
        self.most: Confidence = "certain"
        """Findings are at most this sure from here on."""

    def look(self, frame: Frame) -> None:
        """Ask the rules about one finished frame."""
        if frame.mode == "construct" or frame.module.name not in self._linted:
            return
        scope: Scope = frame.module.tree if frame.is_module_level else frame.ref.node
        regions: list[RegionKind] = [frame.mode]
        if frame.mode == "host" and self._called_each_turn(frame):
            regions.append("decode-loop")
        for region in regions:
            view = FrameView(frame, region, scope, self._nodes_of(scope))
            signature = (self.most, view.signature())
            if signature in self._seen.setdefault(scope, set()):
                continue
            self._seen[scope].add(signature)
            for rule, node in self._asked(view, region):
                for hit in rule.check(node, view):
                    self._keep(rule, hit, view)

    def _called_each_turn(self, frame: Frame) -> bool:
        """Whether a decode loop calls this function each turn; the model's own forward is no part of the loop."""
        while frame.caller is not None and not frame.ref.qualname.endswith((".forward", ".__call__")):
            if frame.caller.mode == "decode-loop":
                loops = self.loops.get(frame.caller.ref.node, [])
                body = [
                    part
                    for loop in loops
                    for part in [*loop.body, *([loop.test] if isinstance(loop, ast.While) else [])]
                ]
                return frame.site is not None and any(part in body for part in self._around(frame.site, frame.caller))
            frame = frame.caller
        return False

    def _around(self, site: ast.AST, frame: Frame) -> Iterator[ast.AST]:
        """A call and the nodes around it, in the function that makes it."""
        parent = self._nodes_of(frame.ref.node).parent
        node: ast.AST | None = site
        while node is not None:
            yield node
            node = parent.get(node)

    def _nodes_of(self, scope: Scope) -> ScopeNodes:
        if scope not in self._nodes:
            self._nodes[scope] = ScopeNodes(scope)
        return self._nodes[scope]

    def _asked(self, view: FrameView, region: RegionKind) -> Iterator[tuple[Rule, ast.AST]]:
        """The rules to ask, each with a node that some path reached."""
        loops = self.loops.get(view.scope, []) if view.frame.mode == "decode-loop" else None
        by_name = self._by_name.get(region, {})
        by_node = self._by_node.get(region, {})
        for node_type, nodes in view.nodes.by_type.items():
            rules = by_node.get(node_type, ())
            if not rules and node_type is not ast.Call:
                continue
            for node in nodes:
                if self._runs(node, view, loops):
                    for rule in rules:
                        yield rule, node
                    if isinstance(node, ast.Call):
                        for rule in by_name.get(_called_name(node), ()):
                            yield rule, node
        for node in list(view.frame.tests):
            if node in view.nodes.parent and (loops is None or _inside(node, view, loops)):
                for rule in self._by_test.get(region, ()):
                    yield rule, node

    def _runs(self, node: ast.AST, view: FrameView, loops: list[ast.For | ast.While] | None) -> bool:
        if loops is not None and not _inside(node, view, loops):
            return False
        if isinstance(node, ast.expr):
            return node in view.frame.kinds
        # The value comes first: what is only stored to (`self.x = …`, `del x`) is never evaluated.
        value = getattr(node, "value", None) or getattr(node, "iter", None)
        inner = value or next((child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)), None)
        return inner is None or inner in view.frame.kinds or isinstance(node, (ast.FunctionDef, ast.ClassDef))

    def _keep(self, rule: Rule, hit: Hit, view: FrameView) -> None:
        """Record a hit, or strengthen the finding that an earlier frame of the same function left."""
        span = span_of(hit.node, view.frame.module)
        path = view.frame.tracer.display(view.frame.module)
        key = (rule.code, path, span)
        most: Confidence = "likely" if _may_be_passed_over(hit.node, view) else self.most
        confidence = max(hit.confidence, self.most, most, key=CONFIDENCES.index)
        known = self._found.get(key)
        if known is not None and CONFIDENCES.index(known.confidence) <= CONFIDENCES.index(confidence):
            return
        self._found[key] = Finding(
            rule=rule.code,
            name=rule.card.name,
            hazard=_hazard(hit.hazard or rule.card.hazard, hit.node, view),
            path=path,
            span=span,
            function=view.qualname,
            message=hit.message,
            instead=hit.instead,
            confidence=confidence,
            statement=statement_lines(view.statement(hit.node), span),
            region=view.frame.path(),
            definition=definition(hit.node, view.frame),
            fingerprint=fingerprint(path, view.qualname, rule.code, view.frame.module.lines[span.line - 1]),
            rewrite=hit.rewrite,
        )

    def findings(self) -> tuple[Finding, ...]:
        """Everything found so far, in the order it was found; see `combined`."""
        return tuple(self._found.values())


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


def _called_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _inside(node: ast.AST, view: FrameView, loops: list[ast.For | ast.While]) -> bool:
    below = node
    for parent in view.parents(node):
        # What a `for` iterates over is computed once.
        if parent in loops and below is not getattr(parent, "iter", None):
            return True
        below = parent
    return False


def _hazard(hazard: Hazard, node: ast.AST, view: FrameView) -> Hazard:
    """A break inside a loop, `try` or foreign `with` leaves no graph for the whole frame (GB7000, GB0066, GB0142)."""
    if hazard != "graph-break" or view.region != "compiled":
        return hazard
    below = node
    for parent in view.parents(node):
        if isinstance(parent, (ast.For, ast.While)) and below is not getattr(parent, "iter", None):
            if below not in parent.orelse:
                return "frame-skip"
        elif (isinstance(parent, ast.Try) and below in parent.body) or (
            isinstance(parent, ast.With) and below in parent.body and not _resumes(parent)
        ):
            return "frame-skip"
        below = parent
    return hazard


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
