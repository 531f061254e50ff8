"""Where a program still uses the output of a CUDA graph after the next graph has run.

A replay writes into the memory of the replay before it, and without a backward pass to come every call of a compiled
function starts anew: what earlier calls returned is gone, also as an argument of the new call. Measured on an H200,
torch 2.11: in the first two calls, which warm up and record, "accessing tensor output of CUDAGraphs that has been
overwritten by a subsequent run"; from the third on what is read late is, without an error, what the later replay wrote.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Literal

from compilelint.record import record
from compilelint.static.facts.cuda_graphs import is_replay
from compilelint.static.facts.state import own_nodes

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
PARTS = frozenset({"view", "reshape", "squeeze", "unsqueeze", "transpose", "permute", "detach", "flatten", "t"})


@record(frozen=True, slots=True)
class LateUse:
    """`node` uses what the call `made` returned: `passed` to the next replay, or `read` after it."""

    node: ast.expr
    made: ast.Call
    how: Literal["passed", "read"]


@lru_cache(maxsize=512)
def late_uses(scope: Scope, module: ast.Module) -> tuple[LateUse, ...]:
    """The first late use of each replay's output in one function, in source order."""
    replays = frozenset(node for node in own_nodes(scope) if is_replay(node, scope, module))
    if not replays or isinstance(scope, ast.Lambda) or any(_trains(node) for node in own_nodes(scope)):
        return ()
    reader = _Reader(replays)
    # Attributes last from one call of the function to the next, so its body is read twice.
    for _ in range(2):
        reader.block(scope.body)
        reader.held = {name: made for name, made in reader.held.items() if "." in name}
        reader.gone &= set(reader.held)
    return tuple(sorted(reader.found.values(), key=lambda use: (use.node.lineno, use.node.col_offset)))


def _trains(node: ast.AST) -> bool:
    """A backward pass that is still to come keeps outputs alive."""
    return isinstance(node, ast.Attribute) and node.attr in ("backward", "zero_grad", "enable_grad")


class _Reader:
    """Reads statements in order. `held`: by variable, the replay that returned it; `gone`: those overwritten since."""

    def __init__(self, replays: frozenset[ast.AST]) -> None:
        self.replays = replays
        self.held: dict[str, ast.Call] = {}
        self.gone: set[str] = set()
        self.found: dict[ast.Call, LateUse] = {}
        """By the replay whose output is used late: one use of each is enough to tell."""

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign):
            self.read(statement.value)
            for target in statement.targets:
                self.assign(target, self.output(statement.value))
        elif isinstance(statement, (ast.For, ast.AsyncFor)):
            self.read(statement.iter)
            for _ in range(2):
                self.block(statement.body)
            self.block(statement.orelse)
        elif isinstance(statement, ast.While):
            for _ in range(2):
                self.read(statement.test)
                self.block(statement.body)
        elif isinstance(statement, ast.If):
            self.read(statement.test)
            self.branches(statement.body, statement.orelse)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            self.block(statement.body)
        elif isinstance(statement, ast.Try):
            self.block([*statement.body, *statement.orelse, *statement.finalbody])
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for expression in ast.iter_child_nodes(statement):
                if isinstance(expression, ast.expr):
                    self.read(expression)

    def branches(self, *blocks: list[ast.stmt]) -> None:
        """What one branch holds or overwrites may be so afterwards, unless the branch leaves."""
        held, gone = dict(self.held), set(self.gone)
        after_held, after_gone = ({}, set()) if all(blocks) else (dict(held), set(gone))
        for block in blocks:
            self.held, self.gone = dict(held), set(gone)
            self.block(block)
            if block and not isinstance(block[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                after_held.update(self.held)
                after_gone |= self.gone
        self.held, self.gone = after_held, after_gone

    def read(self, expression: ast.expr) -> None:
        """Note the late uses in an expression, and what the replays in it overwrite, innermost first."""
        if isinstance(expression, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return
        if isinstance(expression, ast.Compare) and isinstance(expression.ops[0], (ast.Is, ast.IsNot)):
            return  # asks which object it is, not what is in its memory
        replays = expression in self.replays
        for part in ast.iter_child_nodes(expression):
            if isinstance(part, (ast.expr, ast.keyword)) and not (replays and isinstance(part, ast.Attribute)):
                self.read(part.value if isinstance(part, ast.keyword) else part)
        name = _name(expression)
        if name in self.gone and name in self.held and isinstance(getattr(expression, "ctx", None), ast.Load):
            self.found.setdefault(self.held[name], LateUse(expression, self.held[name], "read"))
        if isinstance(expression, ast.Call) and replays:
            for argument in (*expression.args, *(keyword.value for keyword in expression.keywords)):
                made = self.output(argument)
                if made is not None:
                    self.found.setdefault(made, LateUse(argument, made, "passed"))
            self.gone.update(self.held)

    def output(self, expression: ast.expr) -> ast.Call | None:
        """The replay whose output, or part of it, an expression is."""
        while True:
            if isinstance(expression, ast.Subscript):
                expression = expression.value
            elif isinstance(expression, ast.Call) and expression in self.replays:
                return expression
            elif isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
                if expression.func.attr not in PARTS:
                    return None
                expression = expression.func.value
            else:
                return self.held.get(_name(expression) or "")

    def assign(self, target: ast.expr, made: ast.Call | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self.assign(part, made)
            return
        name = _name(target)
        if name is None:
            return
        self.gone.discard(name)
        if made is None:
            self.held.pop(name, None)
        else:
            self.held[name] = made


def _name(expression: ast.expr) -> str | None:
    """How a variable or an attribute is spelled: `x`, `self.state`."""
    if isinstance(expression, ast.Name):
        return expression.id
    return ast.unparse(expression) if isinstance(expression, ast.Attribute) else None
