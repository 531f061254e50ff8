"""A branch on the size of an input is decided once for each side; an engine that drops guards decides it once for all.

## What it does
Finds `if`, `while` and ternaries in compiled code that ask about the first size of a tensor: `x.shape[0] > 3`,
`x.size(0) == 1`, `len(x) < limit`, also through one variable. Checks that only raise are left out.

## Why it costs
Dynamo takes the side that the first input asks for and guards on the answer. An input on the other side compiles the
function a second time; both are kept then, so under plain torch.compile this is reported as possible only. With
`engine = "vllm"` in the settings it is a wrong result waiting to happen: vLLM compiles a model once for all numbers of
tokens and drops the guards, so every later batch takes the side of the batch that was traced. Measured on torch 2.13
with `torch.compiler.skip_all_guards_unsafe`.

## Write instead
- Compute both and pick on the device: `torch.where(torch.arange(n) < limit, a, b)`, or pad to the larger case.
- Decide outside of the compiled code, or mark an operator that decides for itself (`torch.library.custom_op`).
- What may only speed things up asks `torch.fx.experimental.symbolic_shapes.statically_known_true(…)`, which adds no
  guard.

## Limits
Sizes other than the first are taken to be the same for all inputs.

## References
PyTorch documentation "Dynamic shapes"; vLLM documentation, "torch.compile integration".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import assigned_once
from compilelint.static.facts.state import own_nodes
from compilelint.static.facts.tensors import on_error_path, site_of
from compilelint.static.values import Scalar, options, tensor_certainty

HAZARD = "recompile"
WATCH = Watch(tests=True)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the test that asks about the first size of a tensor."""
    if not isinstance(node, ast.Compare) or view.assumed or on_error_path(node, view):
        return
    size = next((side for side in (node.left, *node.comparators) if _is_first_size(side, view)), None)
    site, _ = site_of(node, view)
    if size is None or not isinstance(site, (ast.If, ast.IfExp, ast.While)) or _only_raises(site):
        return
    if view.engine == "vllm":
        yield Hit(
            node,
            f"`{view.text(node)}` asks about the size of the batch, and the engine drops the guard on the answer: every"
            " later batch takes the side of the one that was traced",
            "compute both sides and pick with `torch.where`, or decide outside of the compiled code",
            "likely",
            hazard="stale-result",
        )
    else:
        yield Hit(
            node,
            f"`{view.text(node)}` asks about a size: Dynamo guards on the answer and compiles a second time for the"
            " other side",
            "pad to the larger case or pick with `torch.where`; what only speeds things up asks"
            " `statically_known_true(…)`",
            "possible",
        )


def _is_first_size(node: ast.expr, view: View) -> bool:
    """`x.shape[0]`, `x.size(0)`, `len(x)` of a tensor, or a variable that is one of these."""
    if not all(isinstance(option, Scalar) and option.origin == "shape" for option in options(view.kind(node))):
        return False
    made = assigned_once(view.function, node.id) if isinstance(node, ast.Name) else node
    if made is None and isinstance(node, ast.Name):
        return _unpacked_first(node.id, view)
    if isinstance(made, ast.Subscript):
        return isinstance(made.value, ast.Attribute) and made.value.attr == "shape" and _is_zero(made.slice)
    if not isinstance(made, ast.Call) or len(made.args) != 1:
        return False
    if isinstance(made.func, ast.Attribute):
        return made.func.attr == "size" and _is_zero(made.args[0])
    return view.callee(made) == "builtins.len" and tensor_certainty(view.kind(made.args[0])) is not None


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _unpacked_first(name: str, view: View) -> bool:
    """`n` of `n, dim = x.shape`."""
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.targets[0].elts[0], ast.Name)
        and node.targets[0].elts[0].id == name
        and ast.unparse(node.value).endswith((".shape", ".size()"))
        for node in own_nodes(view.function)
    )


def _only_raises(site: ast.If | ast.IfExp | ast.While) -> bool:
    """Whether the branch is a check: it does nothing but raise."""
    return isinstance(site, ast.If) and isinstance(site.body[-1], ast.Raise)


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.small = nn.Linear(4, 4)
        self.large = nn.Linear(4, 4)

    def forward(self, x):
        tokens = x.shape[0]
        if tokens < 4:  # ~
            return self.small(x)
        return self.large(x) if x.size(0) > 6 else x  # ~


def make():
    model = Experts()
    compiled = torch.compile(  # ~ CL910
        model, dynamic=True, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    )

    def serve(x):
        return compiled(x)

    return serve
""",
        run="(make(), [(torch.ones(n, 4),) for n in (8, 2)])",
        default="stale",
        fullgraph="stale",
        inside=True,
        engine="vllm",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, mask=None):
        if x.dim() != 2 or x.shape[-1] != 4:
            raise ValueError("expected rows of 4")
        if len(x.shape) == 2 and mask is not None:
            x = x * mask
        keep = torch.arange(x.shape[0]) < 4
        return torch.where(keep[:, None], self.proj(x), x)
""",
        run="(Experts(), [(torch.ones(8, 4),) for _ in range(2)])",
        default="clean",
        fullgraph="clean",
        engine="vllm",
    ),
    Example(
        # Under plain torch.compile each side is compiled once, which is reported as possible.
        code="""\
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return self.proj(x) if x.shape[0] > 3 else x * 2
""",
        run="(Experts(), [(torch.ones(n, 4),) for n in (2, 8)])",
        default="recompile",
        fullgraph="recompile",
    ),
)
