"""Loops around a model that run it turn by turn: token after token, or one denoising step after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from compilelint.static.project.compiled_names import called_name, compiled_names, is_compiled, namesakes
from compilelint.static.project.contents import speaks_of_compile
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.project.index import ModuleIndex
from compilelint.static.project.syntax import nodes_in, statements_in

_MODEL_WORDS = ("model", "net", "decoder", "unet", "transformer", "denoise", "denoiser", "lm", "policy", "step")
_CALL_WORDS = frozenset("fn func forward infer call apply predict".split())
_MODEL_VERBS = frozenset(
    "get load save build make create set update init wrap prepare register is has move compile export train"
    " decay reduce adjust".split()
)
"""First words of functions that do something to a model other than calling it."""
_NO_DECODING = frozenset("train training validate validation eval evaluate evaluation test".split())
"""Words in the names of steps that are none of a decode loop."""
_NO_STEP = _MODEL_VERBS | _NO_DECODING | frozenset("generate sample benchmark profile measure run main loss".split())
"""Words in the names of functions that are given a model and do more than one step with it, or none."""
_TRAINING_WORDS = frozenset({"backward", "zero_grad"})
_CONVERTING = frozenset("load convert conversion quantize quant measure calibrate calibration export".split())
"""Words in the names of files, and first words of functions, that go through a model once, layer by layer."""


def decode_loops(ref: FunctionRef, module: ModuleIndex) -> list[ast.For | ast.While]:
    """Loops that call a model each turn and feed it what an earlier turn produced.

    A loop over a data loader feeds nothing back, and one with `backward()` trains: neither is a decode loop.
    One inside a `forward` is compiled with it: what reads a tensor back there breaks the graph first.
    """
    if isinstance(ref.node, ast.Lambda) or (ref.owner is not None and ref.node.name == "forward"):
        return []
    loops = [node for node in statements_in(ref.node) if isinstance(node, (ast.For, ast.While))]
    if not loops:
        return []
    steps = _steps(module.tree) if speaks_of_compile(module) else frozenset()
    stateful = _stateful_steps(module.tree) if steps else frozenset()
    others = namesakes(module.tree).get(ref.node, frozenset()) if steps else frozenset()
    return [loop for loop in loops if _decodes(loop, steps, stateful, others)]


def converts(ref: FunctionRef, module: ModuleIndex) -> bool:
    """Whether a function loads, converts or quantizes a model: its loops run each layer once, and decode nothing."""
    words = {word for part in module.name.split(".") for word in part.lower().split("_")}
    first = "" if isinstance(ref.node, ast.Lambda) else ref.node.name.lstrip("_").partition("_")[0]
    return bool((words | {first}) & _CONVERTING)


def each_turn(loop: ast.For | ast.While) -> Iterator[ast.AST]:
    """What a loop runs on each turn: what a `for` iterates over and an `else` behind the loop run once."""
    for part in (loop.test, *loop.body) if isinstance(loop, ast.While) else loop.body:
        yield from nodes_in(part)


def _decodes(
    loop: ast.For | ast.While, steps: frozenset[str], stateful: frozenset[str], others: frozenset[str]
) -> bool:
    nodes = [node for statement in loop.body for node in nodes_in(statement)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if any(_trains(call) for call in calls):
        return False
    turn = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)} if isinstance(loop, ast.For) else set()
    return any(
        called_name(call.func) in stateful
        or ((_is_step(call.func, steps, others) or _names_model(call)) and _feeds_back(call, nodes, turn))
        for call in calls
    )


def _is_step(function: ast.expr, steps: frozenset[str], others: frozenset[str]) -> bool:
    name = called_name(function)
    return name in steps and not (isinstance(function, ast.Name) and name in others)


def _trains(call: ast.Call) -> bool:
    """`loss.backward()`, `optimizer.zero_grad()`, and `self.optim.step(loss)`."""
    if not isinstance(call.func, ast.Attribute):
        return False
    steps = call.func.attr == "step" and "optim" in ast.unparse(call.func.value).lower()
    return steps or call.func.attr in _TRAINING_WORDS


@cache
def _steps(tree: ast.Module) -> frozenset[str]:
    """Names that a file gives to what it compiles, and its functions that take one step by calling that."""
    return (compiled_names(tree) | {function.name for function, _ in _callers_of_compiled(tree)}) - _NO_NAMES


@cache
def _stateful_steps(tree: ast.Module) -> frozenset[str]:
    """Those of `_steps` that keep what the model gave in an attribute and pass it to the model when they run again."""
    return frozenset(
        function.name
        for function, call in _callers_of_compiled(tree)
        if _attributes_in(call) & _attributes_set_from(call, function)
    ).difference(_NO_NAMES)


_NO_NAMES = frozenset({"", "forward", "__init__", "__call__"})


def _callers_of_compiled(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.Call]]:
    """The functions that take one step by calling what the file compiles, with each such call."""
    for function in statements_in(tree) if compiled_names(tree) else ():
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if _NO_STEP & set(function.name.lower().split("_")):
                continue
            for node in nodes_in(function):
                if isinstance(node, ast.Call) and is_compiled(node.func, function, tree):
                    yield function, node


def _attributes_in(call: ast.Call) -> set[str]:
    """The attributes of `self` that a call is given."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return {name for argument in arguments for node in nodes_in(argument) if (name := _attribute_of_self(node))}


def _attributes_set_from(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The attributes of `self` that a function sets to something that hangs on what a call in it gives."""
    nodes = nodes_in(function)
    carried = _carried(call, [flow for node in nodes if (flow := _flow(node)) is not None]) - {"self"}
    return {
        name
        for node in nodes
        if isinstance(node, ast.Assign) and (call in nodes_in(node.value) or _names_in(node.value) & carried)
        for target in node.targets
        for part in nodes_in(target)
        if (name := _attribute_of_self(part))
    }


def _attribute_of_self(node: ast.AST) -> str:
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return ""
    return node.attr if node.value.id == "self" else ""


def _names_model(call: ast.Call) -> bool:
    """Whether a call's name, or that of its first argument, is what people call a model or a compiled step."""
    func = call.func
    if call.args and isinstance(call.args[0], ast.Name) and call.args[0].id.split("_")[-1] == "model":
        words = set(func.id.lower().split("_")) if isinstance(func, ast.Name) else _NO_STEP
        return bool(words & {"next", "step", "one"} or not words & _NO_STEP)  # `decode_one_token(model, token)`
    if isinstance(func, ast.Name):
        return func.id == "self" or _is_model_word(func.id)
    if isinstance(func, ast.Attribute):
        if func.attr in ("forward", "__call__"):
            return True
        if func.attr == "step":  # `optimizer.step()`, `scheduler.step(…)`, `env.step(…)` are others'
            return isinstance(func.value, ast.Name) and func.value.id == "self"
        return _is_model_word(func.attr) and isinstance(func.value, (ast.Name, ast.Attribute))
    return False


def _is_model_word(name: str) -> bool:
    """`model`, `draft_model`, `model_fn`, `decode_step`; not `load_model`, nor `model_parameters`."""
    parts = name.lower().strip("_").split("_")
    if parts[0] in _MODEL_VERBS or _NO_DECODING.intersection(parts):
        return False
    return parts[-1] in _MODEL_WORDS or (parts[0] in _MODEL_WORDS and parts[-1] in _CALL_WORDS)


def _feeds_back(call: ast.Call, nodes: list[ast.AST], turn: set[str]) -> bool:
    """Whether an argument of a model's call hangs on what the call gave on an earlier turn.

    `nodes` are those of the loop's body, `turn` the names that the loop itself sets anew.
    """
    flows = [flow for node in nodes if (flow := _flow(node)) is not None]
    flows += list(_through_items(nodes))
    carried = _carried(call, flows)
    fresh = {
        name
        for targets, source in flows
        if source.lineno < call.lineno and not _names_in(source) & carried
        for name in targets
    }
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(_names_in(argument) & (carried - turn - fresh) for argument in arguments)


def _carried(call: ast.Call, flows: list[tuple[set[str], ast.expr]]) -> set[str]:
    """The names that hold something of what a call gave."""
    carried = {name for targets, source in flows if call in nodes_in(source) for name in targets}
    while more := {name for targets, source in flows if _names_in(source) & carried for name in targets} - carried:
        carried |= more
    return carried


def _through_items(nodes: list[ast.AST]) -> Iterator[tuple[set[str], ast.expr]]:
    """What a loop over items reads from their container, and writes to it by what it calls on them."""
    called = {name for node in nodes if isinstance(node, ast.Expr) and (flow := _flow(node)) for name in flow[0]}
    for node in nodes:
        if isinstance(node, ast.For):
            items = _written(node.target)
            yield items, node.iter
            if items & called:
                yield _names_in(node.iter), node.target


def _flow(node: ast.AST) -> tuple[set[str], ast.expr] | None:
    """The names a node writes to, and the expression it writes; None if it writes nothing.

    A method that is given something writes to its object: `tokens.append(token)`.
    """
    if isinstance(node, ast.Assign):
        return set().union(*map(_written, node.targets)), node.value
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        return _written(node.target), node.value
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        return _written(node.value.func.value), node.value
    return None


def _written(target: ast.expr) -> set[str]:
    """`tokens` of `tokens[:, position]`, both names of `logits, state`."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return set().union(*map(_written, target.elts))
    if isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        return _written(target.value)
    return {target.id} if isinstance(target, ast.Name) else set()


def _names_in(node: ast.expr) -> set[str]:
    return {inner.id for inner in nodes_in(node) if isinstance(inner, ast.Name)}
