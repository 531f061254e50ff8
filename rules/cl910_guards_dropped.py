"""A compiled function whose guards are dropped keeps computing with the values it was traced with.

## What it does
Finds `torch.compile(…, options={"guard_filter_fn": …})` with one of torch's filters that drop guards on values, or with
a function that drops all of them (`lambda guards: [False for _ in guards]`), and
`torch.compiler.set_stance(skip_guard_eval_unsafe=True)`.

## Why it costs
Guards are what notices that an attribute, a flag or a size is another one than at the first call. Without them the
graph of the first call answers for all: measured on torch 2.13, a module whose `self.scale` has changed goes on
multiplying by the old one under `skip_all_guards_unsafe`, `skip_guard_on_all_nn_modules_unsafe` and
`keep_tensor_guards_unsafe`. Serving engines that drop guards on purpose (vLLM does) promise that nothing changes.

## Write instead
Keep the guards, and make what is expensive about them cheaper: `torch._dynamo.config.guard_nn_modules`,
`skip_guard_on_inbuilt_nn_modules_unsafe` (layers of torch.nn only), fewer Python attributes in `forward`. Where guards
must go, hold the assumptions in a test: `compilelint --runtime` shows what the function is guarded on.

## References
PyTorch documentation, `torch.compiler.skip_all_guards_unsafe` and `torch.compiler.set_stance`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "stale-result"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"compile", "set_stance"}), regions=frozenset({"host", "decode-loop"}))
DROPPING = frozenset(
    f"torch.compiler.{name}"
    for name in ("skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe", "keep_tensor_guards_unsafe")
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the call that compiles, or runs compiled code, without the guards on values."""
    if not isinstance(node, ast.Call):
        return
    what = _stance(node, view) if view.callee(node) == "torch.compiler.set_stance" else _filter(node, view)
    if what is not None:
        yield Hit(
            node,
            f"{what} drops the guards on values: when an attribute or a flag changes, the compiled code goes on with"
            " the old one",
            "keep the guards, or drop only `torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe`",
        )


def _stance(call: ast.Call, view: View) -> str | None:
    unsafe = [k for k in call.keywords if k.arg == "skip_guard_eval_unsafe" and isinstance(k.value, ast.Constant)]
    return f"`{view.text(call)}`" if any(k.value.value for k in unsafe if isinstance(k.value, ast.Constant)) else None


def _filter(call: ast.Call, view: View) -> str | None:
    """The filter that `options={"guard_filter_fn": …}` names, if it drops guards on values."""
    options = next((keyword.value for keyword in call.keywords if keyword.arg == "options"), None)
    if not isinstance(options, ast.Dict) or view.callee(call) != "torch.compile":
        return None
    for key, value in zip(options.keys, options.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "guard_filter_fn":
            named = ast.unparse(value)
            if named in DROPPING or named.replace("tc.", "torch.compiler.") in DROPPING or _drops_all(value):
                return f"`{view.text(value)}`"
    return None


def _drops_all(value: ast.expr) -> bool:
    """`lambda guards: [False for _ in guards]`, or `[False] * len(guards)`."""
    body = value.body if isinstance(value, ast.Lambda) else None
    if isinstance(body, ast.BinOp) and isinstance(body.left, ast.List) and body.left.elts:
        body = body.left.elts[0]
    element = body.elt if isinstance(body, ast.ListComp) else body
    return isinstance(element, ast.Constant) and element.value is False


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x):
        return x * self.scale


def make():
    model = Scaled()
    compiled = torch.compile(  # ~
        model, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    )

    def serve(x, scale):
        model.scale = scale
        return compiled(x)

    return serve
""",
        run="(make(), [(torch.ones(2), scale) for scale in (1.0, 2.0)])",
        default="stale",
        fullgraph="stale",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x):
        return x * self.scale


def make():
    model = Scaled()
    compiled = torch.compile(
        model, options={"guard_filter_fn": torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe}
    )

    def serve(x):
        return compiled(x)

    return serve
""",
        run="(make(), [(torch.ones(2),) for _ in range(2)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
