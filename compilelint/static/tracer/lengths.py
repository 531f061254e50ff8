"""On what the length of a list or dict hangs that a function makes, as its text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from compilelint.static.facts.questions import last_name
from compilelint.static.project.syntax import nodes_in

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
COLLECTING = frozenset({"list", "tuple", "set", "dict", "sorted", "reversed"})
"""What makes a list, or the like, out of another one or of a generator."""
_ADDING = frozenset({"append", "extend", "add", "insert", "update"})


def unwrapped(node: ast.expr) -> ast.expr:
    """`[f(x) for x in xs]` of `tuple([f(x) for x in xs])`, and `xs` of `sorted(xs)`; any other expression as it is."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COLLECTING and node.args:
        node = node.args[0]
    return node


def decided_by(returned: ast.expr, function: ast.AST) -> Iterator[ast.expr]:
    """The tests, and the bounds of ranges and slices, that decide how long a list is which `function` hands back.

    `returned` is a comprehension, or a variable that holds one or that the function adds to under conditions.
    """
    returned = unwrapped(returned)
    if isinstance(returned, Comprehension):
        for turn in returned.generators:
            yield from turn.ifs
            yield from _bounds(turn.iter, function)
    elif isinstance(returned, ast.Name):
        yield from _kept_in(function).get(returned.id, ())


@lru_cache(maxsize=256)
def _kept_in(function: ast.AST) -> dict[str, tuple[ast.expr, ...]]:
    """By variable that starts as an empty list or dict, or is set to a comprehension, what decides on its length."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes_in(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made = unwrapped(node.value)
            if isinstance(made, Comprehension):
                found.setdefault(node.targets[0].id, []).extend(decided_by(made, function))
    for tests, body in _conditions(function):
        for part in body:
            name = _added_to(part)
            if name is not None and _starts_empty(name, function):
                found.setdefault(name, []).extend(tests)
    return {name: tuple(_without_opposites(tests)) for name, tests in found.items()}


def _without_opposites(tests: list[ast.expr]) -> Iterator[ast.expr]:
    """The tests but for `key in batch` where `key not in batch` is one too: what the one leaves out the other adds."""
    spelled = {ast.unparse(test) for test in tests}
    for test in tests:
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.In, ast.NotIn)):
            opposite = ast.In() if isinstance(test.ops[0], ast.NotIn) else ast.NotIn()
            if ast.unparse(ast.Compare(test.left, [opposite], test.comparators)) in spelled:
                continue
        yield test


def _conditions(function: ast.AST) -> Iterator[tuple[list[ast.expr], list[ast.stmt]]]:
    """The statements of a function that stand under an `if` that has no other side, or in a loop, each with what
    decides whether or how often they run."""
    for node in nodes_in(function):
        if isinstance(node, ast.If) and not node.orelse:
            yield [node.test], node.body
        elif isinstance(node, ast.For):
            yield list(_bounds(node.iter, function)), node.body


def asks_for_keys(name: str, function: ast.AST) -> bool:
    """Whether a function asks whether a dict has keys that a variable names, so that some may be missing."""
    for node in nodes_in(function):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            key, holder = node.left, node.comparators[0]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            key, holder = node.args[0], node.func.value
        else:
            continue
        if isinstance(key, ast.Name) and isinstance(holder, ast.Name) and holder.id == name:
            return True
    return False


def _added_to(node: ast.stmt) -> str | None:
    """The variable that a statement adds to: `chain.append(x)`, `kinds[name] = x`."""
    place: ast.expr | None = None
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        place = node.value.func.value if node.value.func.attr in _ADDING else None
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        place = node.targets[0].value
    return place.id if isinstance(place, ast.Name) else None


def _starts_empty(name: str, function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, (ast.List, ast.Dict))
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        for node in nodes_in(function)
    )


def _bounds(gone: ast.expr, function: ast.AST) -> Iterator[ast.expr]:
    """What decides how many turns a loop over `gone` has."""
    gone = unwrapped(gone)
    if isinstance(gone, ast.Call) and isinstance(gone.func, ast.Name) and gone.func.id in ("range", "enumerate", "zip"):
        for part in gone.args:
            counted = part.args[0] if isinstance(part, ast.Call) and last_name(part.func) == "len" else None
            if gone.func.id != "range" or isinstance(counted, ast.Name):
                yield from _bounds(counted or part, function)
            else:
                yield part
    elif isinstance(gone, ast.Subscript) and isinstance(gone.slice, ast.Slice):
        yield from (bound for bound in (gone.slice.lower, gone.slice.upper) if bound is not None)
    elif isinstance(gone, ast.Name):
        for node in nodes_in(function):
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == gone.id for target in node.targets
            ):
                if isinstance(node.value, ast.Subscript):
                    yield from _bounds(node.value, function)
                elif isinstance(node.value, Comprehension):
                    yield from (test for turn in node.value.generators for test in turn.ifs)
