"""A loop, a list or an operator that needs a size as a constant compiles one graph for each size of the input.

## What it does
Finds, in compiled code, what pins the size of an input that driving code passes with another size each time: a Python
loop over it (`range(x.shape[1])`, `for row in x`, `x.unbind(1)`), a list of that length or an index of a list, the
number of `chunk(n)`, the window of `unfold` and of pooling, `one_hot(…, num_classes=n)`, `math.log(n)`.

## Why it costs
The second size makes the dimension a symbol, one graph for all sizes. What must be a constant takes that back: Dynamo
guards on the very size, `x.size()[1] == 24`, and each new one compiles the function again, also with `dynamic=True`,
up to the recompile limit of 8. With `mark_dynamic` it is an error. Measured on torch 2.13: 6 sizes compile 6 times.

## Write instead
- One operation in place of the loop: a sum, `cumsum`, a batched product over the dimension.
- Parts of a fixed size, with the last one padded: `x.unflatten(1, (-1, 8))`. `x.split(8)` compiles once for each number
  of parts.
- `torch.log` of a tensor, `math.sqrt` or `n ** 0.5` for `math.log`, which has no symbolic form.
- A tensor in a buffer for a list that is indexed by a size.
- Or pad inputs to a few sizes and warm up with each.

## Limits
Only sizes that the text of the driving code shows to differ are known: of tensors that it makes, slices or scales.

## References
PyTorch documentation "Dynamic shapes", on specialization.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.collections_passed import is_collection
from compilelint.static.facts.kept_numbers import kept_argument
from compilelint.static.facts.number_uses import is_list
from compilelint.static.facts.passed_sizes import size_varies, varying_size
from compilelint.static.facts.pinned_numbers import OF_SIZES, pinned_arguments

HAZARD = "recompile"
WATCH = Watch(
    nodes=(ast.Call, ast.Subscript, ast.BinOp, ast.For, ast.ListComp, ast.GeneratorExp),
    syntax=lambda node, module: not isinstance(node, ast.BinOp) or isinstance(node.left, ast.List),
    entered=True,
)
TAKEN_AS_IS = "since it takes a number as it is"
FROM_LIST = "to pick from the list"
INSTEAD = {
    TAKEN_AS_IS: "compute with tensors (`torch.log` for `math.log`) or with operators (`n ** 0.5`)",
    FROM_LIST: "keep the table in a buffer and index that",
}


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield what pins a size that differs from call to call."""
    pinned: list[tuple[ast.expr, str, str]] = []
    if isinstance(node, (ast.For, ast.ListComp, ast.GeneratorExp)):
        iterated = [node.iter] if isinstance(node, ast.For) else [turn.iter for turn in node.generators]
        pinned = [(part, size, "to be unrolled") for part in iterated if (size := _gone_through(part, view))]
    elif isinstance(node, ast.expr):
        pinned = [(node, size, why) for part, why in _constants(node, view) if (size := varying_size(part, view))]
    for place, size, why in pinned[:1]:
        what = f"`{view.text(place)}`" if place is node else f"the loop over `{view.text(place)}`"
        yield Hit(
            place,
            f"{what} needs `{size}` as a constant {why}, and driving code passes another size each time:"
            " Dynamo guards on the very size, so each compiles this function again",
            INSTEAD.get(why, "use one operation over the dimension, parts of a fixed size")
            + ", or pad the input to a few sizes",
            "likely",
        )


def _constants(node: ast.expr, view: View) -> Iterator[tuple[ast.expr, str]]:
    """Each expression that has to be a Python constant here, and what for."""
    if isinstance(node, ast.Call):
        if view.callee(node) == "builtins.range":
            yield from ((argument, "to unroll the loop") for argument in node.args)
        elif view.callee(node) in OF_SIZES:
            numbers = pinned_arguments(node, view, OF_SIZES)
            yield from ((part, "to know how many or how large the parts are") for part in numbers)
        else:
            argument = kept_argument(node, view)
            yield from ((part, TAKEN_AS_IS) for part in [argument] if part)
    elif isinstance(node, ast.Subscript):
        of_list = isinstance(node.ctx, ast.Load) and not isinstance(node.slice, (ast.Slice, ast.Tuple))
        if of_list and is_list(view.kind(node.value)):
            yield node.slice, FROM_LIST
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield node.right, "to know how long the list is"


_GOING_THROUGH = tuple(f"builtins.{name}" for name in ("enumerate", "zip", "list", "tuple", "reversed"))


def _gone_through(node: ast.expr, view: View) -> str | None:
    """The size of the dimension along which a loop goes: of `x`, `enumerate(x)`, `zip(x, y)` or `x.unbind(1)`."""
    if isinstance(node, ast.Name):
        if any(0 in passing.sizes and is_collection(passing, node, view) for passing in view.passed(node.id)):
            return None  # CL634
        return f"len({node.id})" if size_varies(node.id, 0, view) else None
    if not isinstance(node, ast.Call):
        return None
    if view.callee(node) in _GOING_THROUGH:
        return next((found for argument in node.args if (found := _gone_through(argument, view))), None)
    if view.callee(node) not in ("torch.Tensor.unbind", "torch.unbind"):
        return None
    of_method = view.callee(node) == "torch.Tensor.unbind" and isinstance(node.func, ast.Attribute)
    tensor = node.func.value if of_method and isinstance(node.func, ast.Attribute) else view.argument(node, 0, "input")
    along = view.argument(node, 0 if of_method else 1, "dim")
    dimension = 0 if along is None else along.value if isinstance(along, ast.Constant) else None
    if not (isinstance(tensor, ast.Name) and isinstance(dimension, int)):
        return None
    return f"{tensor.id}.shape[{dimension}]" if size_varies(tensor.id, dimension, view) else None


BAD = (
    Example(
        code="""\
import math

import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    def __init__(self, chunk=4):
        super().__init__()
        self.proj = nn.Linear(4, 8)
        self.chunk = chunk

    def forward(self, hidden, ids):
        n = max(1, hidden.shape[1] // self.chunk)
        out = [self.proj(part).logsumexp(-1) for part in hidden.chunk(n, 1)]  # ~
        return torch.cat(out, 1) - ids


class Scan(nn.Module):
    def forward(self, x):
        batch, steps, _ = x.shape
        h = x.new_zeros(batch, 4)
        for t in range(steps):  # ~
            h = torch.tanh(h + x[:, t])
        return h / math.log(steps + 1)  # ~


@torch.compile(dynamic=True)
def pooled(images, rows):
    total = F.avg_pool2d(images, images.shape[-1] // 2).sum()  # ~
    for row in rows:  # ~
        total = total + row.sum()
    return total


class Scorer:
    def __init__(self):
        self.head = torch.compile(Head().requires_grad_(False), dynamic=True)
        self.scan = torch.compile(Scan())

    def __call__(self, length):
        self.scan(torch.ones(2, length, 4))
        return self.head(torch.ones(2, length, 4), torch.zeros(2, length))


def pyramid(image, table):
    return [pooled(F.interpolate(image, size=(n, n)), table[:n]) for n in range(4, 8)]


def run(lengths):
    score = Scorer()
    pyramid(torch.ones(1, 1, 4, 4), torch.ones(8, 4))
    return [score(length) for length in lengths]
""",
        run="(run, [((8, 12, 16, 20),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # A function makes the tensors with the size that it is given.
        code="""\
import torch
from torch import nn


class Reinforce(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 1)

    def forward(self, obs, rewards):
        total, returns = 0.0, []
        for reward in reversed(list(rewards.unbind(0))):  # ~
            total = reward + 0.9 * total
            returns.append(total)
        return (self.net(obs).squeeze(-1) * torch.stack(returns)).mean()


def rollout(length, dim=3):
    obs = torch.randn(length, dim)
    return obs, torch.ones(length)


def train(lengths):
    agent = torch.compile(Reinforce())
    for length in lengths:
        obs, rewards = rollout(length)
        agent(obs, rewards)
""",
        run="(train, [([4, 6, 3, 7],)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # A size that may be a symbol, one that stays the same, and parts of a fixed size.
        code="""\
import torch
from torch import nn


class Scan(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = [1.0, 2.0, 3.0, 4.0]

    def forward(self, x):
        batch, steps, width = x.shape
        total = torch.zeros(batch, width) + torch.arange(steps).sum()
        for i in range(width):
            total = total + x[..., i : i + 1].sum(1)
        for part in x.unbind(-1):
            total = total + part.sum() / steps**0.5
        return total * self.table[width - 1]


class Scorer:
    def __init__(self):
        self.scan = torch.compile(Scan(), dynamic=True)

    def __call__(self, length):
        return self.scan(torch.ones(2, length, 4))
""",
        run="(Scorer(), [(length,) for length in (8, 12, 16, 20)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        # Windows of one width, and a length that nothing here says varies.
        code="""\
import torch


@torch.compile
def scan(x):
    total = x.sum(0)
    for row in x:
        total = torch.tanh(total + row)
    for i in range(x.shape[0]):
        total = total + x[i]
    return total


def run(x, width=4):
    out = [scan(x[i : i + width]) for i in range(8)]
    return out + [scan(torch.ones(width, 4) * i) for i in range(4)]
""",
        run="(run, [(torch.ones(16, 4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        # As many each time, whatever is in them.
        code="""\
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(4, 4, 1)

    def forward(self, x, controls):
        for control in controls:
            x = x + control
        return self.net(x)


class Sampler:
    def __init__(self):
        self.net = torch.compile(Denoiser().requires_grad_(False))

    def __call__(self, x, hints, steps=4):
        for i in range(steps):
            x = self.net(x, [hint * i for hint in hints])
            x = self.net(x, [hints[j] for j in range(len(hints)) if j >= 0])
        return x
""",
        run="(Sampler(), [(torch.ones(1, 4, 4, 4), [torch.ones(1, 4, 4, 4) for _ in range(3)])])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        code="""\
import torch
from torch import nn


class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 1)

    def forward(self, x, parts):
        return sum(self.net(x) * part for part in parts.unbind(0))


def sample(length, count=2):
    return torch.randn(length, 3), torch.ones(count)


def train(lengths):
    model = torch.compile(Scored(), dynamic=True)
    for length in lengths:
        x, parts = sample(length)
        model(x, parts)
""",
        run="(train, [([4, 6, 3, 7],)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
