"""Which rules are asked about which nodes: what their `Watch` says, worked out once per function and once per name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from compilelint.rule import RegionKind, Rule
from compilelint.static.flagging.view import Scope, ScopeNodes
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import Value

Rules = tuple[Rule, ...]
ByKind = tuple[tuple[Rule, Callable[[Value], bool]], ...]
Plan = list[tuple[ast.AST, Rules, ByKind, ast.expr | None]]
"""A node, the rules whose `Watch` it passes whatever its kinds are, those of which `Watch.kinds` is still to be asked,
and the expression that tells whether it ran."""

_Concerned = list[tuple[Rule, Callable[[ast.AST, ast.Module], bool] | None]]


class Dispatch:
    """The rules by what they watch."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.fallbacks = tuple(rule.code for rule in rules if rule.fallback)
        self._watching: dict[tuple[RegionKind, type[ast.AST]], list[Rule]] = {}
        self._by_name: dict[tuple[RegionKind, str], list[Rule]] = {}
        self._by_callee: dict[RegionKind, _ByCallee] = {}
        self._by_test: dict[RegionKind, list[Rule]] = {}
        self._nodes: dict[Scope, ScopeNodes] = {}
        self._plans: dict[tuple[Scope, RegionKind, bool], Plan] = {}
        self._kinds = [rule.watch.kinds for rule in rules if rule.watch.kinds is not None]
        self._concerning: dict[tuple[ast.Module, RegionKind, type[ast.AST], bool], _Concerned] = {}
        self._files: dict[ast.Module, dict[str, bool]] = {}
        for rule in rules:
            for region in rule.watch.regions:
                for name in rule.watch.names:
                    self._by_name.setdefault((region, name), []).append(rule)
                for node_type in () if rule.watch.names else rule.watch.nodes:
                    self._watching.setdefault((region, node_type), []).append(rule)
                if rule.watch.tests:
                    self._by_test.setdefault(region, []).append(rule)

    def nodes_of(self, scope: Scope) -> ScopeNodes:
        """The nodes of a function, or of a module's own statements."""
        if scope not in self._nodes:
            self._nodes[scope] = ScopeNodes(scope)
        return self._nodes[scope]

    def plan(self, scope: Scope, module: ast.Module, region: RegionKind, entered: bool) -> Plan:
        """The nodes of a function that some rule may be asked about; `entered` as in `Watch`."""
        key = (scope, region, entered)
        if key not in self._plans:
            self._plans[key] = self._planned(self.nodes_of(scope), module, region, entered)
        return self._plans[key]

    def _planned(self, nodes: ScopeNodes, module: ast.Module, region: RegionKind, entered: bool) -> Plan:
        plan: Plan = []
        for node_type, found in nodes.by_type.items():
            watching = self._concerned(region, node_type, entered, module)
            named = node_type is ast.Call
            for node in found if watching or named else ():
                left = [rule for rule, concerns in watching if concerns is None or concerns(node, module)]
                if isinstance(node, ast.Call):
                    left += self._by_name.get((region, _called_name(node)), ())
                if left or named:
                    rules = tuple([rule for rule in left if rule.watch.kinds is None])
                    by_kind = tuple([(rule, asked) for rule in left if (asked := rule.watch.kinds) is not None])
                    plan.append((node, rules, by_kind, _witness(node)))
        return plan

    def _concerned(self, region: RegionKind, node_type: type[ast.AST], entered: bool, module: ast.Module) -> _Concerned:
        """The rules that nodes of one sort in one file may concern, each with what its `Watch` asks of their syntax."""
        key = (module, region, node_type, entered)
        if key not in self._concerning:
            self._concerning[key] = [
                (rule, rule.watch.syntax)
                for rule in self._watching.get((region, node_type), ())
                if rule.watch.syntax or rule.watch.kinds or rule.watch.callees is None or node_type is not ast.Call
                if entered or not rule.watch.entered
                if rule.watch.files is None or self._speaks_of(module, rule)
            ]
        return self._concerning[key]

    def _speaks_of(self, module: ast.Module, rule: Rule) -> bool:
        """Whether a file is one of those that a rule with `Watch.files` looks at."""
        if module not in self._files:
            self._files[module] = {}
        known = self._files[module]
        if rule.code not in known:
            known[rule.code] = rule.watch.files is None or rule.watch.files(module)
        return known[rule.code]

    def pattern(self, asked: str, function: Scope, module: ast.Module) -> str:
        """What the plans of a function and of those nested in it hang on besides its text; for `asked` see `asking`."""
        region, entered = _ASKED[asked]
        scopes = (node for node in nodes_in(function) if isinstance(node, _FUNCTIONS))
        plans = (self.plan(scope, module, region, entered) for scope in scopes)
        return repr(
            [[([r.code for r in rules], [r.code for r, _ in by_kind]) for _, rules, by_kind, _ in p] for p in plans]
        )

    def by_callee(self, region: RegionKind) -> Mapping[str | None, Rules]:
        """The rules that a call concerns by the dotted name of what it calls; none by None."""
        if region not in self._by_callee:
            named = {rule.code: rule for (of, _), found in self._by_name.items() if of == region for rule in found}
            self._by_callee[region] = _ByCallee(self._watching.get((region, ast.Call), []), list(named.values()))
        return self._by_callee[region]

    def is_of_concern(self, value: Value) -> bool:
        """Whether some rule looks at nodes for their being of this kind."""
        return any(asked(value) for asked in self._kinds)

    def by_test(self, region: RegionKind) -> Sequence[Rule]:
        """The rules that every truth test concerns."""
        return self._by_test.get(region, ())


class _ByCallee(dict[str | None, Rules]):
    """Asks the rules about each name once; `named` are those that watch a name, which a call may not spell."""

    def __init__(self, rules: Sequence[Rule], named: Sequence[Rule]) -> None:
        super().__init__({None: ()})
        self._asked = [(rule, rule.watch.callees) for rule in rules if rule.watch.callees is not None]
        self._named = [rule for rule in named if rule.watch.kinds is None]

    def __missing__(self, callee: str | None) -> Rules:
        found = tuple(rule for rule, callees in self._asked if callee is not None and callees(callee))
        name = (callee or "").rpartition(".")[2]
        found += tuple(rule for rule in self._named if name in rule.watch.names)  # `read = t.item` and then `read()`
        self[callee] = found
        return found


def asking(region: RegionKind, entered: bool) -> str:
    """How a function is looked at, in one word: see `Dispatch.plan`."""
    return f"{region}+entered" if entered else region


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ASKED = {asking(region, entered): (region, entered) for region in get_args(RegionKind) for entered in (False, True)}


def _called_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _witness(node: ast.AST) -> ast.expr | None:
    """The expression that has a kind where a path reached `node`; None where nothing tells."""
    if isinstance(node, ast.expr):
        return node
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return None
    # The value comes first: what is only stored to (`self.x = …`, `del x`) is never evaluated.
    value = getattr(node, "value", None) or getattr(node, "iter", None)
    return value or next((child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)), None)
