"""A setting that hides failures of the compiler leaves code that runs uncompiled without a word.

## What it does
Finds assignments to the settings of `torch._dynamo.config` by which a failure no longer shows:
`suppress_errors = True`, and a `recompile_limit` or `cache_size_limit` far above the default of 8 (from 64 on).

## Why it costs
With `suppress_errors` a frame that cannot be compiled runs eagerly, and the only sign is a log line. A raised limit
keeps compiling where the limit would have stopped: each entry is tried in turn at every call, and each new value costs
a compilation of seconds. Both hide what is wrong, and the program is slower than it looks. Measured on torch 2.13: a
backend that raises is heard of without `suppress_errors`, and with it the function runs uncompiled; an attribute with
20 values compiles 8 times by default and 20 times under a limit of 1024.

## Write instead
- For a failure: fix it, or take the function out on purpose with `@torch.compiler.disable(reason="…")`.
- For recompiles: find the guard that fails (`TORCH_LOGS=recompiles`, or `compilelint --runtime`) and make that value
  dynamic. `torch._dynamo.config.error_on_recompile = True` in a test keeps it that way.

## Limits
Benchmarks and tests, by the name of their file or folder, may raise the limit: they go through many shapes on purpose.

## References
PyTorch documentation "Dealing with Recompilations"; config `recompile_limit`, up to torch 2.6 `cache_size_limit`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "placement"
WATCH = Watch(nodes=(ast.Assign,), regions=frozenset({"host"}))
LIMITS = frozenset({"recompile_limit", "cache_size_limit"})
FAR_ABOVE = 64
"""Eight times the default. Smaller ones are what a model with a few kinds of input needs."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the assignment to a setting that hides failures."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return
    setting = ast.unparse(node.targets[0])
    owner, _, name = setting.rpartition(".")
    if not owner.endswith("dynamo.config"):
        return
    value = node.value.value
    if name in LIMITS and isinstance(value, int) and value >= FAR_ABOVE and not view.measures:
        yield Hit(
            node.targets[0],
            f"`{name} = {value}` lets a function compile up to {value} times before torch gives up: recompiles go on"
            " unnoticed",
            "find the guard that fails (`TORCH_LOGS=recompiles`) and make its value dynamic",
            "likely",
        )
    elif name == "suppress_errors" and value is True:
        yield Hit(
            node.targets[0],
            "with `suppress_errors` what cannot be compiled runs eagerly, without an error",
            '`@torch.compiler.disable(reason="…")` on the function that fails, so that the rest is seen to compile',
        )


BAD = (
    Example(
        code="""\
import torch
import torch._dynamo
from torch import nn

torch._dynamo.config.suppress_errors = True  # ~
torch._dynamo.config.cache_size_limit = 1024  # ~

compiled = torch.compile(nn.Linear(4, 4))
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
import torch._dynamo
from torch import nn

torch._dynamo.config.suppress_errors = False
torch._dynamo.config.recompile_limit = 16
torch._dynamo.config.capture_scalar_outputs = True

compiled = torch.compile(nn.Linear(4, 4))
""",
    ),
)
