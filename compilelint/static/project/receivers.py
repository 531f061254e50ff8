"""What methods do to their receiver, as their text tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from compilelint.record import record
from compilelint.static.project.bodies import with_body
from compilelint.static.project.definitions import ClassAttribute, ClassRef, FunctionRef
from compilelint.static.project.index import Scope
from compilelint.static.project.program import Program
from compilelint.static.project.syntax import walked_nodes

_CHANGING = frozenset(
    (
        "append appendleft extend extendleft insert add update pop popleft popitem clear remove discard setdefault sort"
        " reverse rotate intersection_update difference_update symmetric_difference_update __setitem__ __delitem__"
    ).split()
)
"""Methods that leave another list, dict or set where one is kept."""
_REGISTERING = {"register_buffer": False, "register_parameter": False, "add_module": True, "register_module": True}
"""Methods of torch modules that set the attribute they are told, and whether to a module."""
_FAR = frozenset("compile register_forward_hook register_forward_pre_hook __dict__ __setattr__ setattr".split())
"""What may be seen elsewhere, or sets what no text names."""
_PLAIN = frozenset("dict list set tuple frozenset str int float bool bytes len range sorted".split())
"""Types and functions that give no module."""


def may_set(
    node: ast.stmt, function: FunctionRef, ref: ClassRef, program: Program
) -> tuple[frozenset[str], frozenset[str]] | None:
    """The attributes that a statement of a method may set, its receiver being of class `ref`, through methods too.

    And those of them that may become modules. None if it may do more to the receiver, or more that is seen elsewhere.
    """
    names: set[str] = set()
    modules: set[str] = set()
    seen: set[FunctionRef] = set()
    waiting: list[tuple[_Effects, FunctionRef]] = [(_effects(node, receiver_of(function.node)), function)]
    while waiting:
        effects, function = waiting.pop()
        if effects.far:
            return None
        names |= effects.sets
        modules |= effects.modules
        modules.update(name for name, call in effects.made_by if not _gives_no_module(call, ref, program))
        for called in _called(effects, function, ref, program):
            if called not in seen and receiver_of(called.node):
                seen.add(called)
                program.note(called.module, "body", line=called.node.lineno)
                waiting.append((_of_function(called.node), called))
    return frozenset(names), frozenset(modules)


def sets_itself(node: ast.stmt, receiver: str) -> frozenset[str]:
    """The attributes of the receiver that a statement sets, without those that methods set."""
    return frozenset(_effects(node, receiver).sets)


def receiver_of(function: Scope) -> str:
    """The first parameter of a function; "" where it has none."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    return arguments[0].arg if arguments else ""


def starts_with(node: ast.expr, receiver: str) -> bool:
    """Whether an expression is an attribute of the receiver, or of what that holds."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id == receiver


def own_name(node: ast.AST, receiver: str) -> str:
    """The name of the attribute of the receiver that an expression is; "" for any other."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == receiver
    return node.attr if own and isinstance(node, ast.Attribute) else ""


@record(slots=True, eq=False)
class _Effects:
    """What the text of some code says that it does to its receiver."""

    sets: set[str]
    """The attributes it sets."""
    modules: set[str]
    """Those of them that may become modules."""
    made_by: list[tuple[str, ast.Call]]
    """Those that become what a method gives, with the call: `self.a = self.make()`."""
    own: set[str]
    above: set[str]
    """The methods it calls, of its own and by `super()`."""
    handed: list[ast.expr]
    """The functions that are given the receiver first."""
    far: bool = False


@lru_cache(maxsize=16384)
def _of_function(node: Scope) -> _Effects:
    return _read(with_body(node), receiver_of(node))


@lru_cache(maxsize=16384)
def _effects(node: ast.AST, receiver: str) -> _Effects:
    return _read(node, receiver)


def _read(node: ast.AST, receiver: str) -> _Effects:
    effects = _Effects(set(), set(), [], set(), set(), [])
    for part in walked_nodes(node):
        if isinstance(part, ast.Attribute):
            effects.far = effects.far or (part.attr in _FAR and ast.unparse(part.value) != "re")
            if own_name(part, receiver):
                (effects.own if isinstance(part.ctx, ast.Load) else effects.sets).add(part.attr)
        elif isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
            effects.sets.update(filter(None, [own_name(part.value, receiver)]))
        elif isinstance(part, ast.Call):
            _call(part, receiver, effects)
        elif isinstance(part, ast.Assign):
            for target in part.targets:
                _assign(target, part.value, receiver, effects)
        elif isinstance(part, ast.AnnAssign) and part.value is not None:
            _assign(part.target, part.value, receiver, effects)
        elif isinstance(part, (ast.For, ast.withitem)):
            bound = part.target if isinstance(part, ast.For) else part.optional_vars
            effects.modules.update(_own_names(bound, receiver) if bound is not None else ())
    return effects


def _own_names(target: ast.AST, receiver: str) -> Iterator[str]:
    """The attributes of the receiver that are set where something is unpacked into a target."""
    for part in walked_nodes(target):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and own_name(part, receiver):
            yield part.attr


def _assign(target: ast.expr, value: ast.expr, receiver: str, effects: _Effects) -> None:
    name = own_name(target, receiver)
    if not name:
        effects.modules.update(_own_names(target, receiver))
    elif isinstance(value, ast.Call) and starts_with(value.func, receiver):
        effects.made_by.append((name, value))
    elif _may_be_module(value):
        effects.modules.add(name)


def _may_be_module(value: ast.expr) -> bool:
    if isinstance(value, ast.IfExp):
        return _may_be_module(value.body) or _may_be_module(value.orelse)
    if isinstance(value, ast.BoolOp):
        return any(map(_may_be_module, value.values))
    if isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute):
            return bool(value.args) or value.func.attr != "copy"
        return not (isinstance(value.func, ast.Name) and value.func.id in _PLAIN)
    return isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.NamedExpr, ast.Await))


def _call(node: ast.Call, receiver: str, effects: _Effects) -> None:
    function, first = node.func, node.args[0] if node.args else None
    given = (first, *[keyword.value for keyword in node.keywords])
    takes_it = any(isinstance(value, ast.Name) and value.id == receiver for value in given)
    if isinstance(function, ast.Name) and function.id in ("setattr", "delattr"):
        if takes_it:
            _set(node.args[1] if len(node.args) > 1 else None, True, effects)
    elif own_name(function, receiver) in _REGISTERING:
        _set(first, _REGISTERING[own_name(function, receiver)], effects)
    elif isinstance(function, ast.Attribute) and function.attr in _CHANGING and own_name(function.value, receiver):
        effects.sets.add(own_name(function.value, receiver))
    elif isinstance(function, ast.Attribute) and _is_super(function.value):
        effects.above.add(function.attr)
    elif takes_it:
        effects.handed.append(function)


def _set(name: ast.expr | None, may_be_module: bool, effects: _Effects) -> None:
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        effects.far = True
        return
    effects.sets.add(name.value)
    if may_be_module:
        effects.modules.add(name.value)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _called(effects: _Effects, function: FunctionRef, ref: ClassRef, program: Program) -> Iterator[FunctionRef]:
    """The functions that get the receiver first, where `function` has these effects on an object of class `ref`."""
    found: list[object] = [program.method(ref, name) for name in sorted(effects.own)]
    if function.owner is not None:
        found += [program.method(ref, name, function.owner) for name in sorted(effects.above)]
    home = program.module(function.module)
    found += [program.dotted(node, home) for node in effects.handed] if home is not None else []
    return (called for called in found if isinstance(called, FunctionRef))


def _gives_no_module(call: ast.Call, ref: ClassRef, program: Program) -> bool:
    """Whether the method that is called is annotated to give something else than a torch module.

    It is one of the receiver, or of a class that the receiver's class keeps: `self.maker_class.make()`.
    """
    made: object = ref
    for name in ast.unparse(call.func).split(".")[1:]:
        made = program.method(made, name) if isinstance(made, ClassRef) else None
        home = program.module(made.owner.module) if isinstance(made, ClassAttribute) else None
        if isinstance(made, ClassAttribute) and made.value is not None and home is not None:
            made = program.dotted(made.value, home)
    if isinstance(made, ClassRef):
        return not program.is_module(made)
    module = program.module(made.module) if isinstance(made, FunctionRef) else None
    returned = getattr(made.node, "returns", None) if isinstance(made, FunctionRef) else None
    if module is None or returned is None:
        return False
    text = returned.value if isinstance(returned, ast.Constant) else ast.unparse(returned)
    name = str(text).partition("[")[0]
    given = program.resolve(module, name) if name.isidentifier() else None
    return name in _PLAIN or name == "None" or (isinstance(given, ClassRef) and not program.is_module(given))
