"""Outside functions that call, wrap or decide something: torch.compile, checkpoint, partial, is_compiling."""

from __future__ import annotations

import ast
from collections.abc import Callable

from compilelint.static.tracer import asked, attributes, narrowing
from compilelint.static.tracer.attributes import AUTOGRAD_CONTEXT
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import (
    UNKNOWN,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Mapping,
    Partial,
    Scalar,
    ScalarType,
    Sequence,
    Tensor,
    Value,
    element_of,
    join,
    join_all,
    options,
    without_none,
)

Args = tuple[Value, ...]
Keywords = dict[str, Value]

_DECIDED = {
    "torch.jit.is_scripting": False,
    "torch.jit.is_tracing": False,
    "torch.onnx.is_in_onnx_export": False,
    "torch._C._get_tracing_state": False,
    "torch.overrides.has_torch_function": False,
    "torch.overrides.has_torch_function_unary": False,
    "torch.overrides.has_torch_function_variadic": False,
}
_COMPILING = frozenset(
    {"torch.compiler.is_compiling", "torch._dynamo.is_compiling", "torch.compiler.is_dynamo_compiling"}
)
_COMPILERS = frozenset({"torch.compile", "torch.compiler.compile"})
_BACKEND_FIRST: dict[str, dict[str, Value]] = {
    name: {"fullgraph": Const(fullgraph)}
    for function, fullgraph in (("optimize", False), ("optimize_assert", True))
    for name in (f"torch._dynamo.{function}", f"torch._dynamo.eval_frame.{function}")
}
"""What torch.compile is made of: `optimize("inductor")` takes the function that follows."""
_DISABLES = frozenset(
    {"torch.compiler.disable", "torch._dynamo.disable", "torch._disable_dynamo", "torch._dynamo.skip"}
)
_TRANSPARENT = frozenset(
    {
        "functools.lru_cache", "functools.cache", "contextlib.contextmanager",
        "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.jit.script", "torch.jit.export",
        "torch.jit.ignore", "torch.jit.unused", "abc.abstractmethod", "typing.final", "copy.copy",
        "copy.deepcopy", "torch.compiler.allow_in_graph",
        "torch._dynamo.allow_in_graph", "torch._dynamo.run", "torch.jit.script_if_tracing", "weakref.proxy",
    }
)  # fmt: skip
_CHECKPOINTS = frozenset({"torch.utils.checkpoint.checkpoint", "deepspeed.checkpointing.checkpoint"})
_MAPPED = frozenset({"torch.vmap", "torch.func.vmap", "torch.func.grad", "torch.func.jacrev", "torch.func.jacfwd"})


def call(name: str, args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value | None:
    """The result where `name` is one of these functions, else None."""
    if name in _DECIDED:
        return Const(_DECIDED[name])
    if name in _COMPILING:
        return Const(frame.mode == "compiled")
    if name in _COMPILERS:
        return _compiler(args, keywords, node, frame)
    if name in _BACKEND_FIRST:
        return Partial(External("torch.compile"), (), tuple(_BACKEND_FIRST[name].items()) + _as_of_compile(keywords))
    if name in _DISABLES:
        return _disabled(args[0]) if args else UNKNOWN
    if name in _TRANSPARENT:
        return args[-1] if args else UNKNOWN
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(args, keywords, node, frame)
    if name in _CHECKPOINTS and args:
        return frame.tracer.call(args[0], args[1:], _without(keywords, _CHECKPOINT_OPTIONS), node, frame)
    if name in _MAPPED and args:
        return args[0]
    return None


def _compiler(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`torch.compile(model, …)`; `torch.compile(mode="default")` takes what follows, as a decorator or called."""
    model = args[0] if args else keywords.get("model", Const(None))
    options = _without(keywords, frozenset({"model"}))
    if model == Const(None):
        return Partial(External("torch.compile"), (), tuple((k, v) for k, v in options.items() if k != "**"))
    return frame.tracer.compile_site(model, options, node, frame)


def _as_of_compile(keywords: Keywords) -> tuple[tuple[str, Value], ...]:
    """`nopython=True, dynamic=True` in the words of torch.compile."""
    names = {"nopython": "fullgraph", "dynamic": "dynamic"}
    return tuple((names[name], value) for name, value in keywords.items() if name in names)


_CHECKPOINT_OPTIONS = frozenset({"use_reentrant", "context_fn", "determinism_check", "debug", "preserve_rng_state"})


def _without(keywords: Keywords, names: frozenset[str]) -> Keywords:
    return {key: value for key, value in keywords.items() if key not in names}


def _disabled(function: Value) -> Value:
    if isinstance(function, Function):
        return Function(function.ref, function.bound, function.closure, disabled=True)
    return UNKNOWN


def _wraps(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`wraps(f)` takes the function that follows, and gives that one back; `f` is not called."""
    return Partial(External("functools.update_wrapper"), ())


def _update_wrapper(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    return args[0] if args else UNKNOWN


def _partial(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    if not args:
        return UNKNOWN
    return Partial(args[0], args[1:], tuple((k, v) for k, v in keywords.items() if k not in ("*", "**")))


def _reference(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`weakref.ref(owner)`, which gives the owner when it is called: what compiled code reads through one is alive."""
    return Partial(External("functools.update_wrapper"), args[:1]) if args else UNKNOWN


def _cast(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`cast(Tensor, batch["mask"])`: what is known of the value, or else what it is declared to be."""
    if len(args) == 2 and args[1] == UNKNOWN and isinstance(node, ast.Call):
        return frame.tracer.annotation(node.args[0], frame.module)
    return args[-1] if args else UNKNOWN


def _unwrap(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    return without_none(args[0]) if args else UNKNOWN


def _cond(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`torch.cond(pred, true_fn, false_fn, operands)`."""
    if len(args) < 3:
        return UNKNOWN
    operands = args[3] if len(args) > 3 else Sequence("tuple", ())
    items = operands.items if isinstance(operands, Sequence) and operands.items is not None else ()
    return join_all(frame.tracer.call(branch, items, {}, node, frame) for branch in args[1:3])


def _traced(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`torch.jit.trace(f, x)`: a function stays one, to Dynamo too, whose body nobody traces any more."""
    verdicts = {isinstance(option, (Function, External)) for option in options(args[0] if args else UNKNOWN)}
    if UNKNOWN in args[:1] or len(verdicts) != 1:
        return UNKNOWN
    return ExternalInstance("torch.jit.ScriptFunction" if verdicts.pop() else "torch.jit.TopLevelTracedModule")


def _import_module(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`importlib.import_module("scipy.ndimage")`."""
    name = args[0].value if len(args) == 1 and isinstance(args[0], Const) else None
    if not isinstance(name, str) or name.startswith("."):
        return UNKNOWN
    return frame.tracer.imported(name, "", External(name))


def _reduce(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    if len(args) < 2:
        return UNKNOWN
    item = element_of(args[1])
    start = join(args[2], item) if len(args) > 2 else item
    return frame.tracer.call(args[0], (start, item), {}, node, frame)


def _chain(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    return Sequence("iterator", None, join_all(element_of(arg) for arg in args))


def _default_dict(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    return Mapping()


def _field(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`dataclasses.field(...)` stands for the value that a new object starts with."""
    if "default_factory" in keywords:
        return frame.tracer.call(keywords["default_factory"], (), {}, node, frame)
    return keywords.get("default", UNKNOWN)


def _ordered_dict(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    return frame.tracer.call(External("builtins.dict"), args, keywords, node, frame)


def _tree_map(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    if len(args) < 2:
        return UNKNOWN
    leaf = element_of(args[1]) if isinstance(args[1], (Sequence, Mapping)) else args[1]
    frame.tracer.call(args[0], (leaf,), {}, node, frame)
    return args[1]


def _whole_number(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    return Scalar("int")


def _drawn(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`random.choice(items)`."""
    return element_of(args[0]) if args else UNKNOWN


def _several_drawn(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`random.sample(items, k)`."""
    return Sequence("list", None, _drawn(args, keywords, node, frame))


def _number_drawn(kind: ScalarType) -> Callable[[Args, Keywords, ast.AST | None, Frame], Value]:
    """`random.uniform(a, b)` and the like, which Dynamo draws before the graph starts; elsewhere just a number."""

    def draw(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
        return Scalar(kind, "drawn" if frame.mode == "compiled" else "python")

    return draw


def _where(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    if len(args) == 1 and not keywords.keys() & {"input", "other"}:
        return Sequence("tuple", None, Tensor("int", 1))
    kept = [value for value in args[1:] if isinstance(value, Tensor)]
    return Tensor(kept[0].element if kept else None)


def _autograd_function(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`F.apply(...)` of a torch.autograd.Function: Dynamo traces its forward and its backward."""
    owner = args[0]
    context = ExternalInstance(AUTOGRAD_CONTEXT)
    forward = attributes.get(owner, "forward", frame)
    with_context = not isinstance(owner, Class) or frame.tracer.program.method(owner.ref, "setup_context") is None
    result = frame.tracer.call(forward, (context, *args[1:]) if with_context else args[1:], keywords, node, frame)
    outputs = result.items if isinstance(result, Sequence) and result.items is not None else (result,)
    gradients = tuple(Tensor("float") for _ in outputs)
    frame.tracer.call(attributes.get(owner, "backward", frame), (context, *gradients), {}, node, frame)
    return result


def _is_class(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`inspect.isclass(activation)`: a function that models are given is none, torch's own neither."""
    verdicts = {
        False if _is_function_of_torch(value) else narrowing.is_instance(value, External("builtins.type"))
        for value in options(args[0] if args else UNKNOWN)
    }
    return _agreed(verdicts)


def _is_function(args: Args, keywords: Keywords, node: ast.AST | None, frame: Frame) -> Value:
    """`inspect.isfunction(activation)`: of the project's functions it is told, and of texts and objects."""
    return _agreed({_is_python_function(value) for value in options(args[0] if args else UNKNOWN)})


def _is_python_function(value: Value) -> bool | None:
    """None for what may be one or not: of a library's functions, some are written in C."""
    if isinstance(value, Function):
        return value.bound is None
    return None if value == UNKNOWN or isinstance(value, External) else False


def _agreed(verdicts: set[bool | None]) -> Value:
    verdict = verdicts.pop() if len(verdicts) == 1 else None
    return Scalar("bool") if verdict is None else Const(verdict)


def _is_function_of_torch(value: Value) -> bool:
    """Whether a value is one of torch's functions, by the name it goes by: there are no classes among those in `F`."""
    return isinstance(value, External) and value.name.startswith("torch.nn.functional.")


_HANDLERS: dict[str, Callable[[Args, Keywords, ast.AST | None, Frame], Value]] = {
    "functools.partial": _partial,
    "functools.wraps": _wraps,
    "weakref.ref": _reference,
    "functools.update_wrapper": _update_wrapper,
    "functools.reduce": _reduce,
    "torch.jit.trace": _traced,
    "torch.jit.annotate": _cast,
    "torch.jit._unwrap_optional": _unwrap,
    "typing.cast": _cast,
    "typing_extensions.cast": _cast,
    "importlib.import_module": _import_module,
    "inspect.isclass": _is_class,
    "inspect.isfunction": _is_function,
    "torch.autograd.Function.apply": _autograd_function,
    "torch.cond": _cond,
    "torch.where": _where,
    "itertools.chain": _chain,
    "itertools.filterfalse": asked.choose,
    "itertools.takewhile": asked.choose,
    "itertools.dropwhile": asked.choose,
    "itertools.groupby": asked.group,
    "itertools.starmap": asked.spread,
    "itertools.accumulate": asked.accumulate,
    "heapq.nlargest": asked.largest,
    "heapq.nsmallest": asked.largest,
    "collections.defaultdict": _default_dict,
    "collections.OrderedDict": _ordered_dict,
    "dataclasses.field": _field,
    "torch.utils._pytree.tree_map": _tree_map,
    "random.choice": _drawn,
    "random.choices": _several_drawn,
    "random.sample": _several_drawn,
    "random.randint": _number_drawn("int"),
    "random.randrange": _number_drawn("int"),
    "random.uniform": _number_drawn("float"),
    "random.Random.randint": _number_drawn("int"),
    "random.Random.randrange": _number_drawn("int"),
    "random.Random.uniform": _number_drawn("float"),
    "random.Random.random": _number_drawn("float"),
    "math.ceil": _whole_number,
    "math.floor": _whole_number,
}
