"""A decode loop that feeds the model an ever longer input compiles for new sizes and repeats old work.

## What it does

In a loop that calls a model each turn, finds a tensor that is made longer with `torch.cat` and a list that is
appended to, where the model gets the whole of it as an argument on the next turn: `logits = model(ids)`, then `ids =
torch.cat([ids, new], dim=1)`.

## Why it costs

- A tensor of a new size compiles a second time with a dynamic dimension, and CUDA graphs (`mode="reduce-overhead"`)
  are recorded again for each length, one recording per token.
- A list of a new length compiles again every time: Dynamo guards on the length (measured on torch 2.13: 6 lengths, 6
  compilations), until the recompile limit.
- Without a cache of keys and values each turn does the work of all turns before it.

## Write instead

- Feed the last token only, `model(ids[:, -1:], cache)`, with a cache of fixed size that is written in place.
- Or pad the input to its final length once and pass the position as a tensor.
- Collect outputs in a list if needed, and `torch.cat` after the loop.

## References

PyTorch documentation "Dynamic shapes" and "CUDAGraph Trees".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.state import own_nodes, same_place
from compilelint.static.values import Class, Compiled, Instance, options

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Assign, ast.Call), regions=frozenset({"decode-loop"}))
JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.hstack", "torch.vstack"})
MODELS = ("model", "net", "decoder", "unet", "transformer", "lm", "policy")


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the statement or call that makes the model's next input longer."""
    grown = _grown(node, view)
    if grown is None or _starts_anew(grown, node, view):
        return
    call = next((call for call in _model_calls(view) if any(same_place(value, grown) for value in _inputs(call))), None)
    if call is None:
        return
    what = "list, and Dynamo guards on its length" if isinstance(node, ast.Call) else "tensor, a new size"
    assert isinstance(node, (ast.expr, ast.stmt))
    yield Hit(
        node,
        f"`{view.text(grown)}` is longer on every turn and `{view.text(call.func)}` gets all of it: each turn brings a"
        f" longer {what}, so the model compiles again, and CUDA graphs are recorded per length",
        "feed the last step only, with a cache of fixed size that is written in place, or pad to the final length once",
        confidence="likely",
    )


def _grown(node: ast.AST, view: View) -> ast.expr | None:
    """The variable that `x = torch.cat([x, …])` or `x.append(…)` makes longer."""
    if isinstance(node, ast.Call):
        is_append = isinstance(node.func, ast.Attribute) and node.func.attr == "append"
        return node.func.value if is_append and isinstance(node.func, ast.Attribute) else None
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and view.callee(node.value) in JOINS):
        return None
    parts = view.argument(node.value, 0, "tensors")
    target = node.targets[0]
    if isinstance(parts, (ast.List, ast.Tuple)) and any(same_place(part, target) for part in parts.elts):
        return target
    return None


def _starts_anew(grown: ast.expr, node: ast.AST, view: View) -> bool:
    """Whether the variable is set to something else on each turn, so that it grows once and not on and on."""
    loop = next((parent for parent in view.parents(node) if isinstance(parent, (ast.For, ast.While))), None)
    if loop is None:  # the loop is in a caller, and a variable of this function ends with each call
        return isinstance(node, ast.Assign) and isinstance(grown, ast.Name)
    return any(
        isinstance(other, ast.Assign)
        and other is not node
        and any(same_place(target, grown) for target in other.targets)
        and not any(isinstance(part, ast.expr) and same_place(part, grown) for part in ast.walk(other.value))
        for other in ast.walk(loop)
    )


def _model_calls(view: View) -> Iterator[ast.Call]:
    """Calls of a compiled function, of a module, or of something named like a model."""
    for node in own_nodes(view.function):
        if isinstance(node, ast.Call) and view.reached(node):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            kinds = options(view.kind(node.func))
            is_named = name.lower().strip("_").split("_")[-1] in MODELS and not any(isinstance(k, Class) for k in kinds)
            if is_named or any(isinstance(k, Compiled) or (isinstance(k, Instance) and k.is_module) for k in kinds):
                yield node


def _inputs(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


BAD = (
    Example(
        code="""
import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, dim=4, vocab=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.embed(ids))


class Generator:
    def __init__(self):
        self.net = torch.compile(LM())

    @torch.no_grad()
    def __call__(self, ids):
        for _ in range(4):
            new = self.net(ids)[:, -1:].argmax(-1)
            ids = torch.cat([ids, new], dim=1)  # ~
        return ids
""",
        run="Generator(), [(torch.ones(1, 2, dtype=torch.long),)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, states):
        return self.proj(x + sum(states))  # ~ CL627


class Loop:
    def __init__(self):
        self.model = torch.compile(Mixer())

    @torch.no_grad()
    def __call__(self, x):
        states = [x]
        for _ in range(4):
            x = self.model(x, states)
            states.append(x)  # ~
        return x
""",
        run="Loop(), [(torch.ones(2, 4),)]",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""
import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, dim=4, vocab=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.embed(ids))


class Generator:
    def __init__(self):
        self.net = torch.compile(LM())

    @torch.no_grad()
    def __call__(self, ids):
        seen = ids
        tokens = []
        for _ in range(4):
            ids = self.net(ids).argmax(-1)
            seen = torch.cat([seen, ids], dim=1)
            tokens.append(ids)
        return seen, torch.cat(tokens, dim=1)
""",
        run="Generator(), [(torch.ones(1, 2, dtype=torch.long),)]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        code="""
import torch
from torch import nn


class Denoiser:
    def __init__(self):
        self.net = torch.compile(nn.Linear(8, 4))

    def predict(self, latents, mask):
        latents = torch.cat([latents, mask], dim=-1)
        return self.net(latents)

    @torch.no_grad()
    def __call__(self, latents, mask):
        for _ in range(4):
            model_input = latents * 0.5
            model_input = torch.cat([model_input, mask], dim=-1)
            latents = latents - self.net(model_input)
            latents = latents - self.predict(latents, mask)
        return latents
""",
        run="Denoiser(), [(torch.ones(2, 4), torch.zeros(2, 4))]",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
