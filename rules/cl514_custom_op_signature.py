"""A fake implementation that does not take what its operator takes fails when it is traced.

## What it does
Finds calls of a custom operator, in code that Dynamo traces, whose fake implementation can't be called the same way:
it lacks a default that the operator has and the call leaves out or repeats, or lacks the parameter, or is missing.

## Why it costs
Dynamo runs the fake implementation with the arguments that the call gives. The real function fills in its defaults,
the fake one must do so too; otherwise the call raises `TypeError` while tracing and the graph splits there (GB0112),
at every call site that relies on the default. Without any fake implementation compiling fails with an error, in
default mode too.

## Write instead
Give the fake implementation the signature of the operator, defaults included:

    @norm_scale.register_fake
    def _(x, scale, eps=1e-5):
        return torch.empty_like(x)

## Limits
Operators and their fake implementations are matched within one file, by `@op.register_fake`, by the operator's name
in `torch.library.register_fake("ns::op")`, or by a schema given to `torch.library.define`. `torch.library.opcheck`
tests more. Measured on torch 2.13.

## References
torch.library documentation: `custom_op`, `register_fake`, `opcheck`. GB0112.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache

from compilelint.record import record
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.project.answers import about_file

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), syntax=lambda node, module: has_operators(module))
FAKES = ("register_fake", "impl_abstract", "register_meta")


@record(frozen=True, slots=True)
class Operator:
    """An operator of the file. `label` is what people call it by: its variable and its `ns::op` name.

    `defaults` has the source of each default value, by parameter.
    """

    label: frozenset[str]
    parameters: tuple[str, ...]
    defaults: Mapping[str, str]


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Two hits per call that its fake implementation can't take: the call and the signature; one if there is none."""
    operator = operator_called(node, view.module) if isinstance(node, ast.Call) else None
    if operator is None or not isinstance(node, ast.Call) or not understood(node):
        return
    fakes = [function for function in fakes_in(view.module) if operator.label & labels_of_fake(function)]
    if not fakes and not has_others(view.module):
        yield Hit(
            node,
            f"`{view.text(node.func)}` has no fake implementation, so compiling this call fails",
            f"register one: `@{view.text(node.func)}.register_fake`, with the operator's signature",
            "likely",
        )
    for fake in fakes:
        missing = what_fails(node, operator, fake)
        if missing:
            yield Hit(
                node,
                f"`{view.text(node)}` relies on `{missing}`, which the fake implementation does not fill in: "
                "tracing raises TypeError and the graph splits here",
                f"give the fake implementation in line {fake.lineno} the operator's signature, defaults included",
            )
            yield Hit(
                fake,
                f"this fake implementation does not take `{missing}` the way its operator does: calls fail in tracing",
                "copy the operator's signature, defaults included",
            )


def understood(call: ast.Call) -> bool:
    """Whether it can be told which parameters a call gives."""
    return not any(isinstance(a, ast.Starred) for a in call.args) and all(k.arg for k in call.keywords)


def operator_called(call: ast.AST, module: ast.Module) -> Operator | None:
    """The operator of this file that is called, by variable or as `torch.ops.ns.op`."""
    operators = operators_in(module)
    if not operators or not isinstance(call, ast.Call):
        return None
    name = ast.unparse(call.func).removesuffix(".default")
    if name.startswith("torch.ops."):
        name = "::".join(name.split(".")[2:4])
    return next((operator for operator in operators if name in operator.label), None)


def has_operators(module: ast.Module) -> bool:
    """Whether the file makes an operator of its own."""
    return bool(operators_in(module))


@lru_cache(maxsize=256)
def operators_in(module: ast.Module) -> tuple[Operator, ...]:
    """The operators a file defines; found once per file, since the rule asks at every call."""
    return tuple(_operators(module))


def _operators(module: ast.Module) -> Iterator[Operator]:
    """Functions under `torch.library.custom_op` and schemas given to `torch.library.define`."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                # A project's own `register_custom_op` may make the fake implementation as well.
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] == "custom_op":
                    label = frozenset({node.name, *strings(decorator.args)})
                    yield Operator(label, parameters_of(node), defaults_of(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            given = strings(node.value.args)
            if ast.unparse(node.value.func).endswith("library.define") and len(given) == 2:
                yield from of_schema(*given)


def of_schema(name: str, schema: str) -> Iterator[Operator]:
    """The operator that `(Tensor x, float eps=1e-5) -> Tensor` declares; none if it has nested parentheses."""
    inner, arrow, _ = schema.partition("->")
    inner = inner.strip()
    if not arrow or inner.count("(") != 1:
        return
    parts = [part.strip() for part in inner.strip("()").split(",") if part.strip() not in ("", "*")]
    names = [part.partition("=")[0].split()[-1] for part in parts]
    defaults = {n: part.partition("=")[2].strip() for n, part in zip(names, parts, strict=True) if "=" in part}
    yield Operator(frozenset({name}), tuple(names), defaults)


def fakes_in(module: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions that are registered as a fake implementation by a decorator."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and labels_of_fake(node):
            yield node


@about_file(False)
def has_others(module: ast.Module) -> bool:
    """Whether the file registers fake implementations otherwise than by decorators, so that nobody knows whose."""
    decorators = {id(node) for function in fakes_in(module) for d in function.decorator_list for node in ast.walk(d)}
    return any(
        isinstance(node, (ast.Attribute, ast.Name))
        and (node.attr if isinstance(node, ast.Attribute) else node.id) in FAKES
        and id(node) not in decorators
        for node in ast.walk(module)
    )


def labels_of_fake(function: ast.FunctionDef) -> set[str]:
    """What a fake implementation says it is for: `{"norm_scale"}`, `{"ns::op"}`."""
    found: set[str] = set()
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(target, ast.Attribute) and target.attr in FAKES:
            named = strings(decorator.args) if isinstance(decorator, ast.Call) else []
            found |= set(named) or {ast.unparse(target.value)}
    return found


def what_fails(call: ast.Call, operator: Operator, fake: ast.FunctionDef) -> str | None:
    """The parameter because of which `fake` can't be called as `call` calls the operator."""
    taken, optional = parameters_of(fake), defaults_of(fake)
    values = dict(zip(operator.parameters, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    # torch leaves an argument out of the traced call when it equals the default.
    given = {name for name, value in values.items() if ast.unparse(value) != operator.defaults.get(name)}
    if fake.args.vararg is None and len(call.args) > len(taken):
        return operator.parameters[len(taken)] if len(taken) < len(operator.parameters) else None
    for position, parameter in enumerate(taken):
        meant = operator.parameters[position] if position < len(operator.parameters) else parameter
        if meant not in given and parameter not in optional and meant in operator.defaults:
            return f"{parameter}="
    unknown = [k.arg for k in call.keywords if k.arg and k.arg not in taken and k.arg in operator.parameters]
    return unknown[0] if unknown and fake.args.kwarg is None else None


def parameters_of(function: ast.FunctionDef) -> tuple[str, ...]:
    """Names of the parameters, in order."""
    return tuple(a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs))


def defaults_of(function: ast.FunctionDef) -> dict[str, str]:
    """The source of each parameter's default, for those that have one."""
    ordered = [*function.args.posonlyargs, *function.args.args]
    positional = zip(reversed(ordered), reversed(function.args.defaults), strict=False)
    keyword = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return {a.arg: ast.unparse(value) for a, value in (*positional, *keyword) if value is not None}


def strings(nodes: list[ast.expr]) -> list[str]:
    """The string constants among `nodes`."""
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


BAD = (
    Example(
        code="""\
import torch
from torch import nn


@torch.library.custom_op("examplelab::norm_scale", mutates_args=())
def norm_scale(x: torch.Tensor, scale: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return x / (x.std(-1, keepdim=True) + eps) * scale


@norm_scale.register_fake
def _(x, scale, eps):  # ~
    return torch.empty_like(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x):
        return norm_scale(x, self.scale) + norm_scale(x, self.scale, 1e-05)  # ~
""",
        run="(Block(), [(torch.rand(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


@torch.library.custom_op("examplelab::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float = 2.0, shift: float = 0.0) -> torch.Tensor:
    return x * factor + shift


@scaled.register_fake
def _(x, factor=2.0, shift=0.0):
    return torch.empty_like(x)


@torch.library.custom_op("examplelab::halved", mutates_args=())
def halved(x: torch.Tensor, factor: float = 0.5) -> torch.Tensor:
    return x * factor


@torch.library.register_fake("examplelab::halved")
def halved_fake(x, factor):
    return torch.empty_like(x)


class Block(nn.Module):
    def forward(self, x):
        return scaled(x) + halved(x, 0.3) + torch.ops.examplelab.halved(x, 0.25)
""",
        run="(Block(), [(torch.rand(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
