"""Arguments -> parameters, and what a parameter is where no caller tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from compilelint.record import record
from compilelint.static.project.definitions import FunctionRef, class_members
from compilelint.static.project.index import ModuleIndex, Scope
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer.claims import contradicts
from compilelint.static.tracer.ducks import attributes_of, class_by_use
from compilelint.static.tracer.frame import Env
from compilelint.static.values import (
    NONE,
    UNKNOWN,
    Closure,
    Const,
    Function,
    Mapping,
    Scalar,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    as_claimed,
    join,
    join_all,
    options,
)

if TYPE_CHECKING:
    from compilelint.knowledge.table import Table
    from compilelint.static.tracer.tracer import Tracer


def bind_arguments(
    function: Function,
    args: tuple[Value, ...],
    keywords: dict[str, Value],
    traced: bool,
    module: ModuleIndex,
    tracer: Tracer,
) -> Env:
    """The variables a function starts with; `traced` where Dynamo traces it.

    An argument nobody passed has its default; one of unknown kind is taken for what its annotation, or the way the body
    uses it, says.
    """
    scope = function.ref.node
    signature = _signature(scope)
    if function.bound is not None:
        args = (function.bound, *args)
    rest, extra = keywords.get("*"), keywords.get("**")
    env: Env = {}
    for position, parameter in enumerate(signature.parameters):
        name = parameter.arg
        if position < len(args) and position < signature.positional:
            value = args[position]
        elif name in keywords:
            value = keywords[name]
        else:
            carried = rest if position < signature.positional else None
            default = _default(name, signature, function.closure, module, tracer)
            value = _missing(default, carried, extra)
        env[name] = _settled(value, parameter, scope, traced, module, tracer)
    if scope.args.vararg is not None:
        left = args[signature.positional :]
        # What an open list may add behind the known arguments is left out: mostly it adds nothing.
        env[scope.args.vararg.arg] = Sequence("tuple", left) if left or rest is None else Sequence("tuple", None, rest)
    if scope.args.kwarg is not None:
        entries = tuple((key, value) for key, value in keywords.items() if key not in signature.by_keyword)
        env[scope.args.kwarg.arg] = Mapping(entries)
    return env


@record(frozen=True, slots=True)
class _Signature:
    """The parameters of a function but `*args` and `**kwargs`; the first `positional` ones are taken by position."""

    parameters: tuple[ast.arg, ...]
    positional: int
    defaults: dict[str, ast.expr]
    by_keyword: frozenset[str]
    """What `**kwargs` does not get: parameters that have a keyword, and the marks of open argument lists."""


@cache
def _signature(scope: Scope) -> _Signature:
    positional = (*scope.args.posonlyargs, *scope.args.args)
    named = frozenset(p.arg for p in (*scope.args.args, *scope.args.kwonlyargs)) | {"*", "**"}
    return _Signature((*positional, *scope.args.kwonlyargs), len(positional), defaults(scope), named)


def defaults(scope: Scope) -> dict[str, ast.expr]:
    """The defaults of a function's parameters, by name."""
    positional = [*scope.args.posonlyargs, *scope.args.args]
    given = scope.args.defaults
    found = {p.arg: d for p, d in zip(positional[len(positional) - len(given) :], given, strict=True)}
    found.update(
        {p.arg: d for p, d in zip(scope.args.kwonlyargs, scope.args.kw_defaults, strict=True) if d is not None}
    )
    return found


def _default(
    name: str, signature: _Signature, closure: Closure | None, module: ModuleIndex, tracer: Tracer
) -> Value | None:
    """What a parameter is where nothing is passed for it, evaluated where the function was made; None if required."""
    if closure is not None and name in closure.defaults:
        return closure.defaults[name]
    node = signature.defaults.get(name)
    return tracer.default(node, module) if node is not None else None


def _missing(default: Value | None, rest: Value | None, extra: Value | None) -> Value:
    """A parameter no argument was bound to: its default, or whatever an open argument list may have carried."""
    carried = [value for value in (rest, extra) if value is not None]
    if not carried:
        return UNKNOWN if default is None else default
    if default is None:
        return _one_of(join_all(carried))
    return _loosened(default)


def _one_of(carried: Value) -> Value:
    """What one parameter gets of an open list or dict: where not all in it are tensors, that this one is is a guess."""
    kinds = options(carried)
    return carried if len(kinds) == 1 else join_all(as_claimed(kind) for kind in kinds)


def _loosened(default: Value) -> Value:
    """A default that a caller may have overridden: its type is still likely."""
    if isinstance(default, Const) and default.value is not None:
        return Scalar(default.type if default.type in ("bool", "int", "float", "str") else "object", "argument")  # type: ignore[arg-type]
    return join(default, UNKNOWN)


def _settled(
    value: Value, parameter: ast.arg, scope: Scope, traced: bool, module: ModuleIndex, tracer: Tracer
) -> Value:
    """The argument with what the signature, the name and the body add where it is unknown.

    All that is read of the body here, `uses` has to tell.
    """
    if isinstance(value, Const) and value.type in ("int", "float") and value.value not in (0, 1, -1, 0.0, 1.0):
        return Scalar(value.type)  # type: ignore[arg-type]
    if not isinstance(value, (Unknown, Tensor, Union)):
        return value  # known, and no tensor, about which annotations know better
    known = [option for option in options(value) if not isinstance(option, Unknown)]
    declared = tracer.annotation(parameter.annotation, module) if parameter.annotation is not None else UNKNOWN
    known = [option for option in known if not contradicts(option, declared, tracer)]
    if declared == UNKNOWN and (len(known) < len(options(value)) or any(map(_is_guess, known))):
        tracer.guess_by_use(scope, parameter.arg)
    if declared == UNKNOWN and any(map(_is_guess, known)) and parameter.arg in _used_as_number(scope, tracer.table):
        known = [option for option in known if not _is_guess(option)]
        value = join_all([UNKNOWN, *known])
    if len(known) < len(options(value)):
        if declared == UNKNOWN and (
            parameter.arg in tensor_parameters(scope)
            or (traced and parameter.arg in _cut_parameters(scope) - _used_otherwise(scope, tracer.table))
        ):
            declared = Tensor(sure=False)
        elif declared == UNKNOWN:
            declared = class_by_use(parameter.arg, scope, module, tracer)
        if declared != UNKNOWN:
            value = join_all([_beside(known, declared), *known])
    return _mask(value) if parameter.arg.endswith("mask") else value


def _beside(known: Iterable[Value], declared: Value) -> Value:
    """What an annotation adds to the kinds that are known: `ratio: tuple | Tensor = (0.3, 3.3)` is no tensor mostly."""
    if all(option == NONE or isinstance(option, Tensor) for option in known):
        return declared
    return join_all([option for option in options(declared) if not isinstance(option, Tensor)])


def _is_guess(value: Value) -> bool:
    return isinstance(value, Tensor) and not value.sure


def _mask(value: Value) -> Value:
    """A tensor of unknown element type in a parameter that is called a mask is taken for a boolean one."""
    return join_all(
        Tensor("bool", option.rank, False, option.host)
        if isinstance(option, Tensor) and option.element is None
        else option
        for option in options(value)
    )


def takes_tensor(ref: FunctionRef, module: ModuleIndex, tracer: Tracer) -> bool:
    """Whether a parameter is annotated as a tensor, or used as only a tensor can be."""
    if tensor_parameters(ref.node):
        return True
    arguments = ref.node.args
    several = [parameter for parameter in (arguments.vararg, arguments.kwarg) if parameter is not None]
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *several)
    return any(
        isinstance(option, Tensor)
        for parameter in parameters
        if parameter.annotation is not None
        for option in options(tracer.annotation(parameter.annotation, module))
    )


_TENSOR_USES = frozenset(
    (
        "shape size dtype device view reshape permute transpose unsqueeze squeeze expand contiguous flatten dim "
        "ndim masked_fill new_zeros new_ones new_full new_empty new_tensor softmax matmul chunk unbind detach "
        "requires_grad repeat_interleave index_select gather scatter_add_ expand_as type_as numel is_cuda "
        "log_softmax masked_fill_ cumsum argmax topk"
    ).split()
)


@cache
def tensor_parameters(scope: Scope) -> frozenset[str]:
    """Parameters that the body uses as only a tensor can be used (`x.view(…)`, `x.dtype`, `a @ x`)."""
    names = {p.arg for p in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)} - {"self", "cls"}
    found: set[str] = set()
    for node in nodes_in(scope):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _TENSOR_USES:
            found.add(node.value.id)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.update(side.id for side in (node.left, node.right) if isinstance(side, ast.Name))
    return frozenset(found & names)


@cache
def _cut_parameters(scope: Scope) -> frozenset[str]:
    """Parameters of which the body reads a part in several dimensions at once (`grid[:, 0]`, `boxes[..., :2]`).

    Only tensors and arrays have that, and code that Dynamo traces gets tensors.
    """
    names = {p.arg for p in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)} - {"self", "cls"}
    return frozenset(
        node.value.id
        for node in nodes_in(scope)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        and isinstance(node.slice, ast.Tuple)
        and any(isinstance(part, ast.Slice) or _is_ellipsis(part) for part in node.slice.elts)
    )


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


_READ_AS_OTHER = frozenset({"range", "len", "isinstance", "getattr", "hasattr", "enumerate", "zip", "list", "tuple"})


def root_arguments(ref: FunctionRef, bound: bool, table: Table) -> dict[str, Value]:
    """What a region's root is taken to be called with: a tensor for each plain parameter that nothing else speaks for.

    Plain means without annotation and default. Speaking for something else: an attribute that tensors lack, being
    called, tested for truth by itself, compared to text or a size, handed to `range`, or the bound of a slice.
    """
    positional = [*ref.node.args.posonlyargs, *ref.node.args.args][1 if bound else 0 :]
    with_default = set(defaults(ref.node))
    others = _used_otherwise(ref.node, table)
    fed = _fed_to_torch(ref.node)
    if {"H", "W"} <= {p.arg for p in positional}:
        others |= {"H", "W"}  # the height and width of a flattened image: `forward(self, x, H, W)`
    return {
        p.arg: Tensor(sure=False)
        for position, p in enumerate(positional)
        if p.annotation is None
        and p.arg not in with_default
        and p.arg not in others
        and (position == 0 or p.arg in fed)
        and not _NUMBER_NAME.search(p.arg)
    }


def counts(ref: FunctionRef) -> dict[str, Value]:
    """The parameters that a function hands to `range` as they are: Python ints, in code around compiled code."""
    names = {argument.arg for argument in (*ref.node.args.posonlyargs, *ref.node.args.args) if not argument.annotation}
    handed = {
        argument.id
        for node in nodes_in(ref.node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    return {name: Scalar("int", "argument") for name in sorted(names & handed - defaults(ref.node).keys())}


def step_of_schedule(ref: FunctionRef) -> dict[str, Value]:
    """`timestep: int` of a diffusion scheduler, which keeps its steps in a tensor: loops run over that one.

    `for t in scheduler.timesteps: x = scheduler.step(model(x, t), t, x)`: each `t` is a tensor without dimensions.
    """
    if ref.owner is None or "set_timesteps" not in class_members(ref.owner):
        return {}
    return {p.arg: join(Scalar("int", "argument"), Tensor(None, 0)) for p in ref.node.args.args if p.arg == "timestep"}


def uses(ref: FunctionRef, table: Table) -> dict[str, list[str]]:
    """All that the body of a function says about its parameters, to whoever calls it: how it uses each of them."""
    signs: dict[str, frozenset[str] | set[str]] = {
        "as a tensor": tensor_parameters(ref.node),
        "cut": _cut_parameters(ref.node),
        "otherwise": _used_otherwise(ref.node, table),
        "as a number": _used_as_number(ref.node, table),
        "computed with": _fed_to_torch(ref.node),
        "counted to": set(counts(ref)),
    }
    scope = ref.node.args
    parameters = [p.arg for p in (*scope.posonlyargs, *scope.args, *scope.kwonlyargs)]
    found = {name: [sign for sign, names in signs.items() if name in names] for name in parameters}
    attributes = attributes_of(ref.node)
    return {name: [*said, *sorted(attributes.get(name, ()))] for name, said in found.items()}


_NUMBER_NAME = re.compile(
    r"(^|_)(size|sizes|shape|shapes|dims?|dimensions?|height|width|length|len|stride|num|idx|index|rank|gpu|seed|port|mode|name|type|config|cfg|chunk|steps?|start|stop|end|count|epochs?|eps|lr)$"
    r"|^(n|num|use|is|return|output|with|do)_|^[ijn]$"
)
"""How numbers, flags and settings are called."""


def _fed_to_torch(scope: Scope) -> frozenset[str]:
    """Parameters that the body computes with: handed to torch or to a layer, in arithmetic, sliced, or compared.

    What a container is asked for, or compared with by identity, may be anything.
    """
    found = set(tensor_parameters(scope))
    for node in nodes_in(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found.update(a.id for a in node.args if isinstance(a, ast.Name))
            if isinstance(node.func.value, ast.Name):
                found.add(node.func.value.id)
        elif isinstance(node, ast.BinOp):
            found.update(side.id for side in (node.left, node.right) if isinstance(side, ast.Name))
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Name) and isinstance(node.target, ast.Name):
            if any(_reads_as_tensor(inner, node.target.id) for inner in ast.walk(node)):
                found.add(node.iter.id)
        elif isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
            found.update(side.id for side in (node.left, *node.comparators) if isinstance(side, ast.Name))
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            found.add(node.value.id)
    return frozenset(found)


def _reads_as_tensor(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in _TENSOR_USES | {"item", "long", "float"}
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    )


@cache
def _used_as_number(scope: Scope, table: Table) -> frozenset[str]:
    """Parameters that the body uses as no tensor can be used; it may well take the length of one, or loop over it."""
    return frozenset(_other_uses(scope, table, frozenset({"range", "isinstance", "getattr", "hasattr"})))


@cache
def _used_otherwise(scope: Scope, table: Table) -> frozenset[str]:
    return frozenset(_other_uses(scope, table, _READ_AS_OTHER))


def _other_uses(scope: Scope, table: Table, readers: frozenset[str]) -> Iterator[str]:
    """Names used as tensors are not; being handed to one of the builtin `readers` counts as well."""
    for node in nodes_in(scope):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if table.fact(f"torch.Tensor.{node.attr}") is None:
                yield node.value.id
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
                if node.func.id in readers:
                    yield from (a.id for a in node.args if isinstance(a, ast.Name))
                if node.func.id == "range":
                    yield from (name for a in node.args for name in _summands(a))
                if node.func.id in ("min", "max") and any(map(_is_size, node.args)):
                    yield from (name for a in node.args for name in _summands(a))
            yield from (a.value.id for a in node.args if isinstance(a, ast.Starred) and isinstance(a.value, ast.Name))
        elif isinstance(node, ast.Slice):
            yield from (name for bound in (node.lower, node.upper) if bound is not None for name in _summands(bound))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            if any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets):
                yield node.value.id
        elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
            for part in _tested_parts(node.test):
                yield from (side.id for side in _told_as_number(part) if isinstance(side, ast.Name))
        elif isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(isinstance(side, ast.Constant) and isinstance(side.value, (str, bool)) for side in sides):
                yield from (side.id for side in sides if isinstance(side, ast.Name))
            if any(map(_is_size, sides)):
                yield from (name for side in sides for name in _summands(side))


def _told_as_number(part: ast.expr) -> list[ast.expr]:
    """What a test takes for a flag or a number: `x` of `if x:` and of `if x != 1:`."""
    other = part.comparators[0] if isinstance(part, ast.Compare) else None
    if isinstance(part, ast.Compare) and isinstance(other, ast.Constant) and isinstance(other.value, (int, float)):
        return [part.left]
    return [part]


def _is_size(node: ast.expr) -> bool:
    """`x.shape[0]`, `x.size(1)` or `len(x)`: what stands beside it in a comparison is a number."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if not isinstance(node, ast.Call):
        return False
    return getattr(node.func, "attr", "") == "size" or getattr(node.func, "id", "") == "len"


def _summands(node: ast.expr) -> Iterator[str]:
    """The plain names in an arithmetic expression: `start` in `start + 1`."""
    if isinstance(node, ast.BinOp):
        yield from _summands(node.left)
        yield from _summands(node.right)
    elif isinstance(node, ast.Name):
        yield node.id


def _tested_parts(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _tested_parts(value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _tested_parts(node.operand)
    else:
        yield node
