"""Which values differ from call to call in code that drives compiled functions, as far as its text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeGuard

from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer.binding import defaults
from compilelint.static.values import Mapping, Sequence, Value

if TYPE_CHECKING:
    from compilelint.static.project.definitions import FunctionRef
    from compilelint.static.tracer.frame import Frame

FEW = 3
"""So many values, written down in a loop, cost so many compilations and no more."""
TWO_SIDES = 2
"""So many values of an attribute that a loop goes through are met by a warm-up."""


def varies(node: ast.expr, frame: Frame) -> bool:
    """Whether a value hangs on a loop's variable, or on an argument of the driving code's outermost function."""
    return _hangs_on(node, frame, arguments=True)


def steps(node: ast.expr, frame: Frame) -> bool:
    """Whether a value hangs on a loop's variable."""
    return _hangs_on(node, frame, arguments=False)


def _hangs_on(node: ast.expr, frame: Frame, *, arguments: bool) -> bool:
    names = reached(node, frame.tree)
    if names & (loop_variables(frame.tree) | _few_but_more_than_two(frame.tree)):
        return True
    for name in names & _parameters(frame):
        if frame.caller is None:
            return arguments
        argument = passed(name, frame)
        if (
            argument is not None
            and frame.caller.keeps_effects
            and _hangs_on(argument, frame.caller, arguments=arguments)
        ):
            return True
    return False


def is_another_next_time(argument: ast.expr, frame: Frame) -> bool:
    """Whether a call in `frame` gives its callee another value each time, as far as the text of its function tells.

    True for what a loop turns or carries on, and for an attribute that the class of the caller counts on.
    """
    if reached(argument, frame.tree) & (loop_variables(frame.tree) | _carried(frame.tree)):
        return True
    if not isinstance(argument, ast.Attribute) or frame.ref.owner is None:
        return False
    frame.tracer.program.note(frame.module.name, "code")
    return ast.unparse(argument) in _counted_by(frame.ref.owner.node)


def parameters_in(argument: ast.expr, frame: Frame) -> set[str]:
    """The parameters of the function that `frame` runs from which an argument is computed."""
    return reached(argument, frame.tree) & _parameters(frame)


def hands_on(argument: ast.expr, frame: Frame) -> str | None:
    """The parameter that `frame` hands on as it is."""
    name = argument.id if isinstance(argument, ast.Name) else ""
    return name if name in _parameters(frame) and name not in _stored_in(frame.tree) else None


def is_open(name: str, frame: Frame) -> bool:
    """Whether whoever calls the function has to say what a parameter is: it has no default."""
    return name in _parameters(frame) - defaults(frame.ref.node).keys()


def is_longer_next_time(argument: ast.expr, value: Value, call: ast.Call, frame: Frame) -> bool:
    """Whether what surrounds `call` adds to the list, tuple or dict that it passes, and takes nothing away.

    That is a loop for a variable, and the function itself for an attribute, which lasts from one call to the next.
    """
    if not isinstance(value, (Sequence, Mapping)):
        return False
    around: list[ast.AST] = list(_loops_around(call, frame.tree))
    if isinstance(argument, ast.Attribute) and frame.ref.owner is not None:
        around = [] if frame.is_module_level or _is_cut(argument, frame) else [frame.tree]
    elif not isinstance(argument, ast.Name):
        return False
    for part in around:
        grown, keyed, cut = _grown_in(part)
        spelled = ast.unparse(argument)
        if spelled not in cut and (spelled in grown or (spelled in keyed and isinstance(value, Mapping))):
            return True
    return False


def _is_cut(attribute: ast.Attribute, frame: Frame) -> bool:
    """Whether some method of the class keeps an attribute short; starting anew with an empty one does not."""
    frame.tracer.program.note(frame.module.name, "code")
    methods = frame.ref.owner.node.body if frame.ref.owner is not None else []
    return any(
        ast.unparse(attribute) in _grown_in(method)[2]
        for method in methods
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__"
    )


_ADDING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "setdefault"})
_TAKING = frozenset({"pop", "popleft", "popitem", "clear", "remove", "discard"})


@lru_cache(maxsize=256)
def _grown_in(scope: ast.AST) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The variables and attributes, as written, that a piece of code makes longer, those of which it sets entries whose
    keys are made anew, and those of which it takes away."""
    grown, keyed, cut = set[str](), set[str](), set[str]()
    for node in nodes_in(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_place(node.func.value):
            change = grown if node.func.attr in _ADDING else cut if node.func.attr in _TAKING else set[str]()
            change.add(ast.unparse(node.func.value))
        elif isinstance(node, ast.AugAssign) and _is_place(node.target):
            longer = isinstance(node.value, (ast.List, ast.Tuple))
            (grown if longer else cut).add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if _is_place(target):
                    spelled = ast.unparse(target)
                    starts_anew = isinstance(target, ast.Attribute) and _is_empty(node.value)
                    (grown if _adds_to(spelled, node.value) else set[str]() if starts_anew else cut).add(spelled)
                elif isinstance(target, ast.Subscript) and _is_place(target.value):
                    local = isinstance(target.value, ast.Name)
                    new_key = (
                        not isinstance(target.slice, (ast.Constant, ast.Slice)) if local else _is_text(target.slice)
                    )
                    (keyed if new_key else set[str]()).add(ast.unparse(target.value))
        elif isinstance(node, ast.Delete):
            cut |= {ast.unparse(part) for part in nodes_in(node) if isinstance(part, ast.expr) and _is_place(part)}
    return frozenset(grown), frozenset(keyed), frozenset(cut)


def resized_in(scope: ast.AST) -> frozenset[str]:
    """The variables and attributes, as written, that a piece of code adds to, takes from, or sets to a part of them."""
    found = set(_grown_in(scope)[0])
    for node in nodes_in(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TAKING:
            found.add(ast.unparse(node.func.value))
        elif isinstance(node, ast.Assign):
            spelled = {ast.unparse(target) for target in node.targets if _is_place(target)}
            found |= {ast.unparse(part) for part in ast.walk(node.value) if _is_place(part)} & spelled
    return frozenset(found)


def _is_text(key: ast.expr) -> bool:
    """Whether a key is a text that is put together, or called a name: an index soon comes again (`cache[layer]`)."""
    return isinstance(key, ast.JoinedStr) or (isinstance(key, ast.Name) and key.id.endswith(("name", "key", "label")))


def _is_place(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))


def _is_empty(node: ast.expr) -> bool:
    """`[]`, `{}`, `list()` or `dict()`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("list", "dict") and not node.args
    return not (getattr(node, "elts", None) or getattr(node, "keys", None)) and isinstance(node, (ast.List, ast.Dict))


def _adds_to(spelled: str, value: ast.expr) -> bool:
    """Whether `value` is the list or tuple at that place and more: `past + (x,)`, `[*past, x]`."""
    if isinstance(value, (ast.List, ast.Tuple)):
        starred = [part.value for part in value.elts if isinstance(part, ast.Starred)]
        return any(ast.unparse(part) == spelled for part in starred)
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    sides = (value.left, value.right)
    same = any(ast.unparse(side) == spelled for side in sides)
    return same and any(isinstance(side, (ast.List, ast.Tuple)) for side in sides)


def _parameters(frame: Frame) -> set[str]:
    arguments = frame.ref.node.args
    return {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} - {"self", "cls"}


@lru_cache(maxsize=256)
def _carried(scope: ast.AST) -> frozenset[str]:
    """The variables that a loop computes from what they were on the turn before, draws, or takes off a queue."""
    found: set[str] = set()
    for loop in nodes_in(scope):
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
            stepped = {
                n.target.id for n in nodes_in(loop) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
            }
            assigned = _assigned_from(loop)
            found |= stepped | {name for name in assigned if name in _closure(assigned[name], assigned)}
            found |= _drawn(loop)
    return frozenset(found)


_DRAWING = frozenset({"choice", "choices", "randint", "randrange", "random", "uniform", "sample", "gauss"})


def _drawn(loop: ast.AST) -> set[str]:
    """The variables that a loop sets to what it draws on the host, or to the next one of a queue or an iterator."""
    return {
        target.id
        for node in nodes_in(loop)
        if isinstance(node, ast.Assign) and any(map(_draws, ast.walk(node.value)))
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _draws(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "next"
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in _DRAWING:
        return ast.unparse(node.func.value) in ("random", "np.random", "numpy.random", "rng", "self.rng")
    key = node.args[0] if node.args else None
    is_place = key is None or (isinstance(key, ast.Constant) and isinstance(key.value, int))
    return node.func.attr in ("popleft", "get_nowait") or (node.func.attr == "pop" and is_place and not node.keywords)


@lru_cache(maxsize=256)
def _counted_by(owner: ast.ClassDef) -> frozenset[str]:
    """The attributes, as written, that methods of a class count on: `self.position` of `self.position += 1`."""
    return frozenset(
        ast.unparse(node.target)
        for method in owner.body
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__"
        for node in nodes_in(method)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute)
    )


def reached(node: ast.expr, scope: ast.AST) -> set[str]:
    """The variables in an expression, and those that their values are computed from."""
    return _closure(_read_in(node, scope), _assigned_from(scope))


def _closure(names: set[str], assigned: dict[str, set[str]]) -> set[str]:
    """`names` and all that `assigned` says they are computed from."""
    found: set[str] = set()
    pending = set(names)
    while pending:
        name = pending.pop()
        found.add(name)
        pending |= assigned.get(name, set()) - found
    return found


@lru_cache(maxsize=256)
def _assigned_from(scope: ast.AST) -> dict[str, set[str]]:
    """By variable, the names in what is assigned to it."""
    found: dict[str, set[str]] = {}
    for node in nodes_in(scope):
        if isinstance(node, ast.Assign):
            names = _read_in(node.value, scope)
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, set()).update(names)
    return found


def _read_in(node: ast.expr, scope: ast.AST) -> set[str]:
    """The variables in an expression, but for groups of an optimizer of which a setting is read."""
    settings = {id(part.value) for part in ast.walk(node) if _is_setting(part, scope)}
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and id(part) not in settings}


def _is_setting(node: ast.AST, scope: ast.AST) -> TypeGuard[ast.Subscript]:
    """Whether an expression reads a setting of a group of parameters (`group["betas"]`): few groups, few values."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return False
    key = node.slice.value if isinstance(node.slice, ast.Constant) else None
    groups, stored = _groups_of_optimizer(scope)
    return isinstance(key, str) and key != "params" and node.value.id in groups and key not in stored


@lru_cache(maxsize=256)
def _groups_of_optimizer(scope: ast.AST) -> tuple[set[str], set[str]]:
    """The variables that hold groups of an optimizer's parameters, and the keys of them that the code sets.

    They are what `torch.optim.Optimizer.param_groups` lists, and dicts whose `"params"` are read.
    """
    groups = {name for loop in _loops_in(scope) if _is_over_groups(loop) for name in _names_in(loop.target)}
    stored: set[str] = set()
    for node in nodes_in(scope):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if isinstance(node.value, ast.Name) and node.slice.value == "params":
                groups.add(node.value.id)
            elif isinstance(node.ctx, ast.Store):
                stored.add(str(node.slice.value))
    return groups, stored


def _is_over_groups(loop: _Loop) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "param_groups" for part in ast.walk(loop.iter))


def passed(name: str, frame: Frame) -> ast.expr | None:
    """The expression that the caller of `frame` passes for a parameter, where it stands in the call."""
    return argument_at(frame.site, frame.ref, name)


def argument_at(site: ast.AST | None, ref: FunctionRef, name: str) -> ast.expr | None:
    """The expression for a parameter of `ref` in a call of it."""
    if not isinstance(site, ast.Call):
        return None
    for keyword in site.keywords:
        if keyword.arg == name:
            return keyword.value
    arguments = ref.node.args
    given = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    shift = 1 if ref.owner is not None and given[:1] in (["self"], ["cls"]) else 0
    position = given.index(name) - shift if name in given else -1
    return site.args[position] if 0 <= position < len(site.args) else None


@lru_cache(maxsize=256)
def loop_variables(scope: ast.AST) -> set[str]:
    """The variables of loops, but not of those over a few values that are written down."""
    return {name for loop in _loops_in(scope) if not _is_over_few(loop) for name in _names_in(loop.target)}


@lru_cache(maxsize=256)
def _few_but_more_than_two(scope: ast.AST) -> frozenset[str]:
    """The variables of loops over a few different values that are written down, but more than two."""
    return frozenset(
        name
        for loop in _loops_in(scope)
        if _is_over_few(loop) and len(_written_down(loop)) > TWO_SIDES
        for name in _names_in(loop.target)
    )


def _is_over_few(loop: _Loop) -> bool:
    return isinstance(loop.iter, (ast.Tuple, ast.List)) and len(loop.iter.elts) <= FEW


def _written_down(loop: _Loop) -> set[str]:
    return {ast.unparse(value) for value in loop.iter.elts} if isinstance(loop.iter, (ast.Tuple, ast.List)) else set()


_Loop = ast.For | ast.AsyncFor | ast.comprehension


def _loops_in(scope: ast.AST) -> Iterator[_Loop]:
    return (node for node in nodes_in(scope) if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)))


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def lasts(argument: ast.expr, call: ast.Call, frame: Frame) -> bool:
    """Whether the call is given the same object each time: a variable that the loop around it does not bind."""
    if not isinstance(argument, ast.Name):
        return False
    looped = any(True for _ in _loops_around(call, frame.tree))
    return looped and not is_bound_around(argument.id, call, frame)


def is_bound(name: str, frame: Frame) -> bool:
    """Whether the function that `frame` runs binds a variable."""
    return name in _stored_in(frame.tree)


def is_bound_around(name: str, call: ast.Call, frame: Frame) -> bool:
    """Whether a loop around the call binds a variable to something else on each turn."""
    return any(name in _stored_in(loop) for loop in _loops_around(call, frame.tree))


def _stored_in(scope: ast.AST) -> set[str]:
    return {part.id for part in nodes_in(scope) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _loops_around(call: ast.AST, scope: ast.AST) -> Iterator[ast.For | ast.While]:
    for loop in nodes_in(scope):
        if isinstance(loop, (ast.For, ast.While)) and any(call in nodes_in(part) for part in loop.body):
            yield loop
