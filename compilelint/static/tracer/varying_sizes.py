"""In which dimensions a tensor or list that driving code passes has another size each time, as its text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import without_index
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer import varying
from compilelint.static.tracer.lengths import Comprehension, asks_for_keys, decided_by, unwrapped
from compilelint.static.values import Function, Instance, options

if TYPE_CHECKING:
    from compilelint.static.tracer.frame import Frame

_MAKERS = frozenset("randn rand zeros ones empty full randint new_zeros new_ones new_empty arange".split())
_SAME_SIZE = frozenset("to cuda cpu float half bfloat16 long int clone detach contiguous pin_memory".split())
_IMAGE = (2, 3, 4, -1)
"""The dimensions that `interpolate` gives a new size, as far as there are so many."""


def varying_dimensions(argument: ast.expr, frame: Frame, asked: frozenset[str] = frozenset()) -> frozenset[int]:
    """The dimensions, 0-based, whose size hangs on the variable of a loop or on what the driving code is asked for.

    The length of a list is that of its dimension 0. `asked` are the variables of which that is being asked already:
    of `rows = [row for row in rows if row]` it hangs on itself.
    """
    if not isinstance(argument, ast.Name):
        return frozenset([*_of_made(argument, frame, asked), *_of_returned(argument, None, frame)])
    if argument.id in asked:
        return frozenset()
    asked |= {argument.id}
    assigned = list(_assigned(argument.id, frame.tree))
    if any(_is_of_any_yield(loop.iter, item, frame) for loop, item in _loops_over(argument.id, frame.tree)):
        return frozenset({0})
    found = {dimension for made, item in assigned if item is None for dimension in _of_made(made, frame, asked)}
    found |= {dimension for made, item in assigned for dimension in _of_returned(made, item, frame)}
    if frame.caller is None and varying.is_open(argument.id, frame) and asks_for_keys(argument.id, frame.tree):
        found.add(0)
    return frozenset(found | set(_grown(argument.id, frame.tree)))


def _assigned(name: str, scope: ast.AST) -> Iterator[tuple[ast.expr, int | None]]:
    """What a variable is set to, or is the n-th item of: 1 for `y` of `x, y = load(n)`."""
    for node in nodes_in(scope):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                several = isinstance(target, ast.Tuple)
                for item, part in enumerate(target.elts if isinstance(target, ast.Tuple) else [target]):
                    if isinstance(part, ast.Name) and part.id == name:
                        yield node.value, item if several else None


def _of_made(made: ast.expr, frame: Frame, asked: frozenset[str]) -> Iterator[int]:
    """Of a tensor that is made with sizes, sliced, or scaled."""
    if isinstance(made, ast.Subscript):
        parts = made.slice.elts if isinstance(made.slice, ast.Tuple) else [made.slice]
        for dimension, part in enumerate(parts):
            if not isinstance(part, ast.Slice):
                break  # `None` and `...` shift what follows, an index takes a dimension away
            if _is_of_any_width(part, frame):
                yield dimension
    elif isinstance(inner := unwrapped(made), Comprehension):
        if _is_of_any_length(inner, frame, asked):
            yield 0
    elif isinstance(made, ast.Call):
        name = last_name(made.func)
        if name in _MAKERS:
            yield from (dimension for dimension, size in _sizes_of(made) if _varies(size, frame))
        elif name == "interpolate":
            scaled = (*made.args[1:2], *(part.value for part in made.keywords if part.arg in ("size", "scale_factor")))
            if any(_varies(size, frame) for size in scaled):
                yield from _IMAGE
        elif name in _SAME_SIZE and isinstance(made.func, ast.Attribute):
            yield from _of_made(made.func.value, frame, asked)


def _sizes_of(made: ast.expr) -> Iterator[tuple[int, ast.expr]]:
    """The dimensions, with their sizes, of a tensor that is made with sizes."""
    if isinstance(made, ast.Call) and last_name(made.func) in _MAKERS:
        sizes = next((a.elts for a in made.args if isinstance(a, (ast.Tuple, ast.List))), made.args)
        yield from enumerate(sizes[:1] if last_name(made.func) == "arange" else sizes)


def _of_returned(call: ast.expr, item: int | None, frame: Frame) -> Iterator[int]:
    """Of a tensor, or the n-th of several, that a function of the project makes with sizes it is given."""
    functions = options(frame.kind(call.func)) if isinstance(call, ast.Call) else ()
    for ref in (option.ref for option in functions if isinstance(option, Function)):
        frame.tracer.program.note(ref.module, "body", line=ref.node.lineno)
        for dimension, size in _sizes_returned(ref.node, item):
            given = (varying.argument_at(call, ref, name) for name in varying.reached(size, ref.node))
            if any(argument is not None and _varies(argument, frame) for argument in given):
                yield dimension
        for returned in _handed_back(ref.node, item, ast.Return):
            for test in decided_by(returned, ref.node):
                given = (varying.argument_at(call, ref, name) for name in varying.reached(test, ref.node))
                if any(argument is not None and _varies(argument, frame) for argument in given):
                    yield 0
            made = [returned, *(value for value, inner in _assigned(ast.unparse(returned), ref.node) if inner is None)]
            if any(_goes_through_changed(part, ref.node) for part in made):
                yield 0


def _sizes_returned(function: ast.AST, item: int | None) -> Iterator[tuple[int, ast.expr]]:
    for returned in _handed_back(function, item, ast.Return):
        if isinstance(returned, ast.Name):
            for made, inner in _assigned(returned.id, function):
                yield from _sizes_of(made) if inner is None else ()
        else:
            yield from _sizes_of(returned)


def _handed_back(function: ast.AST, item: int | None, how: type[ast.Return] | type[ast.Yield]) -> Iterator[ast.expr]:
    """What a function returns or yields, or the n-th of several."""
    for node in nodes_in(function):
        returned = node.value if isinstance(node, how) else None
        if item is not None:
            parts = returned.elts if isinstance(returned, ast.Tuple) else []
            returned = parts[item] if item < len(parts) else None
        if returned is not None:
            yield returned


def _loops_over(name: str, scope: ast.AST) -> Iterator[tuple[ast.For, int | None]]:
    """The loops that set a variable, or as the n-th of several."""
    for node in nodes_in(scope):
        if isinstance(node, ast.For):
            several = isinstance(node.target, ast.Tuple)
            for item, part in enumerate(node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]):
                if isinstance(part, ast.Name) and part.id == name:
                    yield node, item if several else None


def _is_of_any_yield(call: ast.expr, item: int | None, frame: Frame) -> bool:
    """Whether a generator of the project yields a list or dict that its own loop makes longer or shorter."""
    for ref in _generators(call, frame):
        frame.tracer.program.note(ref.module, "body", line=ref.node.lineno)
        turned = varying.loop_variables(ref.node)
        for yielded in _handed_back(ref.node, item, ast.Yield):
            own = _own_variables(yielded)
            tests = decided_by(yielded, ref.node)
            if any((varying.reached(test, ref.node) & turned) - own for test in tests):
                return True
    return False


def _generators(iterated: ast.expr, frame: Frame) -> Iterator[FunctionRef]:
    """The functions that a loop over a call of them, or over an object, runs to get its values."""
    called = options(frame.kind(iterated.func)) if isinstance(iterated, ast.Call) else ()
    yield from (option.ref for option in called if isinstance(option, Function))
    for option in options(frame.kind(iterated)):
        method = frame.tracer.program.method(option.ref, "__iter__") if isinstance(option, Instance) else None
        if isinstance(method, FunctionRef):
            yield method


def _own_variables(made: ast.expr) -> set[str]:
    made = unwrapped(made)
    turns = made.generators if isinstance(made, Comprehension) else []
    return {name for turn in turns for name in _names_in(turn.target)}


def _goes_through_changed(made: ast.expr, method: ast.AST) -> bool:
    """Whether a comprehension goes through an attribute to which the method adds, or from which it takes away."""
    made = unwrapped(made)
    gone = [turn.iter for turn in made.generators] if isinstance(made, Comprehension) else []
    spelled = {ast.unparse(part) for part in gone if isinstance(part, ast.Attribute)}
    return bool(spelled) and bool(spelled & varying.resized_in(method))


def _is_of_any_length(made: Comprehension, frame: Frame, asked: frozenset[str]) -> bool:
    """Whether a comprehension has more or fewer turns each time: by a condition, a `range`, or what it goes through."""
    own = {name for turn in made.generators for name in _names_in(turn.target)}
    for turn in made.generators:
        tested = {name for test in turn.ifs for name in varying.reached(test, frame.tree)}
        if (tested - own) & _turned_by_loops(frame.tree):
            return True
        gone = turn.iter
        if _names_in(gone) & own:
            continue
        if isinstance(gone, ast.Call) and last_name(gone.func) == "range":
            if any(_varies(bound, frame) for bound in gone.args):
                return True
        elif isinstance(gone, (ast.Name, ast.Subscript)) and 0 in varying_dimensions(gone, frame, asked):
            return True
    return False


@lru_cache(maxsize=256)
def _turned_by_loops(scope: ast.AST) -> frozenset[str]:
    """The variables of the loops that are statements."""
    loops = (node for node in nodes_in(scope) if isinstance(node, (ast.For, ast.AsyncFor)))
    return frozenset(name for loop in loops for name in _names_in(loop.target))


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _is_of_any_width(part: ast.Slice, frame: Frame) -> bool:
    """Whether a slice is longer or shorter each time; `x[i : i + 8]` is not, but for the last."""
    if part.lower is not None and isinstance(part.upper, ast.BinOp):
        beyond = (ast.unparse(part.upper.left), ast.unparse(part.upper.right))
        return ast.unparse(part.lower) not in beyond and _varies(part.upper, frame)
    return any(bound is not None and _varies(bound, frame) for bound in (part.lower, part.upper))


def _varies(size: ast.expr, frame: Frame) -> bool:
    if varying.steps(size, frame) or varying.is_another_next_time(size, frame):
        return True
    open_names = (name for name in varying.parameters_in(size, frame) if varying.is_open(name, frame))
    return frame.caller is None and any(open_names) and not _is_of_tensor(size)


def _is_of_tensor(size: ast.expr) -> bool:
    """Whether a size is taken from a tensor or list that is passed in: that may be the same each time."""
    return any(
        (isinstance(part, ast.Attribute) and part.attr in ("shape", "size", "ndim", "numel"))
        or (isinstance(part, ast.Name) and part.id == "len")
        for part in ast.walk(size)
    )


def _grown(name: str, scope: ast.AST) -> Iterator[int]:
    """The dimension in which a loop makes a variable longer: `ids = torch.cat([ids, new], dim=1)`."""
    for loop in nodes_in(scope):
        for made, _ in _assigned(name, loop) if isinstance(loop, (ast.For, ast.While)) else ():
            if not (isinstance(made, ast.Call) and last_name(made.func) == "cat" and made.args):
                continue
            joined = made.args[0]
            dimension = next((part.value for part in made.keywords if part.arg == "dim"), None) or next(
                iter(made.args[1:2]), ast.Constant(0)
            )
            itself = isinstance(joined, (ast.List, ast.Tuple)) and any(
                isinstance(without_index(part), ast.Name) and ast.unparse(without_index(part)) == name
                for part in joined.elts
            )
            if itself and isinstance(dimension, ast.Constant) and isinstance(dimension.value, int):
                yield dimension.value
