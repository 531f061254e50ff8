"""Questions that several rules ask about tensors: is this one, what decides on it, who reads it back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from compilelint.model import Confidence
from compilelint.rule import View
from compilelint.static.facts.questions import assigned_once, comes_from_outside, stored_names
from compilelint.static.values import (
    Array,
    Const,
    External,
    Method,
    Scalar,
    Sequence,
    Tensor,
    Value,
    join_all,
    options,
    tensor_certainty,
)

Site = ast.If | ast.While | ast.IfExp | ast.Assert | ast.comprehension | ast.match_case | ast.BoolOp | ast.UnaryOp
TIME_STEP = re.compile(r"(?:(?:cur|current|prev|previous|next|last)_?)?(?:t|timestep|time_step)")
RANDOM = ("torch.rand", "torch.bernoulli", "torch.normal", "torch.empty", "torch.Tensor.uniform_")


def data(value: Value) -> Confidence | None:
    """How sure it is that `value` lives in the graph; None if nothing says so.

    A numpy array, or numpy scalar, is traced as a tensor (torch.compiler FAQ, "Does NumPy work with torch.compile?").
    """
    certainty = tensor_certainty(value)
    if certainty is None and any(isinstance(option, Array) for option in options(value)):
        return "likely"
    return certainty


@lru_cache(maxsize=1)  # several rules ask, one after the other
def decided(node: ast.expr, view: View) -> Confidence | None:
    """How sure it is that Python's decision on `node`, an expression it tests, is a decision on graph data."""
    operands = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    if any(is_plain(operand, view) for operand in operands):
        return None
    sure = data(view.kind(node))
    if sure == "likely" and drawn_at_random(node, view, ("numpy.random.",)):
        return None  # the draw itself ends the graph, and what it gives is a Python number then
    if sure == "likely" and isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in _called(view.function):
        return None  # `if self.act: h = self.act(h)`: what is called is no tensor
    if sure is not None or not isinstance(node, ast.Compare) or len(node.ops) == 1:
        return sure
    for left, op, right in zip(operands, node.ops, operands[1:], strict=False):
        if not isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            sure = sure or data(view.kind(left)) or data(view.kind(right))
    return sure


@lru_cache(maxsize=64)
def _called(function: ast.AST) -> frozenset[str]:
    """What a function calls by a name or attribute, as written: `{"self.act", "norm"}`."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return frozenset(ast.unparse(call.func) for call in calls if isinstance(call.func, (ast.Name, ast.Attribute)))


def is_plain(node: ast.expr, view: View) -> bool:
    """None or a string, which no tensor equals: Dynamo answers such a comparison while tracing."""
    value = view.kind(node)
    return isinstance(value, (Const, Scalar)) and value.type in ("str", "NoneType")


def scalar_tensor(value: Value) -> Confidence | None:
    """How sure it is that `value` is a tensor without dimensions, which Python may use as a number."""
    if not all(option.rank == 0 for option in options(value) if isinstance(option, (Tensor, Array))):
        return None
    return data(value)


def element_of_array(node: ast.expr, view: View) -> bool:
    """Whether `node` is one number out of a numpy array, by index or in a loop over it: to Dynamo it is a tensor."""
    if isinstance(node, ast.Name):
        sources = _looped_over(view.function).get(node.id, ())
        return is_array(node, view) and any(is_array(source, view) for source in sources)
    return isinstance(node, ast.Subscript) and is_array(node.value, view)


def kept_number(node: ast.expr, view: View, asked: frozenset[str] = frozenset()) -> bool:
    """Whether `node` is a numpy number that an object, a list or the file keeps, of which Dynamo makes a constant where
    a size is wanted; one that is computed while it traces is a tensor.

    `asked` are the variables of which that is being asked already: two may be set to each other in a loop.
    """
    if not is_array(node, view) or element_of_array(node, view):
        return False
    if isinstance(node, ast.Name) and node.id not in _looped_over(view.function):
        made = assigned_once(view.function, node.id)
        if made is None:
            return node.id not in stored_names(view.function)
        return node.id not in asked and kept_number(made, view, asked | {node.id})
    return isinstance(node, (ast.Attribute, ast.Name, ast.Subscript))


def is_array(node: ast.expr, view: View) -> bool:
    """Whether what is known of `node` speaks for an array, and nothing for a tensor."""
    found = options(view.kind(node))
    return any(isinstance(o, Array) for o in found) and not any(isinstance(o, Tensor) for o in found)


def decided_by(node: ast.expr, view: View) -> str:
    """What a decision is made on, in words."""
    return "a NumPy value, which Dynamo holds as a tensor" if is_array(node, view) else "a tensor's value"


def python_number(node: ast.expr) -> str:
    """What to write in place of a number that numpy makes, and Dynamo carries as a tensor. Measured on torch 2.13."""
    if any(ast.unparse(part).endswith(".prod") for part in ast.walk(node) if isinstance(part, ast.Attribute)):
        return "use `math.prod`, which gives a Python number"
    return (
        "make it a Python number where it is made, outside of the compiled code (`int(...)`), or compute it with `math`"
    )


@lru_cache(maxsize=64)
def _looped_over(function: ast.AST) -> dict[str, tuple[ast.expr, ...]]:
    """By variable of a loop, what the loop goes through; of `zip` and `enumerate` the part that gives the variable."""
    found: dict[str, tuple[ast.expr, ...]] = {}
    for loop in ast.walk(function):
        if isinstance(loop, (ast.For, ast.comprehension)):
            for name, source in _sources(loop.target, loop.iter):
                found[name] = (*found.get(name, ()), source)
    return found


def _sources(target: ast.expr, source: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    called = source.func.id if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) else ""
    if isinstance(target, ast.Name):
        yield target.id, source
    elif isinstance(target, ast.Tuple) and isinstance(source, ast.Call) and called in ("zip", "enumerate"):
        parts = source.args if called == "zip" else [source, *source.args[:1]]
        for inner, part in zip(target.elts, parts, strict=False):
            yield from _sources(inner, part)


def is_time_step(index: ast.expr, view: View) -> bool:
    """Whether `index` is a variable that stands for one step of a schedule: a tensor, if it is one, without dimensions.

    A name such as `timestep` says so, and for a bare `t`, which is a batch of steps as often, that Python asks for the
    truth of a comparison with it or with what is computed from it (`prev = t - stride`; `prev >= 0`).
    """
    if not isinstance(index, ast.Name) or not TIME_STEP.fullmatch(index.id):
        return False
    names = {index.id}
    for node in ast.walk(view.function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and _mentions(node.value, index.id):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return index.id != "t" or any(
        isinstance(node, (ast.If, ast.IfExp, ast.While))
        and isinstance(node.test, ast.Compare)
        and any(isinstance(side, ast.Name) and side.id in names for side in (node.test.left, *node.test.comparators))
        for node in ast.walk(view.function)
    )


def written_constant(node: ast.expr, view: View, asked: frozenset[str] = frozenset()) -> bool:
    """A tensor made of Python numbers alone, `torch.tensor(3)` or `torch.div(n, 2) - 1`: Dynamo keeps its value.

    Also through variables that are assigned once, but not from themselves (`n = n // 2`) or from what is made of them:
    `asked` are those of which that is being asked already.
    """
    made: ast.expr | None = node
    if isinstance(node, ast.Name):
        asked |= {node.id}
        made = assigned_once(view.function, node.id)
    if made is None or any(_mentions(made, name) for name in asked):
        return False
    if isinstance(made, (ast.BinOp, ast.Compare)):
        sides = (made.left, made.right) if isinstance(made, ast.BinOp) else (made.left, *made.comparators)
        return all(written_constant(side, view, asked) or is_number(side, view) for side in sides)
    if not isinstance(made, ast.Call) or not view.callee(made).startswith("torch.") or not made.args:
        return False
    if isinstance(made.func, ast.Attribute) and view.callee(made).startswith("torch.Tensor."):
        return written_constant(made.func.value, view, asked)
    return not isinstance(view.kind(made.args[0]), Tensor) and all(is_number(part, view) for part in made.args)


def int_from_outside(node: ast.expr, view: View) -> bool:
    """A single int on the CPU that the region is handed or finds: where torch wants a number, Dynamo has its value.

    A buffer is none: it is on the GPU when the model is.
    """
    value = view.kind(node)
    of_host = isinstance(value, Tensor) and value.host and value.rank == 0 and value.element == "int"
    if of_host and isinstance(node, ast.Name) and view.handed_in(node.id):
        return True
    return of_host and comes_from_outside(view, node)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def is_number(node: ast.expr, view: View) -> bool:
    """A Python number that Dynamo knows while tracing: a constant, a size, an argument."""
    value = view.kind(node)
    return isinstance(value, Const) or (isinstance(value, Scalar) and value.origin != "tensor")


def gated_by_dtype(node: ast.expr, view: View) -> bool:
    """Whether `node` is not reached for float32: `x.dtype == torch.float16 and not x.isfinite().all()`.

    The other way round, `torch.isnan(x).any() and x.dtype == torch.float16`, it is asked first.
    """
    child: ast.AST = node
    for parent in view.parents(node):
        gates: list[ast.expr] = []
        if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And) and isinstance(child, ast.expr):
            gates = parent.values[: parent.values.index(child)]
        elif isinstance(parent, ast.If) and child in parent.body:
            gates = [parent.test]
        if any(_keeps_float32_out(part) for gate in gates for part in ast.walk(gate)):
            return True
        child = parent
    return False


def _keeps_float32_out(test: ast.AST) -> bool:
    """Whether a test on an element type, as far as it can be read, fails for the type that models have by default."""
    if not isinstance(test, ast.Compare) or not any(
        isinstance(part, ast.Attribute) and part.attr == "dtype" for part in ast.walk(test)
    ):
        return False
    named = {part.attr for part in ast.walk(test) if isinstance(part, ast.Attribute)}
    names_float32 = bool(named & {"float32", "float", "get_default_dtype"})
    return names_float32 == isinstance(test.ops[0], (ast.NotEq, ast.IsNot, ast.NotIn))


def tensors_within(value: Value) -> Confidence | None:
    """How sure it is that iterating over `value` gives tensors."""
    sure = data(value)
    for option in options(value):
        if isinstance(option, Sequence):
            items = option.items if option.items is not None else (option.element,)
            sure = sure or next((found for item in items if (found := data(item))), None)
    return sure


def mapped(call: ast.Call, view: View) -> tuple[str, Confidence] | None:
    """Of `map(function, items)` over tensors the dotted name of an outside function, and how sure the tensors are."""
    if view.callee(call) != "builtins.map" or len(call.args) != 2:
        return None
    function, confidence = view.kind(call.args[0]), tensors_within(view.kind(call.args[1]))
    return (function.name, confidence) if isinstance(function, External) and confidence is not None else None


def called_on(call: ast.Call, name: str, view: View) -> Value | None:
    """Of what a call without arguments calls the method `name`, however it is spelled; None if it calls another one.

    `t.item()`, `read()` behind `read = t.item`, `getattr(t, "item")()`, `torch.Tensor.item(t)`.
    """
    if call.keywords or len(call.args) > 1:
        return None
    if view.kind(call.func) == External(f"torch.Tensor.{name}"):
        return view.kind(call.args[0]) if call.args else None
    if call.args:
        return None
    if isinstance(call.func, ast.Attribute) and call.func.attr == name:
        return view.kind(call.func.value)
    bound = [option for option in options(view.kind(call.func)) if isinstance(option, Method) and option.name == name]
    return join_all(option.receiver for option in bound) if bound else None


def site_of(node: ast.expr, view: View) -> tuple[Site | None, bool]:
    """What decides on the test `node`, and whether a `not` stands between.

    An `and`, `or` or `not` whose result is kept, not branched on, is a site itself.
    """
    site: Site | None = None
    negated = False
    child: ast.AST = node
    for parent in view.parents(node):
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            negated, site = True, parent
        elif isinstance(parent, ast.BoolOp):
            site = parent
        elif isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            return (parent, negated) if parent.test is child else (site, negated)
        elif isinstance(parent, ast.comprehension):
            return (parent, negated) if child in parent.ifs else (site, negated)
        elif isinstance(parent, (ast.match_case, ast.MatchValue)):
            return (parent if isinstance(parent, ast.match_case) else enclosing_case(parent, view)), negated
        else:
            break
        child = parent
    return site, negated


def enclosing_case(node: ast.AST, view: View) -> ast.match_case | None:
    """The `case` around a pattern."""
    return next((parent for parent in view.parents(node) if isinstance(parent, ast.match_case)), None)


def drawn_at_random(node: ast.expr, view: View, by: tuple[str, ...] = RANDOM) -> bool:
    """Whether `node` has a number in it that these functions draw: `torch.rand([]) < p`, also through one variable."""
    for part in ast.walk(node):
        made = assigned_once(view.function, part.id) if isinstance(part, ast.Name) else part
        if isinstance(made, ast.Call) and view.callee(made).startswith(by):
            return True
    return False


def on_error_path(node: ast.AST, view: View) -> bool:
    """Whether `node` runs only when something is wrong already: in or before a `raise`, or in an assert's message."""
    child: ast.AST = node
    for parent in view.parents(node):
        if isinstance(parent, ast.Raise) or (isinstance(parent, ast.Assert) and parent.msg is child):
            return True
        if any(child in block and isinstance(block[-1], ast.Raise) for block in _blocks(parent) if block):
            return True
        child = parent
    return False


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    if isinstance(node, ast.If):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.ExceptHandler):
        yield node.body


SUBSCRIPTING = (ast.Subscript, ast.Assign, ast.AugAssign, ast.Delete)
"""The nodes to watch for every subscript, read or written."""


def subscripts(node: ast.AST) -> Iterator[ast.Subscript]:
    """The subscript that is read at `node`, or those that the statement writes, updates or deletes."""
    if isinstance(node, ast.Subscript):
        yield node
    elif isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            yield from subscripts(item)
    elif isinstance(node, (ast.Assign, ast.Delete)):
        for target in node.targets:
            yield from subscripts(target)
    elif isinstance(node, ast.AugAssign):
        yield from subscripts(node.target)


def indices(node: ast.Subscript) -> list[ast.expr]:
    """What stands between the brackets, one entry per comma-separated part."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
