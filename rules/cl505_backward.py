"""Calling backward inside compiled code splits the graph.

## What it does
Finds `loss.backward()`, `torch.autograd.backward(...)` and steps of optimizers and schedulers, and optimizers that
are made, in code that Dynamo traces.

## Why it costs
Dynamo traces forward code and leaves the backward graph to autograd: `Tensor.backward` breaks by default (GB0123,
`torch.autograd.backward` GB0007), `optimizer.zero_grad()` and `scheduler.step()` are marked as not traced (GB0007,
GB0008), and `optimizer.step()` holds a break on purpose (GB0025). A compiled training step that holds all three falls
into pieces.

## Write instead
Compile the model, or a function that ends with the loss, and call `backward` outside; its backward pass is compiled
nonetheless. To compile the optimizer give its step a function of its own: `torch.compile(optimizer.step)`, or
`torch._dynamo.config.trace_autograd_ops = True` for `backward` (torch 2.11 on).

## Limits
A `backward` of an unknown object counts if it takes no argument but keywords, as a tensor's does. Measured on torch
2.13.

## References
torch.compile documentation: "Common Graph Breaks"; "Compiling the optimizer". GB0007, GB0008, GB0025, GB0123.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name

HAZARD = "graph-break"
OPTIMIZER_METHODS = frozenset({"step", "zero_grad", "add_param_group", "load_state_dict"})
WATCH = Watch(
    nodes=(ast.Call,),
    callees=lambda name: name.startswith("torch.optim.") or name.rpartition(".")[2] in OPTIMIZER_METHODS | {"backward"},
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per backward pass, and per step of an optimizer or scheduler."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    if callee in ("torch.Tensor.backward", "torch.autograd.backward") or (callee == "?.backward" and not node.args):
        yield Hit(
            node,
            f"`{view.text(node)}` starts a backward pass, which Dynamo does not trace: the graph splits here",
            "return the loss and call `backward` outside the compiled function (its backward pass is compiled too), or "
            "set `torch._dynamo.config.trace_autograd_ops = True` (torch 2.11 on)",
            "likely" if callee.startswith("?") else "certain",
        )
    elif (callee.startswith("torch.optim.") or is_optimizer(node.func, view)) and callee.rpartition(".")[
        2
    ] in OPTIMIZER_METHODS:
        yield Hit(
            node,
            f"`{view.text(node)}` is kept out of graphs by torch: the graph splits here",
            "call it outside the compiled function, or compile it by itself: `torch.compile(optimizer.step)`",
        )
    elif callee.startswith("torch.optim.") and callee.count(".") == 2 and callee.rpartition(".")[2][:1].isupper():
        yield Hit(
            node,
            f"`{view.text(node)}` makes an optimizer in compiled code, which Dynamo does not trace",
            "make it once, outside the compiled function",
        )


def is_optimizer(method: ast.expr, view: View) -> bool:
    """Whether the file binds the receiver of `method` to something out of torch.optim."""
    name = last_name(method.value) if isinstance(method, ast.Attribute) else ""
    makers = view.makers(name) if name else frozenset()
    return bool(makers) and all(maker.startswith(("torch.optim.", "optim.")) for maker in makers)


BAD = (
    Example(
        code="""\
import torch
from torch import nn

model = nn.Linear(4, 1)


@torch.compile
def train_step(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # ~
    return loss.detach()
""",
        run="(train_step, [(torch.ones(2, 4), torch.ones(2, 1))])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


@torch.compile
def train_step(x):
    optimizer.zero_grad()  # ~
    return model(x).square().mean()
""",
        run="(train_step, [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


@torch.compile
def loss_of(x, y):
    return nn.functional.mse_loss(model(x), y)


def train_step(x, y):
    loss = loss_of(x, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()
""",
        run="(loss_of, [(torch.ones(2, 4), torch.ones(2, 1))])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
